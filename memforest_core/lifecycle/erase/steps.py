"""The steps of an erase task: batches of rows, then the index, then a search for what may be left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from memforest_core.domain.ids import ForestId, SessionId, TenantId, TreeKind, tree_id
from memforest_core.errors import NotFound, RetryableError
from memforest_core.index.vector_index import PointKey, VectorIndex
from memforest_core.lifecycle.erase.batch_removal import COUNTED, Removal
from memforest_core.lifecycle.erase.clearing import Clearing, await_indexers
from memforest_core.lifecycle.erase.records import LEFT, Scope, Target, scope_of
from memforest_core.lifecycle.erase.rows.deletion import STEPS
from memforest_core.lifecycle.erase.rows.erasing import ErasureRows, erasing
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.work.records import Numbers, OperationTask

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


class Erasing:
    """The handler of ERASE tasks. Each step can be repeated from the same progress."""

    def __init__(self, engine: Engine, index: VectorIndex, clearing: Clearing, model: str, settings: Settings) -> None:
        """``model`` is the embedding model in use."""
        self._engine = engine
        self._index = index
        self._clearing = clearing
        self._model = model
        self._settings = settings

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One batch. Raises StoreUnavailable, IndexUnavailable, RetryableError while the forest is being merged, and
        NotFound when it was."""
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
        with erasing(self._engine, tenant) as rows:
            progress = rows.deletion.further(task.id, progress)
            if progress.get(PHASE, _COPIES) != _COPIES:
                return progress
            rows.deletion.give_up_copies(task.id, scope.forest)
            copy = rows.deletion.next_to_clear(task.id, scope.forest)
        if copy is None:
            return self._rows(tenant, task, scope, dict(progress) | {PHASE: _ROWS})
        # What is counted is what goes from the forest that was meant.
        self._clearing.batch(tenant, copy, None, {})
        return dict(progress) | {PHASE: _COPIES}

    def _rows(self, tenant: TenantId, task: OperationTask, scope: Scope, progress: Numbers) -> Numbers:
        with erasing(self._engine, tenant) as rows:
            state = rows.lock_forest(scope.forest)
            progress = rows.deletion.further(task.id, progress)
            if progress.get(PHASE, _ROWS) != _ROWS:
                return progress
            # The deletion of the whole memory may have been requested since: then this works on what is left.
            everything = state in (None, "gone") and rows.deletion.whole_forest_requested(scope.forest)
            if not everything:
                _check(state)
            after, phase = self._batch(rows, scope, progress) if state is not None else (progress, _INDEX)
            return rows.deletion.store_progress(task.id, _stepped(after, phase))

    def _batch(self, rows: ErasureRows, scope: Scope, progress: Numbers) -> tuple[Numbers, str]:
        """One batch of a target that is not the whole forest, and the phase after it."""
        match scope.target:
            case Target.FACT if scope.fact is not None:
                return _added(progress, self._removal(rows, scope.forest).facts([scope.fact])), _INDEX
            case Target.SESSION if scope.session is not None:
                return self._tail(rows, scope.forest, scope.session, progress)
            case _:
                return self._words(rows, scope, progress)

    def _words(self, rows: ErasureRows, scope: Scope, progress: Numbers) -> tuple[Numbers, str]:
        """The next turns that are named; sessions are walked through until a whole walk finds none."""
        at = str(progress.get("at", ""))
        turns = rows.targets.next_turns(scope, SessionId(UUID(at)) if at else None, BATCH_CELLS)
        if not turns:
            return dict(progress) | {"at": ""}, _ROWS if at else _INDEX
        after = _added(progress, self._removal(rows, scope.forest).words(turns))
        return dict(after) | {"at": str(turns[-1].session_id)}, _ROWS

    def _tail(self, rows: ErasureRows, forest: ForestId, session: SessionId, progress: Numbers) -> tuple[Numbers, str]:
        """The end of a session, so that what is left of it is whole at any time; with its first turn its row.

        The session's row is locked before its turns are read: what is being added is deleted too, or begins a new
        session after this one.
        """
        turns = rows.targets.last_turns(session, BATCH_CELLS) if rows.targets.lock_session(session) else None
        if turns is None:
            return progress, _INDEX
        removal = self._removal(rows, forest)
        if turns:
            counts = removal.words(turns, whole=True)
            if turns[0].ordinal > 0:
                return _added(progress, counts), _ROWS
        counts = removal.session(session, tree_id(forest, TreeKind.SESSION, str(session)))
        # Searched for here: once this commits, the session may be begun again under the same id.
        for column, count in rows.remaining.of_session(forest, session).items():
            counts[LEFT + column] += count
        return _added(progress, counts), _INDEX

    def _removal(self, rows: ErasureRows, forest: ForestId) -> Removal:
        return Removal(rows, forest, self._model, self._settings)

    def _clear(self, tenant: TenantId, task: OperationTask, scope: Scope, progress: Numbers) -> Numbers:
        with erasing(self._engine, tenant) as rows:
            rows.deletion.give_up_forests(task.id)
        with erasing(self._engine, tenant) as rows:
            progress = rows.deletion.further(task.id, progress)
            forest = rows.deletion.next_to_clear(task.id)
        if progress.get(PHASE, _ROWS) != _ROWS:
            return progress
        gone = self._clearing.batch(tenant, forest, task.id, progress) if forest is not None else None
        if gone is not None:
            return gone
        with erasing(self._engine, tenant) as rows:
            return rows.deletion.store_progress(task.id, _stepped(rows.deletion.further(task.id, progress), _INDEX))

    def _points(self, tenant: TenantId, task: OperationTask, scope: Scope, progress: Numbers) -> Numbers:
        """Delete the points that have what was erased, without a lock; then wait for indexers that were writing one.

        Tombstones are forgotten. The point of what lives on is deleted too, and rewritten by the indexer.
        """
        if scope.target is Target.OWNER:
            return dict(progress) | {PHASE: _SCAN, INDEX_LEFT: self._swept(tenant, task, None)}
        if MARK not in progress:
            with erasing(self._engine, tenant) as rows:
                return dict(progress) | {MARK: rows.words.next_version()}
        mark = int(progress[MARK])
        after = UUID(str(progress["after"])) if progress.get("after") else None
        with erasing(self._engine, tenant) as rows:
            points = rows.words.erased_points(scope.forest, mark, after, BATCH_POINTS)
        if not points:
            await_indexers(self._engine, tenant, scope.forest, mark)
            with erasing(self._engine, tenant) as rows:
                if rows.words.has_erased_points(scope.forest, mark):
                    return dict(progress) | {PHASE: _INDEX, "after": ""}
            found = int(progress.get(INDEX_LEFT, 0)) + self._swept(tenant, task, scope.forest)
            return dict(progress) | {PHASE: _SCAN, "after": "", INDEX_LEFT: found}
        self._index.delete([PointKey(tenant, scope.forest, id_) for id_ in points])
        with erasing(self._engine, tenant) as rows:
            rows.lock_forest(scope.forest)
            alive = rows.words.confirm(points, mark)
        gone = [PointKey(tenant, scope.forest, id_) for id_ in points if id_ not in alive]
        found = int(progress.get(INDEX_LEFT, 0)) + len(self._index.versions(gone))
        return dict(progress) | {"after": str(max(points)), INDEX_LEFT: found}

    def _swept(self, tenant: TenantId, task: OperationTask, but: ForestId | None) -> int:
        """Delete what late indexers left of the forests that went; how many points are left of them."""
        with erasing(self._engine, tenant) as rows:
            went = [forest for forest in rows.deletion.touched(task.id) if forest != but]
        return sum(self._clearing.sweep(tenant, forest) for forest in went)

    def _scan(self, tenant: TenantId, task: OperationTask, scope: Scope, progress: Numbers) -> Numbers:
        """Search once more for the target itself: every batch has searched for the ids that it removed."""
        with erasing(self._engine, tenant) as rows:
            orphans = rows.vectors.drop_orphans(scope.forest)
            words = rows.targets.next_turns(scope, None, 1)
            if words and scope.target is not Target.TURNS:
                # Said since all of them were deleted: these go too.
                return {name: count for name, count in progress.items() if name != MARK} | {PHASE: _ROWS, "at": ""}
            found = rows.remaining.of_target(scope)
            found["turn.content"] += len(words)
            for forest in rows.deletion.touched(task.id):
                if forest != scope.forest:
                    found.update(rows.remaining.of_forest(forest))
        progress = dict(progress) | {"vectors": int(progress.get("vectors", 0)) + orphans}
        left = {LEFT + column: int(progress.get(LEFT + column, 0)) + count for column, count in found.items()}
        return dict(progress) | {INDEX_LEFT: int(progress.get(INDEX_LEFT, 0))} | left | {PHASE: _SCANNED}

    def _plan(self, tenant: TenantId, scope: Scope) -> Numbers:
        """What would be deleted: the same steps in a transaction that is rolled back."""
        with erasing(self._engine, tenant, dry_run=True) as rows:
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


def _added(progress: Numbers, counts: Counter[str]) -> Numbers:
    return dict(progress) | {name: int(progress.get(name, 0)) + count for name, count in counts.items()}


def _stepped(progress: Numbers, phase: str) -> Numbers:
    """The progress of a committed step, with every count there is."""
    counted: Mapping[str, str | int] = dict.fromkeys(COUNTED, 0)
    return dict(counted) | dict(progress) | {PHASE: phase, STEPS: int(progress.get(STEPS, 0)) + 1}
