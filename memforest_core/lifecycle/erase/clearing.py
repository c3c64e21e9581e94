"""Clearing whole forests, and the erasing that other operations do inside their own steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.errors import RetryableError
from memforest_core.index.vector_index import IndexFilter, IndexQuery, PointKey, VectorIndex
from memforest_core.lifecycle.erase.batch_removal import Removal
from memforest_core.lifecycle.erase.rows.deletion import STEPS
from memforest_core.lifecycle.erase.rows.erasing import ErasureRows, erasing
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.work.records import Numbers, TaskId
from memforest_core.work.waiting import polled, waited

BATCH_ROWS = 500
SWEPT = 500
"""Points without a row that are looked for at once."""

WAIT_S = 1.0
"""Seconds that a step waits for writers before it gives its task back; most writers need some milliseconds."""
POLL_S = 0.02


class WriterAtWork(RetryableError):
    """An indexer that began before the deletion is still running: its points must be deleted before the receipt."""

    code = "writer_at_work"


def await_indexers(engine: Engine, tenant: TenantId, forest: ForestId, mark: int | None = None) -> None:
    """Wait until no indexer is writing points of a forest, or (``mark``) points that may have what was erased before.

    An indexer that has lost its lease is not waited for. Raises WriterAtWork after a second: then the task is retried
    later.
    """

    def idle() -> bool | None:
        with erasing(engine, tenant) as rows:
            return None if rows.words.has_points_in_work(forest, mark) else True

    if waited(polled(idle, WAIT_S, POLL_S)) is None:
        raise WriterAtWork("An indexer is still writing points of this memory: it is waited for.")


class Clearing:
    """Deletes forests that were given up, a bounded number of rows at a time."""

    def __init__(self, engine: Engine, index: VectorIndex, dimension: int) -> None:
        """``dimension`` is that of the index's vectors."""
        self._engine = engine
        self._index = index
        self._anywhere = np.full(dimension, dimension**-0.5, np.float32)

    def batch(self, tenant: TenantId, forest: ForestId, task: TaskId | None, progress: Numbers) -> Numbers | None:
        """Delete the next rows of a forest, or its points, or at last its row; None when it does not exist.

        The progress after it is committed with the rows for a ``task``. Raises StoreUnavailable, IndexUnavailable, and
        WriterAtWork while an indexer has leases on the forest's points.
        """
        with erasing(self._engine, tenant) as rows:
            if rows.lock_forest(forest) is None:
                return None
            gone = rows.deletion.clear(forest, BATCH_ROWS)
            points = rows.deletion.points_of(forest, BATCH_ROWS) if gone is None else []
            busy = gone is None and not points and rows.words.has_points_in_work(forest)
            if gone is None and not points and not busy:
                gone = {"forests": rows.deletion.drop_forest(forest)}
                rows.deletion.cancel_exports(forest)
            if gone is not None:
                return _progressed(rows, task, progress, gone)
            progress = rows.deletion.further(task, progress) if task is not None else progress
        if busy:
            await_indexers(self._engine, tenant, forest)
            return progress
        self._index.delete([PointKey(tenant, forest, point) for point in points])
        with erasing(self._engine, tenant) as rows:
            rows.lock_forest(forest)
            return _progressed(rows, task, progress, {"points": rows.deletion.drop_points(points)})

    def clear(self, tenant: TenantId, forest: ForestId) -> bool:
        """Give a forest up and delete one batch of it; whether it is gone, rows and points.

        For operations that leave a forest behind. Raises StoreUnavailable, IndexUnavailable.
        """
        with erasing(self._engine, tenant) as rows:
            rows.deletion.give_up(forest)
        if self.batch(tenant, forest, None, {}) is not None:
            return False
        self.sweep(tenant, forest)
        return True

    def sweep(self, tenant: TenantId, forest: ForestId) -> int:
        """Delete points of a forest that have no row (an indexer was late with them); how many are left."""
        left = self._index.count(tenant, forest)
        while left:
            found = self._index.search([IndexQuery(self._anywhere, IndexFilter(tenant, forest), SWEPT)])[0]
            if not found:
                return left
            self._index.delete([PointKey(tenant, forest, hit.id) for hit in found])
            left = self._index.count(tenant, forest)
        return 0


class ForestEraser:
    """Deletes facts or words out of a forest at once, in one transaction, but what is pinned; retention calls it."""

    def __init__(self, engine: Engine, model: str, settings: Settings) -> None:
        self._engine = engine
        self._model = model
        self._settings = settings

    def erase_facts(self, tenant: TenantId, forest: ForestId, facts: Sequence[FactId]) -> int:
        """Delete these facts; the turns that they came from stay. How many went. Raises StoreUnavailable."""
        with erasing(self._engine, tenant) as rows:
            # Something may have been pinned since it was chosen.
            free = rows.targets.free_facts(forest, facts) if rows.lock_forest(forest) is not None else []
            return Removal(rows, forest, self._model, self._settings).facts(free)["facts"] if free else 0

    def erase_cells(self, tenant: TenantId, forest: ForestId, cells: Sequence[CellId]) -> int:
        """Delete the words of these cells, and the facts that rest on nothing else. How many cells went.

        Raises StoreUnavailable.
        """
        with erasing(self._engine, tenant) as rows:
            free = rows.targets.free_cells(forest, cells) if rows.lock_forest(forest) is not None else []
            turns = rows.targets.turns_of(free)
            return Removal(rows, forest, self._model, self._settings).words(turns)["cells"] if turns else 0


def _progressed(rows: ErasureRows, task: TaskId | None, progress: Numbers, gone: Numbers) -> Numbers:
    """The progress after rows went, committed with them for a task."""
    before = rows.deletion.further(task, progress) if task is not None else progress
    counts = {name: int(before.get(name, 0)) + int(count) for name, count in gone.items()}
    after = dict(before) | {"phase": "rows", STEPS: int(before.get(STEPS, 0)) + 1} | counts
    return rows.deletion.store_progress(task, after) if task is not None else after
