"""Vacuuming after deletions: until then deleted rows stay in the pages of their tables and indexes."""

from __future__ import annotations

from memforest_core.domain.ids import TenantId
from memforest_core.errors import RetryableError
from memforest_core.lifecycle.erase.rows.vacuum_rows import (
    Vacuumed,
    held_back,
    request_vacuum,
    tables_of_tenants,
    vacuum,
)
from memforest_core.store.engine import Engine
from memforest_core.work.records import Numbers, OperationTask
from memforest_core.work.runner import Handler

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
        table = next((name for name in tables_of_tenants(self._engine) if name > done), None)
        if table is None:
            return None
        if held_back(self._engine, int(task.arguments.get(AFTER, 0))):
            raise RetryableError(
                "A transaction that is open since before the deletion still sees the rows: end it, or wait for it.",
                retry_after=HELD_BACK_S,
            )
        result = vacuum(self._engine, table)
        if result is Vacuumed.BUSY:
            raise RetryableError(f"The table {table} is being vacuumed or altered.", retry_after=HELD_BACK_S)
        counts = {each.value: int(progress.get(each.value, 0)) for each in (Vacuumed.DONE, Vacuumed.NO_RIGHT)}
        counts[result.value] += 1
        return {AT: table, **counts}
