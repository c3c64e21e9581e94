"""A run of a policy that a test steps through itself, and the order in which policies forget."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from uuid import uuid4

from memforest_core.domain.ids import ForestId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.temperature import Decay
from memforest_core.work.jobs import WorkState
from memforest_core.work.records import OperationTask, TaskId
from tests.harness.stack import Stack

ACTOR = "ann"


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
