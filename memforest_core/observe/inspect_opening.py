"""Looking inside needs a database only: no index, no models."""

from __future__ import annotations

from memforest_core.observe.inspection import InspectionService
from memforest_core.observe.rows.inspect import InspectStore
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine


def open_inspection(engine: Engine, settings: Settings) -> InspectionService:
    """The reading side over a connection pool."""
    return InspectionService(InspectStore(engine), settings.worker.dead_after_s)
