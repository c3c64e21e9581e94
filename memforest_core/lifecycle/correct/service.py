"""Correcting a fact, pinning and unpinning: written at once; corrections are followed until they are in the trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.pages import MOST_LISTED, checked_limit
from memforest_core.domain.turns import checked_actor, checked_name
from memforest_core.errors import ForestFrozen, InvalidInput, NotFound, PermanentError, RetryableError
from memforest_core.ingest.accept.redaction import NOTHING, Redactor, counted
from memforest_core.ingest.reduce.canonical import identify
from memforest_core.lifecycle.correct.records import Pins, StoredFact, corrected
from memforest_core.lifecycle.correct.rows import CorrectionRows
from memforest_core.models.calls import Embedder, OwnText
from memforest_core.models.statement_vectors import StatementEmbedder, parts_of
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef, known
from memforest_core.store.repeating import repeated
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.operations import request
from memforest_core.work.records import DRY_RUN, Numbers, OperationTask, TaskId
from memforest_core.work.waiting import polled, waited

FACT = "fact"
BY = "by"
ERASE = "erase"
PIN = "pin"
SESSION, TURN = "session", "turn"
"""Arguments of a task: the fact, the id of what it is corrected to, whether the old one is erased and whether it is
pinned (1 or 0), the session and the turn's ordinal in it."""


PLACED_S = 1.0
"""How long a step waits for the reducer, which mostly needs some milliseconds, before it gives the task back."""
POLL_S = 0.05


Eraser = Callable[[TenantId, str, FactId, str, TaskId], TaskId]
"""Requests the deletion of an owner's fact, for an actor, as a part of a correction; the task that deletes it.

Raises NotFound when the fact is gone already.
"""


class CorrectionStuck(PermanentError):
    """A cell that a correction was written into can't be placed; ``memforest dead`` shows why."""

    code = "correction_stuck"


class NotPlacedYet(RetryableError):
    """The reducer has not placed a correction yet."""

    code = "not_placed_yet"


@dataclass(frozen=True, slots=True)
class Correction:
    """Corrects facts, pins facts, turns and sessions, and follows corrections into the trees. Thread-safe."""

    engine: Engine
    embedder: Embedder
    wakeups: WakeUps
    erase: Eraser
    """Deletes old facts where a caller wants no history."""
    redactor: Redactor = NOTHING

    @repeated
    def correct(
        self,
        tenant: TenantId,
        owner: str,
        fact: UUID | str,
        *,
        text: str | None = None,
        start: object | None = None,
        end: object | None = None,
        value: str | None = None,
        erase: bool = False,
        actor: str,
        dry_run: bool = False,
    ) -> TaskId:
        """Give a ``fact`` (its UUID) another sentence (``text``), time (from ``start`` to ``end``) or ``value``.

        The old one is superseded: recall leaves it out from now on, and still has it ``as_of`` before; with ``erase``
        it is deleted. The operation is done when the new one can be found.

        Raises ModelUnavailable and ModelRejected too: the new sentence has to be embedded.
        """
        actor, masks = checked_actor(actor), Counter[str]()
        text, value = (cast(str | None, self.redactor.values(each, masks)) for each in (text, value))
        with CorrectionRows.opened(self.engine, tenant) as rows:
            forest, stored = _found(rows, owner, fact)
        statement = corrected(
            stored.statement, ZoneInfo(forest.time_zone), text=text, value=value, start=start, end=end
        )
        new = _successor(forest, stored, statement)
        arguments: dict[str, str | int] = {FACT: str(stored.id), BY: str(new)}
        arguments |= {ERASE: 1} if erase else {}
        if dry_run:
            _check(stored, new)
            with CorrectionRows.opened(self.engine, tenant) as rows:
                return _ask(rows, forest, arguments | {DRY_RUN: 1}, actor)
        texts = list(dict.fromkeys((statement.text, statement.routing_text)))
        embedded = StatementEmbedder(self.embedder).embed(texts, parts_of([statement]))
        with CorrectionRows.opened(self.engine, tenant) as rows:
            _lock(rows, forest)
            _, stored = _found(rows, owner, stored.id)
            # Sent again, it is the same correction.
            if stored.superseded_by != new:
                _check(stored, new)
                own = (OwnText(forest.id, said) for said in texts)
                rows.vectors.put_vectors(self.embedder.model, dict(zip(own, embedded.vectors, strict=True)))
                rows.supersede(stored.id, new, statement, stored.sources)
                counted(masks)
            rows.record_call(embedded.record, forest.id)
            task = _ask(rows, forest, arguments, actor)
        self.wakeups.send(Queue.REDUCE, tenant, str(forest.id))
        self.wakeups.send(Queue.MAINTAIN, tenant, str(task))
        return task

    @repeated
    def set_pinned(
        self,
        tenant: TenantId,
        owner: str,
        fact: UUID | str | None,
        actor: str,
        pinned: bool,
        *,
        session: str | None = None,
        turn: str | None = None,
    ) -> TaskId:
        """Keep a fact, or a session, or (``turn``) one turn of it, with the facts that were said there, whatever a
        policy says; or let policies forget it again.

        Raises InvalidInput, NotFound, ForestFrozen, StoreUnavailable.
        """
        actor = checked_actor(actor)
        if (fact is None) == (session is None) or (turn is not None and session is None):
            raise InvalidInput("Name a fact, a session, or a turn with its session.", code="invalid_pin")
        session = None if session is None else checked_name(session, "session")
        turn = None if turn is None else checked_name(turn, "turn")
        arguments: dict[str, str | int] = {PIN: int(pinned)}
        with CorrectionRows.opened(self.engine, tenant) as rows:
            forest = known(rows.find_forest(checked_name(owner, "owner")), owner)
            _lock(rows, forest)
            if fact is not None:
                _, stored = _found(rows, owner, fact)
                if pinned and stored.superseded_by is not None:
                    raise _superseded(stored.superseded_by)
                rows.set_pinned(stored.id, pinned)
                arguments[FACT] = str(stored.id)
            else:
                words = rows.words(forest.id, session or "", turn)
                if words is None:
                    missing = "" if turn is None else f"turn {turn!r:.80} in "
                    raise NotFound(f"Owner {owner!r:.80} has no {missing}session {session!r:.80}.")
                rows.set_words_pinned(*words, pinned)
                arguments |= {SESSION: str(words[0])} | ({} if words[1] is None else {TURN: words[1]})
            task = _ask(rows, forest, arguments, actor)
        self.wakeups.send(Queue.MAINTAIN, tenant, str(task))
        return task

    @repeated
    def pins(self, tenant: TenantId, owner: str, *, limit: int = 1_000) -> Pins:
        """The pinned sessions, turns and facts of an owner, at most ``limit`` of each."""
        limit = checked_limit(limit, MOST_LISTED)
        with CorrectionRows.opened(self.engine, tenant) as rows:
            return rows.pins(known(rows.find_forest(checked_name(owner, "owner")), owner).id, limit)

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """The next step of a task, written when requested. Raises NotPlacedYet, CorrectionStuck, StoreUnavailable."""
        if PIN in task.arguments:
            pinned = "pinned" if task.arguments[PIN] else "unpinned"
            kind = "turns" if TURN in task.arguments else "sessions" if SESSION in task.arguments else "facts"
            return None if progress else {"phase": pinned, kind: 1}
        match progress.get("phase"):
            case None:
                with CorrectionRows.opened(self.engine, tenant) as rows:
                    touched = rows.touched_by(_argument(task, FACT))
                return {"phase": "planned" if task.dry_run else "placing", "facts": 1, **touched}
            case "placing":
                return self._placed(tenant, task, progress)
            case "placed" if task.arguments.get(ERASE):
                return self._erased(tenant, task, progress)
            case _:
                return None

    def _placed(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers:
        """Wait until the reducer has placed the new fact, and give it the old one's pin."""
        old, new = _argument(task, FACT), _argument(task, BY)
        self.wakeups.send(Queue.REDUCE, tenant, str(task.forest_id or ""))

        def check() -> Numbers | None:
            with CorrectionRows.opened(self.engine, tenant) as rows:
                waiting, dead = rows.waiting([old, new])
                if not waiting:
                    rows.move_pin(old, new)
                    return dict(progress) | {"phase": "placed"}
            if dead:
                raise CorrectionStuck("A cell of this correction was given up: see memforest dead, then try again.")
            return None

        placed = waited(polled(check, PLACED_S, POLL_S))
        if placed is None:
            raise NotPlacedYet("The correction waits for a reducer: is a worker of the reduce queue running?")
        return placed

    def _erased(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """Ask for the deletion of the old fact, unless it is gone already."""
        old = _argument(task, FACT)
        with CorrectionRows.opened(self.engine, tenant) as rows:
            forest = task.forest_id
            owner = rows.owner_of(forest) if forest is not None else None
            if forest is None or owner is None or rows.fact(forest, old) is None:
                return None
        erasing = self.erase(tenant, owner, old, task.actor, task.id)
        return dict(progress) | {"phase": "erasing", "erase_task": str(erasing)}


def _successor(forest: ForestRef, stored: StoredFact, statement: Statement) -> FactId:
    """The id of the fact that says it. Raises InvalidInput when it says that already."""
    new, _ = identify(forest.id, statement)
    if new == stored.id:
        raise InvalidInput("The fact says that already: give another text or another time.", code="same_fact")
    if not stored.sources:
        raise _busy()
    return new


def _found(rows: CorrectionRows, owner: str, fact: UUID | str) -> tuple[ForestRef, StoredFact]:
    forest = known(rows.find_forest(checked_name(owner, "owner")), owner)
    stored = rows.fact(forest.id, _fact_id(fact))
    if stored is None:
        raise NotFound(f"Owner {owner!r:.80} has no fact {fact!s:.80}: take its id from a recall or a timeline.")
    return forest, stored


def _ask(rows: CorrectionRows, forest: ForestRef, arguments: Numbers, actor: str) -> TaskId:
    """Ask for the task, in the transaction of what it follows."""
    return request(rows.tasks, OperationKind.CORRECT, forest.id, arguments, actor=actor, owner=forest.owner)


def _lock(rows: CorrectionRows, forest: ForestRef) -> None:
    state = rows.lock_forest(forest.id)
    if state is None:
        raise NotFound(f"Owner {forest.owner!r:.80} has no memory any more.")
    if state != "live":
        raise ForestFrozen(
            f"Owner {forest.owner!r:.80} is being merged into another: correct it there in some seconds."
        )


def _check(stored: StoredFact, new: FactId) -> None:
    if stored.superseded_by is not None and stored.superseded_by != new:
        raise _superseded(stored.superseded_by)
    if stored.busy:
        raise _busy()


def _superseded(by: FactId) -> InvalidInput:
    return InvalidInput(f"This fact was corrected already: take fact {by}, which took its place.", code="superseded")


def _busy() -> InvalidInput:
    return InvalidInput(
        "What says this fact is being extracted again: correct it when that is done (memforest status).",
        code="being_extracted",
    )


def _fact_id(given: UUID | str) -> FactId:
    if isinstance(given, UUID):
        return FactId(given)
    try:
        return FactId(UUID(given))
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput("Name the fact by its id, as a recall gives it.", code="invalid_fact") from None


def _argument(task: OperationTask, name: str) -> FactId:
    return FactId(UUID(str(task.arguments[name])))
