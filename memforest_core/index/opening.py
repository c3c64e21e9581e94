"""Maintenance tasks and the upkeep of the index, wired: what workers run and what people ask for."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from memforest_core.accept.records import WakeUps
from memforest_core.index.mark_rows import PostgresMarkStore
from memforest_core.index.marks import Marks
from memforest_core.index.parity import Parity
from memforest_core.index.rebuild import IndexUpkeep, Rebuild
from memforest_core.index.rows import PostgresIndexStore
from memforest_core.index.vector_index import VectorIndex
from memforest_core.settings import Settings
from memforest_core.work.maintenance import Handler, MaintenanceService
from memforest_core.work.records import MaintenanceKind
from memforest_core.work.rows.operations import PostgresMaintenanceStore
from memforest_core.work.telemetry import SILENT, Telemetry


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The maintaining side of a process."""

    tasks: MaintenanceService
    marks: Marks
    upkeep: IndexUpkeep


def open_maintenance(
    engine: sa.Engine,
    index: VectorIndex,
    wakeups: WakeUps,
    settings: Settings,
    telemetry: Telemetry = SILENT,
    handlers: Mapping[str, Handler] | None = None,
    undo: Mapping[str, Handler] | None = None,
) -> Maintenance:
    """Wire tasks, marks and upkeep over a connection pool and an index; ``handlers`` adds tasks of other contexts, and
    ``undo`` the steps of those that were cancelled."""
    rows, marks, tasks = PostgresIndexStore(engine), PostgresMarkStore(engine), PostgresMaintenanceStore(engine)
    own: dict[str, Handler] = {
        MaintenanceKind.REBUILD: Rebuild(rows, marks, index).step,
        MaintenanceKind.PARITY: Parity(rows, marks, index).step,
    }
    return Maintenance(
        tasks=MaintenanceService(
            tasks,
            own | dict(handlers or {}),
            settings.worker.task_budget_s,
            random.Random(),  # noqa: S311 - jitter
            telemetry,
            undo=undo,
        ),
        marks=Marks(marks, rows, tasks, index, settings.index.mark_s),
        upkeep=IndexUpkeep(rows, marks, tasks, index, wakeups),
    )
