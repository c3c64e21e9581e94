"""Requests of deletions, here or once more after a restore, and their receipts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict

from memforest_core.domain.ids import FactId, ForestId, TenantId, session_id
from memforest_core.domain.operation_rules import OperationKind, Role
from memforest_core.domain.turns import checked_name, parse_timestamp
from memforest_core.errors import ForestFrozen, InvalidInput, NotFound
from memforest_core.ingest.reduce.canonical import identify
from memforest_core.lifecycle.erase.records import Receipt, Scope, Target, arguments_of, receipt_of, scope_in
from memforest_core.lifecycle.erase.rows.deletion import ErasureRows
from memforest_core.lifecycle.erase.rows.targets import TargetRows
from memforest_core.lifecycle.erase.rows.vacuum_rows import vacuumed_since
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef
from memforest_core.store.repeating import repeated
from memforest_core.work.operations import Operations, request
from memforest_core.work.records import TaskId

REPEATS = "repeats"
"""The argument of a task that names the deletion which it repeats."""


class RequestedErasure(BaseModel):
    """A deletion as its database has it: ids, digests and times, and the digest of its owner's name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: str
    task: UUID
    asked_at: datetime
    actor: str
    forest: UUID
    owner_hash: str | None
    arguments: Mapping[str, str | int]


def _here(rows: ErasureRows, deletion: RequestedErasure, forest: ForestId) -> Scope | None:
    """The target in a forest of the same owner, found by the id that it would have had in the deletion's forest."""
    then = ForestId(deletion.forest)
    scope = scope_in(forest, deletion.arguments)
    if forest == then or scope.target in (Target.OWNER, Target.RANGE):
        return scope
    if scope.session is not None:
        names = rows.targets.sessions(forest).items()
        own = next((id_ for name, id_ in names if session_id(then, name) == scope.session), None)
        return replace(scope, session=own) if own is not None else None
    if scope.fact is not None:
        facts = rows.targets.statements(forest)
        fact = next((id_ for id_, said in facts if identify(then, said)[0] == scope.fact), None)
        return replace(scope, fact=fact) if fact is not None else None
    speakers = rows.targets.speakers(forest)
    name = next((each for each in speakers if speaker_digest(then, each) == scope.speaker), None)
    return replace(scope, speaker=speaker_digest(forest, name)) if name is not None else None


def speaker_digest(forest: ForestId, speaker: str) -> str:
    """A speaker's id as a task row has it: it can be compared with, and not be read back."""
    return hashlib.sha256(f"{forest}\x1f{speaker}".encode()).hexdigest()


_NOTHING = "Owner {!r:.80} has no memory: there is nothing to delete."
_ONE = "Name one thing to delete: a session (with turns or whole), a fact, a time range, a speaker, or everything."


class Erasure:
    """Resolves what is to be deleted and requests it. Thread-safe."""

    def __init__(self, engine: Engine, operations: Operations) -> None:
        self._engine = engine
        self._operations = operations

    def ask(
        self,
        tenant: TenantId,
        owner: str,
        *,
        session: str | None = None,
        turns: Sequence[str] = (),
        fact: UUID | str | None = None,
        since: object | None = None,
        until: object | None = None,
        speaker: str | None = None,
        everything: bool = False,
        actor: str,
        dry_run: bool = False,
        part_of: TaskId | None = None,
    ) -> TaskId:
        """Delete ``turns`` (their ids) of a session, a whole ``session`` (its id), a ``fact`` (its UUID), what was said
        from ``since`` to before ``until``, a ``speaker``'s words (their id or name), or ``everything``.

        Facts that were said nowhere else go, others lose that occurrence; summaries that may quote what is gone are
        masked in the same transaction. ``receipt`` says what was removed, and that nothing refers to it.
        """
        owner = checked_name(owner, "owner")
        given = (session is not None, fact is not None, since is not None or until is not None, speaker is not None)
        if sum(given) + bool(everything) != 1:
            raise InvalidInput(_ONE, code="one_target")
        if turns and session is None:
            raise InvalidInput("Name the session that the turns are of.", code="one_target")
        if everything:
            task = self._everything(tenant, owner, actor, dry_run)
            self._operations.wake(tenant, task)
            if not dry_run:
                # If this process ends before it does, the task's first step does it.
                self._give_up_forests(tenant, task)
            return task
        with ErasureRows.opened(self._engine, tenant) as rows:
            forest = rows.find_forest(owner)
            if forest is None:
                raise NotFound(_NOTHING.format(owner))
            if forest.frozen:
                raise ForestFrozen(
                    f"Owner {owner!r:.80} is being merged into another: ask for it again in some seconds."
                )
            if session is not None:
                scope = _of_session(rows.targets, forest.id, session, turns)
            elif fact is not None:
                scope = _of_fact(rows.targets, forest.id, fact)
            elif speaker is not None:
                speaker = checked_name(speaker, "speaker")
                if speaker not in rows.targets.speakers(forest.id):
                    raise NotFound(f"Nothing was said by a speaker with the id {speaker!r:.80}.")
                scope = Scope(Target.SPEAKER, forest.id, speaker=speaker_digest(forest.id, speaker))
            else:
                scope = _of_range(forest, since, until)
        return self._operations.ask(
            tenant,
            OperationKind.ERASE,
            forest.id,
            arguments_of(scope),
            actor=actor,
            owner=owner,
            dry_run=dry_run,
            part_of=part_of,
        )

    @repeated
    def _give_up_forests(self, tenant: TenantId, task: TaskId) -> None:
        with ErasureRows.opened(self._engine, tenant) as rows:
            rows.deletion.give_up_forests(task)

    @repeated
    def _everything(self, tenant: TenantId, owner: str, actor: str, dry_run: bool) -> TaskId:
        """Ask for all forests of an owner: the one that is seen, and those that imports and merges are filling."""
        with ErasureRows.opened(self._engine, tenant) as rows:
            forests = rows.deletion.forests_of(owner)
            if not forests:
                raise NotFound(_NOTHING.format(owner))
            task = request(
                rows.deletion.tasks,
                OperationKind.ERASE,
                forests[0],
                arguments_of(Scope(Target.OWNER, forests[0])),
                actor=actor,
                owner=owner,
                dry_run=dry_run,
                touches=dict.fromkeys(forests, Role.ERASE),
            )
            if not dry_run:
                rows.deletion.cancel_imports(forests, actor)
        return task

    @repeated
    def repeat(self, deletion: RequestedErasure) -> list[TaskId]:
        """Request a deletion of another database here; the tasks that repeat it. Raises StoreUnavailable."""
        tenant = TenantId(deletion.tenant)
        with ErasureRows.opened(self._engine, tenant) as rows:
            found = rows.deletion.repeats(deletion.task)
            if found:
                return found
            owner, forests = rows.deletion.named(deletion.forest, deletion.owner_hash)
            scopes = [scope for forest in forests for scope in [_here(rows, deletion, forest)] if scope is not None]
            if scopes and scopes[0].target is Target.OWNER:
                rows.deletion.cancel_imports(forests, deletion.actor)
                scopes, touches = scopes[:1], forests
            else:
                touches = []
            return [
                request(
                    rows.deletion.tasks,
                    OperationKind.ERASE,
                    scope.forest,
                    {**arguments_of(scope), REPEATS: str(deletion.task)},
                    actor=deletion.actor,
                    owner=owner,
                    touches=dict.fromkeys(touches or [scope.forest], Role.ERASE),
                )
                for scope in scopes
            ]

    def receipt(self, tenant: TenantId, operation: TaskId) -> Receipt:
        """What a finished deletion (by its operation's id) removed, and what the search for references to it found."""
        with ErasureRows.opened(self._engine, tenant) as rows:
            found = rows.deletion.tasks.get(operation)
        if found is None or found.kind != OperationKind.ERASE:
            raise NotFound(f"There is no deletion {operation}.")
        receipt = receipt_of(found)
        if receipt.finished_at is None or receipt.planned:
            return receipt
        return replace(receipt, vacuumed=vacuumed_since(self._engine, tenant, receipt.finished_at))


def _of_session(rows: TargetRows, forest: ForestId, name: str, turns: Sequence[str]) -> Scope:
    name = checked_name(name, "session")
    if isinstance(turns, str):
        raise InvalidInput("Give turns as a list of turn ids.", code="invalid_turns")
    session = rows.sessions(forest, name).get(name)
    if session is None:
        raise NotFound(f"There is no session {name!r:.80} of this owner.")
    if not turns:
        return Scope(Target.SESSION, forest, session=session)
    wanted = [checked_name(turn, "turn") for turn in turns]
    found = rows.ordinals(session, wanted)
    unknown = next((turn for turn in wanted if turn not in found), None)
    if unknown is not None:
        raise NotFound(f"There is no turn {unknown!r:.80} in session {name!r:.80}.")
    return Scope(Target.TURNS, forest, session=session, ordinals=tuple(sorted(set(found.values()))))


def _of_fact(rows: TargetRows, forest: ForestId, fact: UUID | str) -> Scope:
    try:
        id_ = FactId(fact if isinstance(fact, UUID) else UUID(fact))
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput("Give a fact by its id, a UUID as evidence has it.", code="invalid_fact") from None
    if not rows.has_fact(forest, id_):
        raise NotFound(f"There is no fact {id_} of this owner.")
    return Scope(Target.FACT, forest, fact=id_)


def _of_range(forest: ForestRef, since: object | None, until: object | None) -> Scope:
    zone = ZoneInfo(forest.time_zone)
    first = parse_timestamp(since, zone, "since") if since is not None else None
    last = parse_timestamp(until, zone, "until") if until is not None else None
    if first is not None and last is not None and first >= last:
        raise InvalidInput("Give a time range whose end comes after its start.", code="invalid_range")
    return Scope(Target.RANGE, forest.id, since=first, until=last)
