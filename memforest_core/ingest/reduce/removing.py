"""Deleting leaves from trees under the forest's lock: those of facts that lost their last candidate."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memforest_core.domain.ids import CellId, ForestId, NodeId, TreeId
from memforest_core.memtree import Diff, Node, NotLoaded, TreeHead, delete
from memforest_core.settings import Settings
from memforest_core.store.removal import RemovalRows, Retired
from memforest_core.store.trees import TreeChange


def retire(rows: RemovalRows, forest: ForestId, cells: Sequence[CellId], model: str, settings: Settings) -> Retired:
    """Delete the candidates that better extractions of these cells superseded, after the new ones were placed."""
    retired = rows.retire_superseded(forest, cells, model)
    rows.mark_payloads(cells)
    remove_leaves(rows, retired.leaves, settings)
    return retired


def remove_leaves(rows: RemovalRows, leaves: dict[TreeId, list[NodeId]], settings: Settings) -> tuple[NodeId, ...]:
    """Remove leaves from their trees; the cost follows the touched paths. Returns the nodes that went, leaves too."""
    if not leaves:
        return ()
    heads = rows.shrinking(list(leaves))
    loaded = rows.load_leaves([leaf for group in leaves.values() for leaf in group])
    changes: list[TreeChange] = []
    for tree, head in heads.items():
        diff = _removed(rows, head, loaded.get(tree, []), leaves[tree])
        changes.append(TreeChange(tree, diff.head, diff))
    rows.write_trees(changes, settings.refresh.quiet_of, settings.refresh.max_staleness_s)
    empty = [change for change in changes if change.head.leaf_count == 0]
    rows.drop_empty([change.tree_id for change in empty])
    return (*(node for change in changes for node in change.diff.deleted), *(change.head.root_id for change in empty))


def _removed(rows: RemovalRows, head: TreeHead, loaded: list[Node], leaves: Collection[NodeId]) -> Diff:
    """The diff; children of a neighbour are loaded when one is needed."""
    while True:
        try:
            return delete(head, loaded, leaves)
        except NotLoaded as missing:
            if missing.parent is None:
                raise
            loaded = [*loaded, *rows.load_children([missing.parent])]
