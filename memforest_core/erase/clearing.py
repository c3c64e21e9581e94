"""Clearing a whole forest, and the erasing that other operations ask for inside their own steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.erase.records import Erased
from memforest_core.erase.removing import Removal
from memforest_core.erase.rows.erasing import ErasureStore
from memforest_core.errors import RetryableError
from memforest_core.index.vector_index import IndexFilter, IndexQuery, PointKey, VectorIndex
from memforest_core.settings import Settings
from memforest_core.work.records import Numbers, TaskId
from memforest_core.work.waiting import polled, waited

BATCH_ROWS = 500
SWEPT = 500
"""Points that are looked for at once when some are left without a row."""


WAIT_S = 1.0
"""How long a step waits for writers, which mostly need some milliseconds, before it gives its task back."""
POLL_S = 0.02


class WriterAtWork(RetryableError):
    """Somebody who began before an erasure has not ended: what it writes late has to be gone before a receipt is."""

    code = "writer_at_work"


def await_writers(busy: Callable[[], bool]) -> None:
    """Wait until nobody is busy. Raises WriterAtWork after a second: then the task is tried again later."""
    if waited(polled(lambda: None if busy() else True, WAIT_S, POLL_S)) is None:
        raise WriterAtWork("An indexer is still writing points of this memory: it is waited for.")


class Clearing:
    """Takes out forests that are nobody's any more, a bounded number of rows at a time."""

    def __init__(self, store: ErasureStore, index: VectorIndex, dimension: int) -> None:
        """``dimension`` is that of the index's vectors."""
        self._store = store
        self._index = index
        self._anywhere = np.full(dimension, dimension**-0.5, np.float32)

    def batch(self, tenant: TenantId, forest: ForestId, task: TaskId | None, progress: Numbers) -> Numbers | None:
        """The next rows of a forest, or its points, or at last its row; None when it is not there.

        The progress after it is committed with the rows for a ``task``. Raises StoreUnavailable, IndexUnavailable, and
        WriterAtWork while an indexer holds leases on the forest's points.
        """
        with self._store.erasing(tenant) as rows:
            if rows.hold_forest(forest) is None:
                return None
            progress = rows.ahead(task, progress) if task is not None else progress
            gone = rows.clear(forest, BATCH_ROWS)
            points = rows.points_of(forest, BATCH_ROWS) if gone is None else []
            busy = gone is None and not points and rows.leased(forest)
            if gone is None and not points and not busy:
                gone = {"forests": rows.drop_forest(forest)}
            if gone is not None:
                after = _plus(progress, gone)
                if task is not None:
                    rows.keep(task, after)
                return after
        if busy:
            self._await_indexers(tenant, forest)
            return progress
        self._index.delete([PointKey(tenant, forest, point) for point in points])
        with self._store.erasing(tenant) as rows:
            rows.hold_forest(forest)
            progress = rows.ahead(task, progress) if task is not None else progress
            after = _plus(progress, {"points": rows.drop_points(points)})
            if task is not None:
                rows.keep(task, after)
        return after

    def _await_indexers(self, tenant: TenantId, forest: ForestId) -> None:
        """Nothing is clean before whoever is writing a point has ended, or has lost its lease."""

        def leased() -> bool:
            with self._store.erasing(tenant) as rows:
                return rows.leased(forest)

        await_writers(leased)

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
            self._index.delete([PointKey(tenant, forest, hit.id) for hit in found])
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
