"""What an app server needs to enqueue: Postgres and the broker; no model library, no worker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from memforest_core.adapters.broker.wakeups import CeleryWakeUps
from memforest_core.adapters.postgres.accept import PostgresAcceptStore
from memforest_core.adapters.postgres.engine import open_engine
from memforest_core.adapters.postgres.flushing import PostgresFlushStore
from memforest_core.contexts.accept.flushing import Flushing
from memforest_core.contexts.accept.service import Acceptance
from memforest_core.settings import Settings


@dataclass(frozen=True, slots=True)
class Producer:
    """The accepting side of a process."""

    engine: sa.Engine
    wakeups: CeleryWakeUps
    acceptance: Acceptance
    flushing: Flushing

    def close(self) -> None:
        """Release connections."""
        self.wakeups.close()
        self.engine.dispose()


def open_producer(settings: Settings) -> Producer:
    """Wire the accepting side; connects on first use."""
    engine = open_engine(settings.database)
    wakeups = CeleryWakeUps(settings.broker)
    acceptance = Acceptance(
        PostgresAcceptStore(engine),
        wakeups,
        settings.accept,
        settings.broker.max_wakeups,
        lambda: datetime.now(UTC),
    )
    return Producer(engine, wakeups, acceptance, Flushing(PostgresFlushStore(engine), wakeups))
