"""The steps of deletions: batches of rows, the index, a search for what may be left; and the vacuum after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, TenantId, TreeKind, tree_id
from memforest_core.errors import NotFound, RetryableError
from memforest_core.index.vector_index import IndexFilter, IndexQuery, PointKey, VectorIndex
from memforest_core.lifecycle.erase.batch_removal import COUNTED, Removal
from memforest_core.lifecycle.erase.records import LEFT, Scope, Target, scope_of
from memforest_core.lifecycle.erase.rows.deletion import STEPS, ErasureRows
from memforest_core.lifecycle.erase.rows.vacuum_rows import TABLES, held_back, request_vacuum, vacuum
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.work.records import Numbers, OperationTask, TaskId, with_counts
from memforest_core.work.runner import Handler
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
        with ErasureRows.opened(engine, tenant) as rows:
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
        with ErasureRows.opened(self._engine, tenant) as rows:
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
        with ErasureRows.opened(self._engine, tenant) as rows:
            rows.lock_forest(forest)
            return _progressed(rows, task, progress, {"points": rows.deletion.drop_points(points)})

    def clear(self, tenant: TenantId, forest: ForestId) -> bool:
        """Give a forest up and delete one batch of it; whether it is gone, rows and points.

        For operations that leave a forest behind. Raises StoreUnavailable, IndexUnavailable.
        """
        with ErasureRows.opened(self._engine, tenant) as rows:
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
        with ErasureRows.opened(self._engine, tenant) as rows:
            # Something may have been pinned since it was chosen.
            free = rows.targets.free_facts(forest, facts) if rows.lock_forest(forest) is not None else []
            return Removal(rows, forest, self._model, self._settings).facts(free)["facts"] if free else 0

    def erase_cells(self, tenant: TenantId, forest: ForestId, cells: Sequence[CellId]) -> int:
        """Delete the words of cells, and facts that rest on nothing else; how many cells. Raises StoreUnavailable."""
        with ErasureRows.opened(self._engine, tenant) as rows:
            free = rows.targets.free_cells(forest, cells) if rows.lock_forest(forest) is not None else []
            turns = rows.targets.turns_of(free)
            return Removal(rows, forest, self._model, self._settings).words(turns)["cells"] if turns else 0


def _progressed(rows: ErasureRows, task: TaskId | None, progress: Numbers, gone: Numbers) -> Numbers:
    """The progress after rows went, committed with them for a task."""
    before = rows.deletion.further(task, progress) if task is not None else progress
    counts = {name: int(before.get(name, 0)) + int(count) for name, count in gone.items()}
    after = dict(before) | {"phase": "rows", STEPS: int(before.get(STEPS, 0)) + 1} | counts
    return rows.deletion.tasks.advance(task, after) if task is not None else after


BATCH_CELLS = 20
"""Cells of one transaction: the forest is locked for some tens of milliseconds."""
BATCH_POINTS = 500
BUSY_S = 5.0
"""When to re-check a forest that is being merged."""
PHASE = "phase"
MARK = "mark"
"""The versions of all points erased so far are below it; points erased later by others are not waited for."""
INDEX_LEFT = LEFT + "index.point"

_COPIES, _ROWS, _INDEX, _SCAN, _SCANNED, _PLANNED = "copies", "rows", "index", "scan", "scanned", "planned"


@dataclass(frozen=True, slots=True)
class Erasing:
    """The handler of ERASE tasks. Each step can be repeated from the same progress."""

    engine: Engine
    index: VectorIndex
    clearing: Clearing
    model: str
    """The embedding model in use."""
    settings: Settings

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One batch. Raises StoreUnavailable, IndexUnavailable, NotFound, RetryableError during a merge."""
        scope = scope_of(task)
        if task.dry_run:
            return None if progress.get(PHASE) == _PLANNED else self._plan(tenant, scope)
        match progress.get(PHASE, _ROWS if scope.target is Target.OWNER else _COPIES):
            case "copies":
                return self._copies(tenant, task, scope, progress)
            case "rows" if scope.target is Target.OWNER:
                return self._clear(tenant, task, scope, progress)
            case "rows":
                return self._rows(tenant, task, scope, progress)
            case "index":
                return self._points(tenant, task, scope, progress)
            case "scan":
                return self._scan(tenant, task, scope, progress)
            case _:
                return None

    def _copies(self, tenant: TenantId, task: OperationTask, scope: Scope, progress: Numbers) -> Numbers:
        """Clear copies of the forest, which hold the same words; a rebuild starts again after this."""
        with ErasureRows.opened(self.engine, tenant) as rows:
            progress = rows.deletion.further(task.id, progress)
            if progress.get(PHASE, _COPIES) != _COPIES:
                return progress
            rows.deletion.give_up_copies(task.id, scope.forest)
            copy = rows.deletion.next_to_clear(task.id, scope.forest)
        if copy is None:
            return self._rows(tenant, task, scope, dict(progress) | {PHASE: _ROWS})
        # What is counted is what goes from the forest that was meant.
        self.clearing.batch(tenant, copy, None, {})
        return dict(progress) | {PHASE: _COPIES}

    def _rows(self, tenant: TenantId, task: OperationTask, scope: Scope, progress: Numbers) -> Numbers:
        with ErasureRows.opened(self.engine, tenant) as rows:
            state = rows.lock_forest(scope.forest)
            progress = rows.deletion.further(task.id, progress)
            if progress.get(PHASE, _ROWS) != _ROWS:
                return progress
            # The deletion of the whole memory may have been requested since: then this works on what is left.
            everything = state in (None, "gone") and rows.deletion.whole_forest_requested(scope.forest)
            if not everything:
                _check(state)
            after, phase = self._batch(rows, scope, progress) if state is not None else (progress, _INDEX)
            return rows.deletion.tasks.advance(task.id, _stepped(after, phase))

    def _batch(self, rows: ErasureRows, scope: Scope, progress: Numbers) -> tuple[Numbers, str]:
        """One batch of a target that is not the whole forest, and the phase after it."""
        match scope.target:
            case Target.FACT if scope.fact is not None:
                return with_counts(progress, self._removal(rows, scope.forest).facts([scope.fact])), _INDEX
            case Target.SESSION if scope.session is not None:
                return self._session(rows, scope, scope.session, progress)
            case _:
                return self._words(rows, scope, progress)

    def _words(self, rows: ErasureRows, scope: Scope, progress: Numbers) -> tuple[Numbers, str]:
        """The next turns that are named; sessions are walked through until a whole walk finds none."""
        at = str(progress.get("at", ""))
        turns = rows.targets.next_turns(scope, SessionId(UUID(at)) if at else None, BATCH_CELLS)
        if not turns:
            return dict(progress) | {"at": ""}, _ROWS if at else _INDEX
        after = with_counts(progress, self._removal(rows, scope.forest).words(turns))
        return dict(after) | {"at": str(turns[-1].session_id)}, _ROWS

    def _session(self, rows: ErasureRows, scope: Scope, session: SessionId, progress: Numbers) -> tuple[Numbers, str]:
        """The next turns of a session, under its lock; with its last words its row: who waits begins a new one."""
        if not rows.targets.lock_session(session):
            return progress, _INDEX
        removal = self._removal(rows, scope.forest)
        turns = rows.targets.next_turns(scope, None, BATCH_CELLS)
        counts = removal.words(turns) if turns else Counter()
        if rows.targets.next_turns(scope, None, 1):
            return with_counts(progress, counts), _ROWS
        counts = removal.session(session, tree_id(scope.forest, TreeKind.SESSION, str(session)))
        # Searched for here: once this commits, the session may be begun again under the same id.
        for column, count in rows.remaining.of_session(scope.forest, session).items():
            counts[LEFT + column] += count
        return with_counts(progress, counts), _INDEX

    def _removal(self, rows: ErasureRows, forest: ForestId) -> Removal:
        return Removal(rows, forest, self.model, self.settings)

    def _clear(self, tenant: TenantId, task: OperationTask, scope: Scope, progress: Numbers) -> Numbers:
        with ErasureRows.opened(self.engine, tenant) as rows:
            rows.deletion.give_up_forests(task.id)
        with ErasureRows.opened(self.engine, tenant) as rows:
            progress = rows.deletion.further(task.id, progress)
            forest = rows.deletion.next_to_clear(task.id)
        if progress.get(PHASE, _ROWS) != _ROWS:
            return progress
        gone = self.clearing.batch(tenant, forest, task.id, progress) if forest is not None else None
        if gone is not None:
            return gone
        with ErasureRows.opened(self.engine, tenant) as rows:
            return rows.deletion.tasks.advance(task.id, _stepped(rows.deletion.further(task.id, progress), _INDEX))

    def _points(self, tenant: TenantId, task: OperationTask, scope: Scope, progress: Numbers) -> Numbers:
        """Delete the points that have what was erased, without a lock; then wait for indexers that were writing one."""
        if scope.target is Target.OWNER:
            return dict(progress) | {PHASE: _SCAN, INDEX_LEFT: self._swept(tenant, task, None)}
        if MARK not in progress:
            with ErasureRows.opened(self.engine, tenant) as rows:
                return dict(progress) | {MARK: rows.words.next_version()}
        mark = int(progress[MARK])
        after = UUID(str(progress["after"])) if progress.get("after") else None
        with ErasureRows.opened(self.engine, tenant) as rows:
            points = rows.words.erased_points(scope.forest, mark, after, BATCH_POINTS)
        if not points:
            await_indexers(self.engine, tenant, scope.forest, mark)
            with ErasureRows.opened(self.engine, tenant) as rows:
                if rows.words.has_erased_points(scope.forest, mark):
                    return dict(progress) | {PHASE: _INDEX, "after": ""}
            found = int(progress.get(INDEX_LEFT, 0)) + self._swept(tenant, task, scope.forest)
            return dict(progress) | {PHASE: _SCAN, "after": "", INDEX_LEFT: found}
        self.index.delete([PointKey(tenant, scope.forest, id_) for id_ in points])
        with ErasureRows.opened(self.engine, tenant) as rows:
            rows.lock_forest(scope.forest)
            alive = rows.words.confirm(points, mark)
        gone = [PointKey(tenant, scope.forest, id_) for id_ in points if id_ not in alive]
        found = int(progress.get(INDEX_LEFT, 0)) + len(self.index.versions(gone))
        return dict(progress) | {"after": str(max(points)), INDEX_LEFT: found}

    def _swept(self, tenant: TenantId, task: OperationTask, but: ForestId | None) -> int:
        """Delete what late indexers left of the forests that went; how many points are left of them."""
        with ErasureRows.opened(self.engine, tenant) as rows:
            went = [forest for forest in rows.deletion.touched(task.id) if forest != but]
        return sum(self.clearing.sweep(tenant, forest) for forest in went)

    def _scan(self, tenant: TenantId, task: OperationTask, scope: Scope, progress: Numbers) -> Numbers:
        """Search once more for the target itself: every batch has searched for the ids that it removed."""
        with ErasureRows.opened(self.engine, tenant) as rows:
            # A session may have been begun again under its id.
            words = [] if scope.target is Target.SESSION else rows.targets.next_turns(scope, None, 1)
            if words and scope.target is not Target.TURNS:
                # Said since all of them were deleted: these go too.
                return {name: count for name, count in progress.items() if name != MARK} | {PHASE: _ROWS, "at": ""}
            found = rows.remaining.of_target(scope)
            found["turn.content"] += len(words)
            for forest in rows.deletion.touched(task.id):
                if forest != scope.forest:
                    found.update(rows.remaining.of_forest(forest))
        left = {LEFT + column: int(progress.get(LEFT + column, 0)) + count for column, count in found.items()}
        return dict(progress) | {INDEX_LEFT: int(progress.get(INDEX_LEFT, 0))} | left | {PHASE: _SCANNED}

    def _plan(self, tenant: TenantId, scope: Scope) -> Numbers:
        """What would be deleted: the same steps in a transaction that is rolled back."""
        with ErasureRows.opened(self.engine, tenant) as rows, rows.undone():
            rows.lock_forest(scope.forest)
            progress: Numbers = dict.fromkeys(COUNTED, 0)
            if scope.target is Target.OWNER:
                progress = {**progress, **rows.deletion.counts_of(scope.forest)}
            else:
                phase = _ROWS
                while phase == _ROWS:
                    progress, phase = self._batch(rows, scope, progress)
        return {name: count for name, count in progress.items() if name != "at" and not name.startswith(LEFT)} | {
            PHASE: _PLANNED
        }


def _check(state: str | None) -> None:
    """Raises RetryableError for a forest that is being merged, and NotFound for one that is gone."""
    if state == "frozen":
        raise RetryableError(
            "The forest is being merged into another: the deletion waits for the end of the merge.", retry_after=BUSY_S
        )
    if state not in ("live", "hidden"):
        raise NotFound("The forest was deleted or merged into another: ask for the deletion there.")


def _stepped(progress: Numbers, phase: str) -> Numbers:
    """The progress of a committed step, with every count there is."""
    counted: Mapping[str, str | int] = dict.fromkeys(COUNTED, 0)
    return dict(counted) | dict(progress) | {PHASE: phase, STEPS: int(progress.get(STEPS, 0)) + 1}


HELD_BACK_S = 10.0
"""Seconds until the next try, while an old transaction is open or a table is locked."""
AFTER = "after"
"""The argument that names the last deleting transaction."""
AT = "at"


class Vacuuming:
    """Requests VACUUM tasks and runs their steps, one table each. Thread-safe."""

    def __init__(self, engine: Engine, every_s: float) -> None:
        """``every_s``: deletions within this many seconds are vacuumed together."""
        self._engine = engine
        self._every_s = every_s

    def following(self, handler: Handler) -> Handler:
        """The handler of an operation that deletes rows; at its end it requests a vacuum."""

        def step(tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
            after = handler(tenant, task, progress)
            if after is None and not task.dry_run:
                request_vacuum(self._engine, tenant, self._every_s)
            return after

        return step

    def step(self, _tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """Vacuum the next table. Raises StoreUnavailable, and RetryableError while it would remove nothing."""
        done = str(progress.get(AT, ""))
        table = next((name for name in TABLES if name > done), None)
        if table is None:
            return None
        if held_back(self._engine, int(task.arguments.get(AFTER, 0))):
            raise RetryableError(
                "A transaction that is open since before the deletion still sees the rows: end it, or wait for it.",
                retry_after=HELD_BACK_S,
            )
        result = vacuum(self._engine, table)
        if result == "busy":
            raise RetryableError(f"The table {table} is being vacuumed or altered.", retry_after=HELD_BACK_S)
        counts = {name: int(progress.get(name, 0)) for name in ("vacuumed", "skipped")}
        counts[result] += 1
        return {AT: table, **counts}
