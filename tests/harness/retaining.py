"""Memories under policies, a run that a test steps through itself, and the order in which policies forget."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from memforest_core.domain.ids import ForestId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.temperature import Decay
from memforest_core.work.jobs import WorkState
from memforest_core.work.records import Numbers, OperationTask, TaskId
from tests.harness.stack import Stack

ACTOR = "ann"


class Bounded:
    """An owner's memory under policies, in a stack with other owners."""

    def __init__(self, running: Stack, owner: str = "bob") -> None:
        self.stack = running
        self.memory = running.memory
        self.do = running.memory.lifecycle
        self.retention = running.services.lifecycle.retention
        self.owner = owner

    def ids(self, statement: str, **values: object) -> list[Any]:
        return [row[0] for row in self.stack.rows(statement, **values)]

    def forest(self, owner: str | None = None) -> ForestId:
        live = "SELECT forest_id FROM memforest.forest WHERE owner = :o ORDER BY state = 'hidden'"
        return ForestId(self.ids(live, o=owner or self.owner)[0])

    def facts(self, owner: str | None = None) -> dict[str, UUID]:
        """The ids of an owner's facts by their text."""
        facts = "SELECT text, fact_id FROM memforest.fact WHERE forest_id = :f"
        return {row.text: row.fact_id for row in self.stack.rows(facts, f=self.forest(owner))}

    def policy(self, owner: str | None = "bob", **limits: Any) -> None:
        self.do.set_policy(owner, actor=ACTOR, **limits)

    def run(self, owner: str | None = "bob", *, dry_run: bool = False) -> Numbers:
        (requested,) = self.do.apply_policy(owner, actor=ACTOR, dry_run=dry_run)
        return self.driven(requested.id)

    def driven(self, task: TaskId) -> Numbers:
        self.stack.drive()
        found = self.do.operation(task)
        assert found.state == "done", found
        return found.progress


def claimed_run(stack: Stack, forest: ForestId) -> OperationTask:
    """A task that somebody else is at: no worker here takes it."""
    id_ = TaskId(uuid4())
    stack.execute(
        """INSERT INTO memforest.maintenance (tenant_id, task_id, kind, forest_id, state, lease_token, lease_until,
                  worker_id, actor)
           VALUES (:t, :id, 'retain', :f, 'running', gen_random_uuid(), now() + interval '1 hour', :worker, :actor)""",
        worker=stack.runtime.worker,
        t=stack.tenant,
        id=id_,
        f=forest,
        actor=ACTOR,
    )
    return OperationTask(
        id=id_,
        kind=OperationKind.RETAIN,
        subject="",
        arguments={},
        progress={},
        state=WorkState.RUNNING,
        attempts=1,
        lost_leases=0,
        created_at=datetime.now(UTC),
        finished_at=None,
        error_code=None,
        error_text=None,
        forest_id=forest,
        actor=ACTOR,
    )


def half_life_days(visits: int) -> float:
    """Days in which something that was visited so often loses half of its weight."""
    return Decay().half_life(visits) / 86_400


def retention(visits: int, idle_days: float, *, pinned: bool = False) -> float:
    """What orders leaves when some must be forgotten, the lowest first; infinite for what is pinned.

    The logarithm to base 2 of ``(1 + visits) x 0.5^(idle days / half-life)`` (DESIGN 9): one more visit adds weight and
    may lengthen the half-life, each half-life without a visit takes 1. As a logarithm it orders leaves of any age: the
    product itself is 0.0 in floating point after three unvisited years. ``idle_days`` counts from the last visit, or
    from its mention time if that is later.
    """
    if pinned:
        return math.inf
    return math.log2(1.0 + visits) - max(0.0, idle_days) / half_life_days(visits)
