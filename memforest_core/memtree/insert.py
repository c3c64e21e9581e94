"""Inserting a batch of leaves: descend once, split what overflows, raise each version once."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from memforest_core.domain.ids import NodeId, TreeId
from memforest_core.memtree.edit import Edit
from memforest_core.memtree.nodes import Diff, Node, TreeHead
from memforest_core.memtree.paths import Paths, order


class KeyTaken(ValueError):
    """Two different leaves claim the same key."""


def insert(head: TreeHead, loaded: Iterable[Node], batch: Sequence[Node], new_id: Callable[[], NodeId]) -> Diff:
    """The diff that inserts ``batch`` (any size, any order) into the tree of ``head``.

    ``loaded`` must hold, in any order, repetitions allowed, more being harmless:

    1. for each key of the batch, the level-1 node it descends to: the one with the greatest
       separator <= key at level 1, else the leftmost, which has no separator;
    2. all ancestors of those, up to the root;
    3. all children of every node of 1 and 2.

    A leaf whose id or payload is already in ``loaded``, or earlier in the batch, is left out: its
    first key stays. With no leaf left the diff is empty. Otherwise each stored node that a new
    leaf descends through gets version + 1, once; nodes that only move to another parent keep
    theirs; no stored ``clean_version`` changes. The root's id does not change.

    Raises NotLoaded when a needed node is missing, KeyTaken when a key belongs to another leaf.
    """
    if not batch:
        return Diff((), (), (), head)
    paths = Paths(loaded)
    root = paths.root(head)
    fresh = fresh_leaves(head.tree_id, paths, batch)
    if not fresh:
        return Diff((), (), (), head)
    edit = Edit(head, paths, new_id)
    return edit.set_root(root, _grown(edit, paths, root, fresh, rightmost=True))


def fresh_leaves(tree_id: TreeId, paths: Paths, batch: Iterable[Node]) -> list[Node]:
    """The leaves of ``batch`` that are not there yet, in key order. Raises KeyTaken."""
    stored = [node for node in paths if node.level == 0]
    ids = {leaf.id for leaf in stored}
    payloads = {leaf.payload_id for leaf in stored}
    keys = {leaf.key for leaf in stored}
    fresh: list[Node] = []
    for leaf in batch:
        if leaf.id in ids or leaf.payload_id in payloads:
            continue
        if leaf.key in keys:
            raise KeyTaken(f"leaf {leaf.id} has the key of another leaf of tree {tree_id}")
        ids.add(leaf.id)
        payloads.add(leaf.payload_id)
        keys.add(leaf.key)
        fresh.append(leaf)
    return sorted(fresh, key=order)


def _grown(edit: Edit, paths: Paths, node: Node, fresh: Sequence[Node], *, rightmost: bool) -> list[Node]:
    """The children of ``node`` with ``fresh`` under them; more than k when it overflows."""
    children = paths.children(node)
    if node.level == 1:
        return sorted([*children, *fresh], key=order)
    parts = _by_child(children, fresh)
    grown: list[Node] = []
    for place, child in enumerate(children):
        if place not in parts:
            grown.append(child)
            continue
        last = rightmost and place == len(children) - 1
        below = _grown(edit, paths, child, parts[place], rightmost=last)
        grown += edit.split(child, below, rightmost=last)
    return grown


def _by_child(children: Sequence[Node], fresh: Sequence[Node]) -> dict[int, list[Node]]:
    """The new leaves each child takes, by place: a leaf goes to the last separator not above it."""
    separators = [order(child) for child in children[1:]]
    parts: dict[int, list[Node]] = defaultdict(list)
    for leaf in fresh:
        parts[bisect_right(separators, order(leaf))].append(leaf)
    return parts


def build(*, tree_id: TreeId, k: int, root_id: NodeId, leaves: Iterable[Node], new_id: Callable[[], NodeId]) -> Diff:
    """The diff, all insertions, that makes a tree of ``leaves`` (any order, possibly none).

    Nodes are full; the right spine takes the rest. No leaves make a level-1 root without children.
    A leaf whose id or payload came before is left out.

    Raises KeyTaken when two leaves share a key, ValueError when ``k`` is below 3.
    """
    nothing = Paths(())
    head = TreeHead(tree_id=tree_id, root_id=root_id, k=k, height=1, leaf_count=0)
    root = Node(id=root_id, tree_id=tree_id, parent_id=None, level=1, key=None)
    return Edit(head, nothing, new_id).set_root(root, fresh_leaves(tree_id, nothing, leaves))
