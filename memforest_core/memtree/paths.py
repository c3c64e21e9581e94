"""The part of a tree that was loaded, with a loud answer when a needed node is not in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from memforest_core.domain.ids import NodeId
from memforest_core.memtree.nodes import Key, Node, TreeHead

T = TypeVar("T")


def least(k: int) -> int:
    """The fewest children of an internal node off the right spine that is not the root."""
    return -(-k // 2)


def fill_right(children: Sequence[T], k: int) -> list[Sequence[T]]:
    """Full groups of ``k``, the last takes the rest: for the right edge, where memory grows.

    No children make one empty group.
    """
    return [children[at : at + k] for at in range(0, max(len(children), 1), k)]


def split_evenly(children: Sequence[T], k: int) -> list[Sequence[T]]:
    """The fewest groups of at most ``k``, whose sizes differ by at most one.

    More than ``k`` children make groups of ``least(k)`` or more.
    """
    groups = max(-(-len(children) // k), 1)
    size, larger = divmod(len(children), groups)
    starts = [part * size + min(part, larger) for part in range(groups + 1)]
    return [children[start:end] for start, end in pairwise(starts)]


class NotLoaded(ValueError):
    """A node that the algorithm needs was not loaded, or what was loaded does not fit together.

    ``parent`` is the node whose children are missing, when that is what was found.
    """

    def __init__(self, message: str, parent: NodeId | None = None) -> None:
        super().__init__(message)
        self.parent = parent


class Paths:
    """Loaded nodes by id, and the complete ordered children of those whose children were loaded."""

    def __init__(self, loaded: Iterable[Node]) -> None:
        self._nodes = {node.id: node for node in loaded}
        self._children: dict[NodeId, list[Node]] = defaultdict(list)
        for node in self._nodes.values():
            if node.parent_id is not None:
                self._children[node.parent_id].append(node)
        for children in self._children.values():
            children.sort(key=order)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def get(self, node_id: NodeId) -> Node | None:
        """The loaded node, or None."""
        return self._nodes.get(node_id)

    def node(self, node_id: NodeId) -> Node:
        """The loaded node. Raises NotLoaded."""
        node = self._nodes.get(node_id)
        if node is None:
            raise NotLoaded(f"node {node_id} was not loaded")
        return node

    def root(self, head: TreeHead) -> Node:
        """The root that ``head`` names. Raises NotLoaded, also when head and root disagree."""
        root = self.node(head.root_id)
        if (root.level, root.leaf_count) != (head.height, head.leaf_count):
            raise NotLoaded(f"head and root of tree {head.tree_id} were loaded at different times")
        return root

    def children(self, node: Node) -> list[Node]:
        """All children in key order. Raises NotLoaded when one is missing.

        Counts tell: no node of a tree is empty but the root of an empty tree.
        """
        children = self._children.get(node.id, [])
        if sum(child.leaf_count for child in children) != node.leaf_count:
            raise NotLoaded(f"not all children of node {node.id} were loaded", node.id)
        return children

    def ancestors(self, node: Node) -> Iterator[Node]:
        """From the parent up to the root. Raises NotLoaded."""
        while node.parent_id is not None:
            node = self.node(node.parent_id)
            yield node


def order(node: Node) -> tuple[bool, Key | None]:
    """Sort key for nodes of one level: the leftmost internal node has no key and comes first."""
    return (node.key is not None, node.key)
