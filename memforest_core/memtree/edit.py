"""One change to one tree: nodes take their children, overflow is split, and a diff remains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from memforest_core.domain.ids import NodeId
from memforest_core.memtree.nodes import Diff, Key, Node, TreeHead, span_of
from memforest_core.memtree.paths import Paths, fill_right, split_evenly


class Edit:
    """Collects the new states of a tree's nodes, bottom up.

    A node's state is final once its parent has adopted it; ``set_root`` adopts the last ones.
    """

    def __init__(self, head: TreeHead, before: Paths, new_id: Callable[[], NodeId]) -> None:
        self._head = head
        self._before = before
        self._new_id = new_id
        self._states: dict[NodeId, Node] = {}

    def split(self, node: Node, children: Sequence[Node], *, rightmost: bool) -> list[Node]:
        """The nodes that take ``children`` in place of ``node``, which comes first with its id.

        ``rightmost`` says that the node is on the right spine.
        """
        group = fill_right if rightmost else split_evenly
        first, *others = group(children, self._head.k)
        first_node = self.adopt(replace(node, version=node.version + 1), first)
        return [first_node, *(self._sprout(node.level, part[0].key, part) for part in others)]

    def set_root(self, root: Node, children: Sequence[Node]) -> Diff:
        """End the change: the root has the same id and pushes its content down until it fits."""
        level, k = root.level, self._head.k
        while len(children) > k:
            first, *others = fill_right(children, k)
            children = [
                self._sprout(level, root.key, first),
                *(self._sprout(level, part[0].key, part) for part in others),
            ]
            level += 1
        # A root that is not stored yet is made in this change, at the version it was given.
        version = root.version + 1 if self._before.get(root.id) else root.version
        top = self.adopt(replace(root, level=level, version=version), children)
        self._states[top.id] = top
        return self._diff(top)

    def close(self, root: Node) -> Diff:
        """End a change in which nodes may have lost their place: what was loaded and is under no node is deleted.

        Only nodes that the change has opened can be lost, so a loaded node whose parent is unchanged stays.
        """
        self._states[root.id] = root
        lost = self._lost(root)
        diff = self._diff(root)
        return replace(diff, deleted=tuple(sorted(lost, key=str)))

    def _lost(self, root: Node) -> set[NodeId]:
        """Loaded nodes that no longer lead up to the root: their parent was changed and dropped them."""
        opened = {state.parent_id for state in self._states.values()} | {root.id}
        lost: set[NodeId] = set()
        for node in sorted(self._before, key=_downwards):
            if node.id in self._states or node.id == root.id:
                continue
            if node.parent_id in lost or node.parent_id in opened or node.parent_id == root.id:
                lost.add(node.id)
        return lost

    def _sprout(self, level: int, key: Key | None, children: Sequence[Node]) -> Node:
        made = Node(id=self._new_id(), tree_id=self._head.tree_id, parent_id=None, level=level, key=key)
        return self.adopt(made, children)

    def adopt(self, parent: Node, children: Sequence[Node]) -> Node:
        """A node as it is with these children, whose states become final."""
        for child in children:
            if child.parent_id != parent.id:
                child = replace(child, parent_id=parent.id)
            self._states[child.id] = child
        start, end = span_of(children)
        leaves = sum(child.leaf_count for child in children)
        return replace(parent, time_start=start, time_end=end, leaf_count=leaves)

    def _diff(self, root: Node) -> Diff:
        changed = [(state, self._before.get(state.id)) for state in sorted(self._states.values(), key=_downwards)]
        inserted = tuple(state for state, before in changed if before is None)
        updated = tuple(state for state, before in changed if before is not None and state != before)
        return Diff(inserted, updated, (), replace(self._head, height=root.level, leaf_count=root.leaf_count))


def _downwards(node: Node) -> int:
    return -node.level
