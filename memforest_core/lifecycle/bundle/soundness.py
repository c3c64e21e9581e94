"""Checks an imported forest before it is shown: every promise is verified, and broken summaries are repaired."""

from __future__ import annotations

from itertools import islice
from uuid import uuid4

from memforest_core.domain.ids import ForestId, NodeId, TenantId, TreeId
from memforest_core.lifecycle.bundle.rows.imported import ImportRows
from memforest_core.lifecycle.verify.records import Check, Found
from memforest_core.lifecycle.verify.rows.snapshots import VerifyStore
from memforest_core.lifecycle.verify.summaries import stale
from memforest_core.memtree import KeyTaken, build
from memforest_core.store.engine import Engine

AT_ONCE = 500

_OF_WORK = (
    Check.SUMMARIES,
    Check.TASKS,
    Check.FORESTS,
    Check.DUE_TREES,
    Check.INDEX_ROWS,
    Check.UNINDEXED,
    Check.INDEX_POINTS,
    Check.ORPHAN_POINTS,
)
"""Checks of work that begins when the forest is shown: nothing is due or indexed before."""

CHECKS = tuple(check for check in Check if check not in _OF_WORK)


class Soundness:
    """Checks one hidden forest with the queries of ``memforest verify``."""

    def __init__(self, engine: Engine, verify: VerifyStore, tenant: TenantId, forest: ForestId) -> None:
        self._engine = engine
        self._verify = verify
        self._tenant = tenant
        self._forest = forest

    def broken(self) -> str | None:
        """Which check found a broken promise first, and what it found."""
        with self._verify.snapshot(self._tenant, [self._forest]) as rows:
            for check in CHECKS:
                for found in rows.violations(check):
                    return f"its {check} are not sound: {found.what}"
        return None

    def reorder(self) -> None:
        """Rebuild trees whose leaves have another order under their new ids.

        Leaves of one time, cell ordinal and item are ordered by id alone. What else is wrong stays wrong.
        """
        trees: set[TreeId] = set()
        with self._verify.snapshot(self._tenant, [self._forest]) as rows:
            found = rows.violations(Check.TREE_NODES)
            while some := [each.id for each in islice(found, AT_ONCE)]:
                with ImportRows.opened(self._engine, self._tenant) as writer:
                    trees.update(writer.trees_of(some))
        for tree in sorted(trees, key=str):
            with ImportRows.opened(self._engine, self._tenant) as writer:
                whole = writer.leaves(tree)
                if whole is None:
                    continue
                head, leaves = whole
                try:
                    diff = build(
                        tree_id=tree, k=head.k, root_id=head.root_id, leaves=leaves, new_id=lambda: NodeId(uuid4())
                    )
                except KeyTaken:
                    continue
                writer.rebuild(tree, diff)

    def repair_summaries(self, budget_chars: int) -> None:
        """Mark every summary that does not follow from the nodes beneath it, so that refresh writes it again."""
        wrong: list[Found] = []
        with self._verify.snapshot(self._tenant, [self._forest]) as rows:
            for page in rows.summaries(AT_ONCE):
                wrong += [found for node in page if (found := stale(node, budget_chars)) is not None]
        for at in range(0, len(wrong), AT_ONCE):
            with self._verify.repairing(self._tenant) as repairs:
                repairs.repair(Check.SUMMARIES, wrong[at : at + AT_ONCE])
