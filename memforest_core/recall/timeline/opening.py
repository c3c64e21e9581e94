"""Timelines need a database only: no index, no models."""

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.recall.rows.timeline import PostgresTimelineStore
from memforest_core.recall.timeline.service import TimelineService


def open_timeline(engine: sa.Engine) -> TimelineService:
    """The reading side over a connection pool."""
    return TimelineService(PostgresTimelineStore(engine))
