"""Removing a batch of leaves: descend once, borrow or join what is left too small, raise each version once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from memforest_core.domain.ids import NodeId
from memforest_core.memtree.edit import Edit
from memforest_core.memtree.nodes import Diff, Key, Node, TreeHead
from memforest_core.memtree.paths import Paths, least, split_evenly


def delete(head: TreeHead, loaded: Iterable[Node], leaf_ids: Collection[NodeId]) -> Diff:
    """The diff that removes leaves from the tree of ``head``; leaves that are not in ``loaded`` are ignored.

    ``loaded`` must hold, in any order, repetitions allowed, more being harmless:

    1. the leaves to remove and all their ancestors, up to the root;
    2. for each internal node of 1 the nodes right before and right after it in key order on its level, whatever their
       parents are;
    3. all children of every internal node of 1 and 2.

    So at most three nodes are opened for each one on the paths, whatever the tree's size. A node that is left with too
    few children joins or shares with the node next to it among those that keep any, and a node whose predecessors under
    its parent all go takes over their separator, down to level 1. Whatever lay between was emptied, so the nodes that
    this opens are next to one of 1, on every level.

    Each stored node that a removed leaf was under, or whose children changed, gets version + 1, once, and so do all its
    ancestors; nodes that only move or take over a separator are not changed; no ``clean_version`` is. The root retains
    its id and takes the place of an only child that is internal. When every leaf goes, an empty root at level 1 is
    left, every other node is in ``deleted`` and the head counts 0 leaves.

    Raises NotLoaded when a needed node is missing.
    """
    paths = Paths(loaded)
    gone = {id_ for id_ in leaf_ids if (node := paths.get(id_)) is not None and node.level == 0}
    if not gone:
        return Diff((), (), (), head)
    root = paths.root(head)
    shrinking = _Shrinking(head.k, paths, gone)
    children = shrinking.children_left(root, rightmost=True)
    return shrinking.ended(head, root, children)


class _Shrinking:
    """The children that nodes are left with, before it is decided which nodes stay."""

    def __init__(self, k: int, paths: Paths, gone: Collection[NodeId]) -> None:
        self._k = k
        self._paths = paths
        self._gone = gone
        self._touched = {above.id for id_ in gone for above in paths.ancestors(paths.node(id_))}
        self._children: dict[NodeId, list[Node]] = {}

    def children_left(self, node: Node, *, rightmost: bool) -> list[Node]:
        """The children of a touched node without what is removed, each large enough or alone."""
        children = self._paths.children(node)
        if node.level == 1:
            return [leaf for leaf in children if leaf.id not in self._gone]
        for place, child in enumerate(children):
            if child.id in self._touched:
                last = rightmost and place == len(children) - 1
                self._children[child.id] = self.children_left(child, rightmost=last)
        return self._repaired(children, rightmost=rightmost)

    def _below(self, node: Node) -> list[Node]:
        known = self._children.get(node.id)
        return self._paths.children(node) if known is None else known

    def _repaired(self, nodes: Sequence[Node], *, rightmost: bool) -> list[Node]:
        """Siblings without the empty ones; neighbours are joined, or share, until none is too small."""
        nodes_left = [node for node in nodes if self._children.get(node.id) != []]
        if not nodes_left or nodes_left[0].level == 0:
            return nodes_left
        if nodes_left[0].key != nodes[0].key:
            nodes_left[0] = self._lowered(nodes_left[0], nodes[0].key)
        place = 0
        while place < len(nodes_left) and len(nodes_left) > 1:
            exempt = rightmost and place == len(nodes_left) - 1
            small = (
                len(self._children.get(nodes_left[place].id, ())) < least(self._k)
                and nodes_left[place].id in self._children
            )
            if exempt or not small:
                place += 1
                continue
            left = max(place - 1, 0)
            last = rightmost and left + 2 == len(nodes_left)
            nodes_left[left : left + 2] = self._shared(nodes_left[left], nodes_left[left + 1], rightmost=last)
            place = left
        return nodes_left

    def _shared(self, left: Node, right: Node, *, rightmost: bool) -> list[Node]:
        """Two neighbours as one, or as two of equal size."""
        together = self._repaired([*self._below(left), *self._below(right)], rightmost=rightmost)
        if len(together) <= self._k:
            self._children[left.id] = together
            self._children.pop(right.id, None)
            return [left]
        first, second = split_evenly(together, self._k)
        self._children[left.id], self._children[right.id] = list(first), list(second)
        return [left, replace(right, key=second[0].key)]

    def _lowered(self, node: Node, key: Key | None) -> Node:
        """The node as the first of its parent: it and the first nodes below it take the parent's separator."""
        if node.level > 1:
            first, *others = self._below(node)
            self._children[node.id] = [self._lowered(first, key), *others]
        return replace(node, key=key)

    def ended(self, head: TreeHead, root: Node, children: list[Node]) -> Diff:
        """The diff, once the root's children are settled."""
        level = root.level
        while level > 1 and len(children) <= 1:
            children = self._below(children[0]) if children else []
            level = level - 1 if children else 1
        edit = Edit(head, self._paths, _no_new_node)
        self._children[root.id] = children
        top = self._built(edit, replace(root, level=level))
        return edit.close(top)

    def _built(self, edit: Edit, node: Node) -> Node:
        """The node's final state, those below it first."""
        below = self._children.get(node.id)
        if below is None:
            return node
        stored = self._paths.children(self._paths.node(node.id))
        built = [self._built(edit, child) for child in below]
        # A child that was raised raises its parent, also when the parent's children are the same as before.
        if node.id in self._touched or _versions(stored) != _versions(built):
            node = replace(node, version=node.version + 1)
        return edit.adopt(node, built)


def _versions(nodes: Iterable[Node]) -> dict[NodeId, int]:
    return {node.id: node.version for node in nodes}


def _no_new_node() -> NodeId:
    raise AssertionError("a removal makes no node")
