"""Looking after dead work needs a database and the broker only: no index, no models."""

from __future__ import annotations

from memforest_core.domain.ids import TenantId
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.work.dead import DeadLetters
from memforest_core.work.rows.dead import DeadStore
from memforest_core.work.wakeups import WakeUps


def open_deadletters(engine: Engine, settings: Settings, wakeups: WakeUps) -> DeadLetters:
    """The settings' tenant's dead work over a connection pool."""
    return DeadLetters(DeadStore(engine), wakeups, TenantId(settings.tenant), settings.broker.max_wakeups)
