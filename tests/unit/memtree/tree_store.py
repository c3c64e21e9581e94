"""A tree in memory that loads only what the storage layer loads, so that a missing load shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from memforest_core.domain.ids import NodeId, PayloadId, TreeId
from memforest_core.memtree import Diff, Key, Node, TreeHead, build, delete, insert, violations
from memforest_core.memtree import leaf as new_leaf

TREE = TreeId(UUID(int=1))
ROOT = NodeId(UUID(int=2))


class Counted:
    """Fresh node ids, the same in every run."""

    def __init__(self) -> None:
        self._next = 1_000_000

    def __call__(self) -> NodeId:
        self._next += 1
        return NodeId(UUID(int=self._next))


def leaf(time: int, number: int, *, span: tuple[int | None, int | None] | None = None) -> Node:
    """A leaf at ``time`` whose payload is the ``number``-th."""
    payload = PayloadId(UUID(int=number + 1))
    start, end = span if span is not None else (time, time)
    return new_leaf(TREE, payload, Key(time, number, 0, payload.hex), start, end)


def leaves(count: int) -> list[Node]:
    """``count`` leaves in key order, one every 10 microseconds."""
    return [leaf(10 * number, number) for number in range(count)]


class TreeStore:
    """One stored tree."""

    def __init__(self, k: int, first: Iterable[Node] = ()) -> None:
        self.new_id = Counted()
        self.nodes: dict[NodeId, Node] = {}
        self._children: dict[NodeId, set[NodeId]] = defaultdict(set)
        self._levels: dict[int, set[NodeId]] = defaultdict(set)
        diff = build(tree_id=TREE, k=k, root_id=ROOT, leaves=first, new_id=self.new_id)
        assert not diff.updated
        self.head: TreeHead = diff.head
        self.apply(diff)

    def load(self, keys: Iterable[Key]) -> list[Node]:
        """The level-1 node each key descends to, the ancestors of those, and all their children."""
        opened: dict[NodeId, Node] = {}
        at_level_1 = self.level(1)
        for key in keys:
            below = [node for node in at_level_1 if node.key is None or node.key <= key]
            node: Node | None = below[-1]
            while node is not None:
                opened[node.id] = node
                node = self.nodes[node.parent_id] if node.parent_id else None
        loaded = dict(opened)
        for node_id in opened:
            loaded.update((child.id, child) for child in self.children(node_id))
        return list(loaded.values())

    def insert(self, batch: Sequence[Node]) -> Diff:
        """Load, insert, write."""
        loaded = self.load([leaf.key for leaf in batch])
        diff = insert(self.head, loaded, batch, self.new_id)
        self.apply(diff)
        return diff

    def apply(self, diff: Diff) -> None:
        """Write a diff, refusing one that misstates what is stored."""
        for node in diff.inserted:
            assert node.id not in self.nodes
        for node in diff.updated:
            assert self.nodes[node.id] != node, "an update that changes nothing"
        for node in (*diff.inserted, *diff.updated):
            self._write(node)
        for node_id in diff.deleted:
            self._erase(node_id)
        self.head = diff.head

    def load_leaves(self, leaf_ids: Iterable[NodeId]) -> list[Node]:
        """What a removal is promised: the leaves, all above them, their neighbours on each level, and all
        children of these internal nodes."""
        stored = [self.nodes[id_] for id_ in leaf_ids if id_ in self.nodes]
        above = {node.id: node for leaf in stored for node in self.ancestors(leaf.id)}
        opened = dict(above)
        for level in {node.level for node in above.values()}:
            row = self.level(level)
            for place, node in enumerate(row):
                if node.id in above:
                    opened.update(
                        (neighbouring.id, neighbouring) for neighbouring in row[max(place - 1, 0) : place + 2]
                    )
        loaded = {node.id: node for node in (*stored, *opened.values())}
        for node_id in opened:
            loaded.update((child.id, child) for child in self.children(node_id))
        return list(loaded.values())

    def remove(self, leaf_ids: Sequence[NodeId]) -> Diff:
        """Load, delete, write."""
        diff = delete(self.head, self.load_leaves(leaf_ids), leaf_ids)
        self.apply(diff)
        return diff

    def _erase(self, node_id: NodeId) -> None:
        node = self.nodes.pop(node_id)
        self._levels[node.level].discard(node_id)
        self._children.pop(node_id, None)
        if node.parent_id is not None:
            self._children[node.parent_id].discard(node_id)

    def _write(self, node: Node) -> None:
        old = self.nodes.get(node.id)
        if old is not None:
            self._levels[old.level].discard(old.id)
            if old.parent_id is not None:
                self._children[old.parent_id].discard(old.id)
        self.nodes[node.id] = node
        self._levels[node.level].add(node.id)
        if node.parent_id is not None:
            self._children[node.parent_id].add(node.id)

    def children(self, node_id: NodeId) -> list[Node]:
        """In key order."""
        return _ordered(self.nodes[child] for child in self._children[node_id])

    def level(self, level: int) -> list[Node]:
        """All nodes of a level in key order."""
        return _ordered(self.nodes[node_id] for node_id in self._levels[level])

    def ancestors(self, node_id: NodeId) -> list[Node]:
        """From the parent to the root."""
        found: list[Node] = []
        parent = self.nodes[node_id].parent_id
        while parent is not None:
            found.append(self.nodes[parent])
            parent = self.nodes[parent].parent_id
        return found

    def walk(self) -> list[Node]:
        """The leaves as a reader meets them who descends from the root."""
        level = [self.nodes[self.head.root_id]]
        for _ in range(self.head.height):
            level = [child for node in level for child in self.children(node.id)]
        return level

    def internal(self) -> list[Node]:
        """All internal nodes."""
        return [node for node in self.nodes.values() if node.level > 0]

    def refresh(self) -> int:
        """Clean every node; how many summaries it took (an only child's text passes through)."""
        dirty = [node for node in self.nodes.values() if node.dirty]
        for node in dirty:
            self._write(replace(node, clean_version=node.version))
        return sum(len(self._children[node.id]) > 1 for node in dirty)

    def assert_sound(self) -> None:
        """No invariant is broken."""
        assert violations(self.head, self.nodes.values()) == []


def _ordered(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: (node.key is not None, node.key or ()))
