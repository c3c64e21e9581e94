"""A run of a policy that a test steps through itself."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from memforest_core.domain.ids import ForestId
from memforest_core.domain.operations import OperationKind
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
