"""Clearing a whole forest, and the erasing that other operations ask for inside their own steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memforest_core.contexts.erasure.removing import Removal
from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.ports.erasure import ErasureStore
from memforest_core.ports.index import IndexFilter, IndexQuery, VectorIndex
from memforest_core.ports.maintenance import Numbers, TaskId
from memforest_core.ports.retention import Erased
from memforest_core.settings import Settings

BATCH_ROWS = 500
SWEPT = 500
"""Points that are looked for at once when some are left without a row."""


class Clearing:
    """Takes out forests that are nobody's any more, a bounded number of rows at a time."""

    def __init__(self, store: ErasureStore, index: VectorIndex, dimension: int) -> None:
        """``dimension`` is that of the index's vectors."""
        self._store = store
        self._index = index
        self._anywhere = np.full(dimension, dimension**-0.5, np.float32)

    def batch(self, tenant: TenantId, forest: ForestId, task: TaskId | None, progress: Numbers) -> Numbers | None:
        """The next rows of a forest, or its points, or at last its row; None when it is not there.

        The progress after it is committed with the rows for a ``task``. Raises StoreUnavailable, IndexUnavailable.
        """
        with self._store.erasing(tenant) as rows:
            if rows.hold_forest(forest) is None:
                return None
            progress = rows.ahead(task, progress) if task is not None else progress
            gone = rows.clear(forest, BATCH_ROWS)
            points = rows.points_of(forest, BATCH_ROWS) if gone is None else []
            if gone is None and not points:
                gone = {"forests": rows.drop_forest(forest)}
            if gone is not None:
                after = _plus(progress, gone)
                if task is not None:
                    rows.keep(task, after)
                return after
        self._index.delete(points)
        with self._store.erasing(tenant) as rows:
            progress = rows.ahead(task, progress) if task is not None else progress
            after = _plus(progress, {"points": rows.drop_points(points)})
            if task is not None:
                rows.keep(task, after)
        return after

    def clear(self, tenant: TenantId, forest: ForestId) -> bool:
        """One batch of a forest that is to be nobody's; whether it is gone, rows and points.

        For operations that leave a forest behind. Raises StoreUnavailable, IndexUnavailable.
        """
        self._store.let_go(tenant, forest)
        if self.batch(tenant, forest, None, {}) is not None:
            return False
        self.sweep(tenant, forest)
        return True

    def sweep(self, tenant: TenantId, forest: ForestId) -> int:
        """Delete points of a forest that no row stood for (an indexer was late with them); how many are left."""
        left = self._index.count(tenant, forest)
        while left:
            found = self._index.search([IndexQuery(self._anywhere, IndexFilter(tenant, forest), SWEPT)])[0]
            if not found:
                return left
            self._index.delete([hit.id for hit in found])
            left = self._index.count(tenant, forest)
        return 0


class ForestEraser:
    """What retention and correction call: facts or words out of a forest, at once, in one transaction."""

    def __init__(self, store: ErasureStore, model: str, settings: Settings) -> None:
        self._store = store
        self._model = model
        self._settings = settings

    def erase_facts(self, tenant: TenantId, forest: ForestId, facts: Sequence[FactId]) -> Erased:
        """Take these facts out; the turns that told them stay. Raises StoreUnavailable."""
        with self._store.erasing(tenant) as rows:
            if rows.hold_forest(forest) is None:
                return Erased(0, 0)
            counts = Removal(rows, forest, self._model, self._settings).facts(facts)
        return Erased(counts["cells"], counts["facts"])

    def erase_cells(self, tenant: TenantId, forest: ForestId, cells: Sequence[CellId]) -> Erased:
        """Take the words of these cells out, and the facts that rest on nothing else. Raises StoreUnavailable."""
        with self._store.erasing(tenant) as rows:
            turns = rows.turns_of(cells) if rows.hold_forest(forest) is not None else []
            if not turns:
                return Erased(0, 0)
            counts = Removal(rows, forest, self._model, self._settings).words(turns)
        return Erased(counts["cells"], counts["facts"])


def _plus(progress: Numbers, gone: Numbers) -> Numbers:
    counts = {name: int(progress.get(name, 0)) + int(count) for name, count in gone.items()}
    return dict(progress) | {"phase": "rows", "steps": int(progress.get("steps", 0)) + 1} | counts
