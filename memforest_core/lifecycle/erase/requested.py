"""Deletions that were requested of another database since a backup of it, and requesting each of them here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memforest_core.domain.ids import ForestId, TenantId, session_id
from memforest_core.domain.operations import OperationKind, Role
from memforest_core.ingest.reduce.canonical import identify
from memforest_core.lifecycle.erase.records import Scope, Target, arguments_of, scope_in
from memforest_core.lifecycle.erase.rows.erasing import ErasureRows, erasing
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.operations import request
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


@repeated
def repeat(engine: Engine, deletion: RequestedErasure) -> list[TaskId]:
    """The tasks that repeat a deletion here: requested now, or before, or the deletion itself if this database has it.

    None when nothing of what was deleted is here. Raises ForestFrozen, StoreUnavailable.
    """
    tenant = TenantId(deletion.tenant)
    with erasing(engine, tenant) as rows:
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


def _here(rows: ErasureRows, deletion: RequestedErasure, forest: ForestId) -> Scope | None:
    """The target of a deletion in a forest of the same owner; None when the forest does not have it.

    A rebuild since the backup gave the forest another id, of which the ids of sessions and facts and the digests of
    speakers are made: what is here is compared by the id that it would have had there.
    """
    then = ForestId(deletion.forest)
    scope = scope_in(forest, deletion.arguments)
    if forest == then or scope.target in (Target.OWNER, Target.RANGE):
        return scope
    if scope.session is not None:
        names = rows.targets.sessions(forest)
        own = next((id_ for id_, name in names if session_id(then, name) == scope.session), None)
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
