"""Building a whole tree from its leaves, in the shape that appending them in order would give."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from memforest_core.domain.ids import NodeId, TreeId
from memforest_core.memtree.edit import Edit
from memforest_core.memtree.insert import fresh_leaves
from memforest_core.memtree.nodes import Diff, Node, TreeHead
from memforest_core.memtree.paths import Paths


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
