"""Dirty paths: which versions a changed text raises, and which nodes can be summarized now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from memforest_core.domain.ids import NodeId
from memforest_core.memtree.nodes import Node
from memforest_core.memtree.paths import Paths, order


def mark_dirty(loaded: Iterable[Node], node_ids: Iterable[NodeId]) -> tuple[Node, ...]:
    """The named nodes and all their ancestors with version + 1, each once, parents before children.

    ``loaded`` must hold the named nodes and their ancestors. A named leaf stays clean at its new
    version: its text is its payload's, only those above it have something to summarize.

    Raises NotLoaded when a named node or an ancestor is missing.
    """
    paths = Paths(loaded)
    marked: dict[NodeId, Node] = {}
    for node_id in node_ids:
        node = paths.node(node_id)
        marked[node.id] = node
        marked.update((above.id, above) for above in paths.ancestors(node))
    return tuple(_raised(node) for node in sorted(marked.values(), key=lambda node: -node.level))


def _raised(node: Node) -> Node:
    version = node.version + 1
    clean = version if node.level == 0 else node.clean_version
    return replace(node, version=version, clean_version=clean)


def ready(nodes: Iterable[Node]) -> tuple[NodeId, ...]:
    """The dirty nodes without a dirty child, lowest level first, then in key order.

    ``nodes`` must hold every dirty node of the tree; clean ones make no difference.
    """
    dirty = [node for node in nodes if node.dirty]
    waiting = {node.parent_id for node in dirty}
    free = [node for node in dirty if node.id not in waiting]
    return tuple(node.id for node in sorted(free, key=lambda node: (node.level, order(node))))
