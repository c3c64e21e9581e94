"""Rebuilds a forest as a hidden one, by the ordinary pipeline, and switches when both have the same sessions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from memforest_core.domain.ids import ForestId, SessionId, TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput, NotFound, PermanentError, RetryableError
from memforest_core.ingest.reduce.placing import retire
from memforest_core.lifecycle.hidden_forest_rows import StoredForest
from memforest_core.lifecycle.rebuild.planner import Planner
from memforest_core.lifecycle.rebuild.records import (
    Options,
    Pair,
    Plan,
    Remaining,
    arguments_of,
    copy_of,
    options_of,
    rules_of,
)
from memforest_core.lifecycle.rebuild.rows.rebuilding import CopyRows
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import known
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import Lane
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.operations import Clear, Operations, undone
from memforest_core.work.records import CANCELLED, DRY_RUN, Numbers, OperationTask, TaskId, with_counts

BATCH_TURNS = 2_000
"""Turns whose sessions are copied in one step: well under a second."""
BATCH_SESSIONS = 20
"""Sessions that are found to differ and copied again in one step."""
WAIT_S = 2.0
"""Seconds between two checks whether the pipeline is done with the copy."""
ROWS_PER_S = 10_000
"""Candidates that are compared in a second at worst (measured: 60,000): a large forest is checked less often."""


class StillMaterializing(RetryableError):
    """The copy is not complete yet: the step is retried later."""

    code = "still_materializing"


class CopyLost(PermanentError):
    """Cells of the copy are dead that the live forest has extracted: the copy may not replace it."""

    code = "copy_lost_cells"


@dataclass(frozen=True, slots=True)
class Rematerializing:
    """Requests rebuilds of forests and runs their steps. Thread-safe."""

    engine: Engine
    operations: Operations
    planner: Planner
    settings: Settings
    model: str
    """The embedding model."""
    wakeups: WakeUps
    clear: Clear
    """Deletes a gone forest, batch by batch."""

    def plan(self, tenant: TenantId, owner: str, options: Options) -> Plan:
        """The estimated work and cost of a rebuild. Raises InvalidInput, NotFound, StoreUnavailable."""
        return self.planner.plan(tenant, self._find(tenant, owner), options)

    def ask(self, tenant: TenantId, owner: str, options: Options, *, actor: str, dry_run: bool = False) -> TaskId:
        """Ask for a rebuild of the owner's forest; the same again while it runs is the same task.

        Raises InvalidInput for an impossible rule or while another rebuild of it runs, NotFound, StoreUnavailable.
        """
        source = self._find(tenant, owner)
        rules_of(self.settings, source.rules, options.rules)
        arguments = arguments_of(options)
        wanted = arguments | ({DRY_RUN: 1} if dry_run else {})
        for task in self._under_way(tenant, source.id):
            if dict(task.arguments) != wanted and not dry_run:
                raise InvalidInput(
                    f"Owner {owner!r:.80} is being re-materialized by operation {task.id}: wait until it is done.",
                    code="already_rematerializing",
                )
        return self.operations.ask(
            tenant,
            OperationKind.REMATERIALIZE,
            source.id,
            arguments,
            actor=actor,
            owner=source.owner,
            dry_run=dry_run,
            lane=Lane.BACKFILL,
        )

    @repeated
    def abandon(self, tenant: TenantId, owner: str) -> int:
        """Delete the hidden forests that abandoned rebuilds of an owner's forest have left; returns how many."""
        source = self._find(tenant, owner)
        with CopyRows.opened(self.engine, tenant) as rows:
            hidden = set(rows.hidden(source.owner))
        for task in self._under_way(tenant, None):
            if copy_of(task.id) in hidden:
                raise InvalidInput(
                    f"Operation {task.id} is still at it: wait until it is done, or given up.",
                    code="already_rematerializing",
                )
        for forest in sorted(hidden, key=str):
            with CopyRows.opened(self.engine, tenant) as rows:
                rows.set_forest_state(forest, "gone")
            while not self.clear(tenant, forest):
                pass
        return len(hidden)

    def _find(self, tenant: TenantId, owner: str) -> StoredForest:
        owner = checked_name(owner, "owner")
        with CopyRows.opened(self.engine, tenant) as rows:
            return known(rows.forest_of(owner), owner)

    def _under_way(self, tenant: TenantId, source: ForestId | None) -> list[OperationTask]:
        return [
            task
            for task in self.operations.list(tenant, 1_000)
            if task.kind == OperationKind.REMATERIALIZE
            and not task.finished
            and not task.dry_run
            and (source is None or task.forest_id == source)
        ]

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One step: from a copy batch by batch, over following what changes meanwhile, to the switch and the clearing.

        Raises StillMaterializing while the pipeline works on the copy, CopyLost, StoreUnavailable.
        """
        if task.forest_id is None:
            raise NotFound("The operation names no forest.")
        options = options_of(task.arguments)
        if task.dry_run:
            return self._dry(tenant, task.forest_id, options, progress)
        pair = Pair(task.forest_id, copy_of(task.id), options.extract)
        if "copy" not in progress:
            # Stored first, so that the hidden forest can always be traced to its operation.
            return {"phase": "begin", "copy": str(pair.copy)}
        with CopyRows.opened(self.engine, tenant) as rows:
            source, copy = rows.forest(pair.source), rows.forest(pair.copy)
        match progress.get("phase"):
            case "switched" | "attributed" | "overtaken":
                return self._after(tenant, pair, progress)
            case _ if copy is not None and copy.state in ("live", "frozen"):
                return dict(progress) | {"phase": "switched"}
            case _ if source is None or source.state == "gone":
                return dict(progress) | {"phase": "overtaken"}
            case _ if copy is None or copy.state == "gone":
                return self._begin(tenant, pair, source, options, cleared=copy is None)
            case "copy":
                return self._copy(tenant, pair, progress)
            case "follow":
                return self._follow(tenant, pair, progress)
            case "switch":
                return self._switch(tenant, pair, progress)
            case _:
                counted: dict[str, str | int] = dict.fromkeys(("sessions", "cells", "candidates", "recopied"), 0)
                return {"phase": "copy", "copy": str(pair.copy), "after": ""} | counted

    def undo(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One step of undoing it: the copy is deleted. After the switch the rebuild continues to its end."""
        if task.dry_run or progress.get("phase") == CANCELLED:
            return undone(progress)
        copy = copy_of(task.id)
        with CopyRows.opened(self.engine, tenant) as rows:
            found = rows.forest(copy)
            late = found is not None and found.state in ("live", "frozen")
        if late or progress.get("phase") in ("switched", "attributed", "overtaken"):
            return self.step(tenant, task, progress)
        return undone(progress) if self.clear(tenant, copy) else progress

    def _dry(self, tenant: TenantId, forest: ForestId, options: Options, progress: Numbers) -> Numbers | None:
        if progress.get("phase") == "planned":
            return None
        with CopyRows.opened(self.engine, tenant) as rows:
            source = rows.forest(forest)
        if source is None:
            raise NotFound(f"Forest {forest} is not there any more.")
        return {"phase": "planned", **self.planner.plan(tenant, source, options).numbers()}

    def _begin(
        self, tenant: TenantId, pair: Pair, source: StoredForest, options: Options, *, cleared: bool
    ) -> Numbers | None:
        """Make the hidden forest; what an abandoned try left goes first."""
        if not cleared and not self.clear(tenant, pair.copy):
            return {"phase": "begin", "copy": str(pair.copy)}
        rules = rules_of(self.settings, source.rules, options.rules)
        with CopyRows.opened(self.engine, tenant) as rows:
            begun = rows.begin(pair, rules, forget_summaries=options.summaries)
        if not begun:
            raise _taken()
        return {"phase": "begin", "copy": str(pair.copy)}

    def _copy(self, tenant: TenantId, pair: Pair, progress: Numbers) -> Numbers:
        after = SessionId(UUID(str(progress["after"]))) if progress.get("after") else None
        with CopyRows.opened(self.engine, tenant) as rows:
            rows.lock_forest(pair.copy)
            if not rows.stays_hidden(pair.copy):
                raise _taken()
            sessions = rows.sessions.after(pair.source, after, BATCH_TURNS)
            copied = [rows.sessions.copy(pair, session) for session in sessions]
        self.wakeups.send(Queue.EXTRACT if pair.extract else Queue.REDUCE, tenant, str(pair.copy))
        if not sessions:
            return dict(progress) | {"phase": "follow"}
        return with_counts(progress, sum(copied, Counter())) | {"after": str(sessions[-1])}

    def _follow(self, tenant: TenantId, pair: Pair, progress: Numbers) -> Numbers:
        """Copy again what has changed since; then wait until the pipeline is done with the copy."""
        with CopyRows.opened(self.engine, tenant) as rows:
            differing = rows.sessions.differing(pair, BATCH_SESSIONS)
        if differing:
            copied = [self._recopy(tenant, pair, source, copy) for source, copy in differing]
            return with_counts(progress, sum(copied, Counter(recopied=len(differing))))
        with CopyRows.opened(self.engine, tenant) as rows:
            left, live = rows.sessions.remaining(pair.copy), rows.sessions.remaining(pair.source)
        if not left.placed:
            raise self._still(tenant, left, progress)
        if left.dead > live.dead:
            raise CopyLost(
                f"{left.dead - live.dead} cells of the copy could not be extracted or placed: see memforest dead;"
                " the live memory stays as it is."
            )
        with CopyRows.opened(self.engine, tenant) as rows:
            rows.lock_forest(pair.copy)
            added = rows.carry_candidates(pair) if pair.extract else 0
            if not added:
                rows.carry_states(pair)
                rows.flushing.make_due(pair.copy, None)
                left = rows.sessions.remaining(pair.copy)
        if added:
            return dict(progress) | {"carried": int(progress.get("carried", 0)) + added}
        if not left.done:
            raise self._still(tenant, left, progress)
        return dict(progress) | {"phase": "switch"}

    def _recopy(self, tenant: TenantId, pair: Pair, source: SessionId | None, copy: SessionId | None) -> Counter[str]:
        """Copy what was added to one session, or all of it again when something was deleted or changed."""
        with CopyRows.opened(self.engine, tenant) as rows:
            rows.lock_forest(pair.copy)
            if not rows.stays_hidden(pair.copy):
                raise _taken()
            copied = rows.sessions.copy(pair, source) if source is not None else Counter()
            if copy is not None and (source is None or rows.sessions.differing(pair, 1, source)):
                self._drop(rows, pair.copy, copy)
                copied = rows.sessions.copy(pair, source) if source is not None else Counter()
        return copied

    def _drop(self, rows: CopyRows, forest: ForestId, session: SessionId) -> None:
        """Take a session out of the copy: its facts with their leaves, then its tree and its words."""
        cells = rows.set_aside(session)
        retire(rows.removal, forest, cells, self.model, self.settings)
        rows.drop_session(forest, session)

    def _still(self, tenant: TenantId, left: Remaining, progress: Numbers) -> StillMaterializing:
        """The error that names the waiting work, and when to retry; wakes the workers that have to do it."""
        for queue, waiting in (
            (Queue.EXTRACT, left.extracting),
            (Queue.REDUCE, left.placing),
            (Queue.REFRESH, left.trees),
        ):
            if waiting:
                self.wakeups.send(queue, tenant, "rematerialize")
        return StillMaterializing(
            f"The copy still has {left.extracting} cells to extract, {left.placing} to place, {left.trees} trees to"
            f" refresh and {left.points} points to index.",
            retry_after=WAIT_S + int(progress.get("candidates", 0)) / ROWS_PER_S,
        )

    def _switch(self, tenant: TenantId, pair: Pair, progress: Numbers) -> Numbers:
        with CopyRows.opened(self.engine, tenant) as rows:
            switched = rows.switch(pair)
            busy = not switched and rows.busy(pair.source)
        if busy:
            raise StillMaterializing(
                "Another operation or an extraction is at the live forest: the switch comes after it.",
                retry_after=WAIT_S,
            )
        return dict(progress) | {"phase": "switched" if switched else "follow"}

    def _after(self, tenant: TenantId, pair: Pair, progress: Numbers) -> Numbers | None:
        """Attribute what was paid for and clear the old forest; or clear the copy of a forest that is gone."""
        if progress["phase"] == "overtaken":
            with CopyRows.opened(self.engine, tenant) as rows:
                rows.set_forest_state(pair.copy, "gone")
            return None if self.clear(tenant, pair.copy) else progress
        if progress["phase"] == "switched":
            with CopyRows.opened(self.engine, tenant) as rows:
                rows.lock_forest(pair.copy)
                rows.attribute(pair)
            return dict(progress) | {"phase": "attributed"}
        return None if self.clear(tenant, pair.source) else progress


def _taken() -> StillMaterializing:
    return StillMaterializing("A deletion is at the live forest: the copy is begun again after it.", retry_after=WAIT_S)
