"""Copies a whole tree into another forest: same shape and versions, new ids, so that its summaries stay valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from memforest_core.domain.ids import NodeId, PayloadId, TreeId
from memforest_core.memtree import Diff, Key, Node, TreeHead, delete, insert, leaf
from memforest_core.memtree.paths import order


@dataclass(frozen=True, slots=True)
class Successor:
    """What a payload becomes. ``same``: it says the same, at the same place, over the same interval."""

    payload_id: PayloadId
    key: Key
    start: int
    end: int
    """In microseconds."""
    same: bool

    def leaf(self, tree: TreeId) -> Node:
        """Its leaf in a tree."""
        return leaf(tree, self.payload_id, self.key, self.start, self.end)


@dataclass(frozen=True, slots=True)
class Transplant:
    """A tree as it is in the target: all its nodes, and what its stored internal nodes are called there."""

    head: TreeHead
    nodes: tuple[Node, ...]
    renamed: Mapping[NodeId, NodeId]
    inserted: int
    """Leaves that were put in instead of others."""
    dirtied: int
    """Internal nodes that have to be summarized because of it."""

    @property
    def dirty(self) -> bool:
        """Whether any node has to be summarized."""
        return any(node.level > 0 and node.dirty for node in self.nodes)


def transplant(
    head: TreeHead,
    nodes: Sequence[Node],
    tree: TreeId,
    successors: Mapping[PayloadId, Successor],
    new_id: Callable[[], NodeId],
) -> Transplant:
    """The tree of ``head``, whose nodes are all in ``nodes``, as tree ``tree`` of another forest.

    Leaves take the ids and keys of their successors. One whose successor differs, or would stand elsewhere among leaves
    of the same time, is taken out and put in again; one without a successor is taken out. Only the paths to those
    become dirty.
    """
    stay = _staying(nodes, successors)
    going = [node for node in nodes if node.level == 0 and node.id not in stay]
    dirty_before = _dirty(nodes)
    whole = {node.id: node for node in nodes}
    if going:
        head = _apply(whole, delete(head, nodes, [node.id for node in going]))
    names = {node.id: new_id() for node in whole.values() if node.level > 0}
    moved = _moved(tree, list(whole.values()), names, successors)
    head = replace(head, tree_id=tree, root_id=names[head.root_id])
    batch = [
        successors[node.payload_id].leaf(tree)
        for node in going
        if node.payload_id is not None and node.payload_id in successors
    ]
    final = {node.id: node for node in moved}
    before = len(_leaves(moved))
    head = _apply(final, insert(head, moved, batch, new_id))
    result = tuple(final.values())
    return Transplant(head, result, names, len(_leaves(result)) - before, len(_dirty(result)) - len(dirty_before))


def _leaves(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.level == 0]


def _dirty(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.level > 0 and node.dirty]


def _apply(nodes: dict[NodeId, Node], diff: Diff) -> TreeHead:
    for id_ in diff.deleted:
        del nodes[id_]
    nodes.update((node.id, node) for node in (*diff.inserted, *diff.updated))
    return diff.head


def _staying(nodes: Sequence[Node], successors: Mapping[PayloadId, Successor]) -> set[NodeId]:
    """Leaves that keep their place: in key order under their new keys too, each payload once."""
    stay: set[NodeId] = set()
    taken: set[PayloadId] = set()
    last: Key | None = None
    for node in sorted(_leaves(nodes), key=order):
        successor = successors.get(node.payload_id) if node.payload_id is not None else None
        if successor is None or not successor.same or successor.payload_id in taken:
            continue
        if last is None or successor.key > last:
            stay.add(node.id)
            taken.add(successor.payload_id)
            last = successor.key
    return stay


def _moved(
    tree: TreeId, nodes: Sequence[Node], names: Mapping[NodeId, NodeId], successors: Mapping[PayloadId, Successor]
) -> list[Node]:
    """The nodes under their new names. A separator becomes the key of the first leaf under it: ids in keys changed."""
    lowest: dict[NodeId, Key] = {}
    moved: list[Node] = []
    for node in sorted(nodes, key=lambda node: (node.level, order(node))):
        parent = names[node.parent_id] if node.parent_id is not None else None
        key = lowest.get(node.id)
        if node.payload_id is not None:
            new = successors[node.payload_id].leaf(tree)
            key = new.key
            moved.append(replace(node, id=new.id, tree_id=tree, parent_id=parent, key=key, payload_id=new.payload_id))
        else:
            first = None if node.key is None else key
            moved.append(replace(node, id=names[node.id], tree_id=tree, parent_id=parent, key=first))
        if node.parent_id is not None and key is not None:
            lowest.setdefault(node.parent_id, key)
    return moved
