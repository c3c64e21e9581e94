"""Timelines need a database only: no index, no models."""

from __future__ import annotations

from memforest_core.recall.rows.timeline import TimelineStore
from memforest_core.recall.timeline.service import TimelineService
from memforest_core.store.engine import Engine


def open_timeline(engine: Engine) -> TimelineService:
    """The reading side over a connection pool."""
    return TimelineService(TimelineStore(engine))
