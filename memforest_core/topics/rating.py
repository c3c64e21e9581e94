"""A topic from its row: title, importance, priority and temperature."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memforest_core.domain.ids import TreeId
from memforest_core.domain.tags import tags_of
from memforest_core.domain.temperature import Decay, learned_importance, priority
from memforest_core.domain.text import clipped
from memforest_core.settings import TopicSettings
from memforest_core.topics.records import Temperature, Topic

TITLE_CHARS = 80
"""Of a title, until a topic is named: the beginning of its summary."""


def decay_of(settings: TopicSettings) -> Decay:
    """How fast priority fades, as it is set."""
    return Decay(settings.half_life_s, settings.accesses_per_doubling, settings.longest_half_life_s)


def title_of(row: Any) -> str:
    """The stored title, else the beginning of the summary, else the domain; empty when there is none of them yet."""
    told = row.title or row.summary or row.label or ""
    return clipped(" ".join(told.split()), TITLE_CHARS)


def topic_of(row: Any, settings: TopicSettings) -> Topic:
    """A topic as its row tells, rated at the moment when it was read."""
    decay = decay_of(settings)
    accesses = int(row.visits)
    importance = learned_importance(float(row.stated), accesses, decay)
    touched = max(row.learned_at, row.last_visit_at or row.learned_at)
    idle_s = (row.now - touched).total_seconds()
    return Topic(
        id=TreeId(row.tree_id),
        title=title_of(row),
        named=bool(row.title),
        tags=tags_of(row.tags),
        facts=row.leaf_count,
        turns=row.turns,
        first=_moment(row.first),
        last=_moment(row.last),
        priority=priority(importance, accesses, idle_s, decay),
        temperature=Temperature.HOT if row.cold_at is None else Temperature.COLD,
        accesses=accesses,
        last_access=_moment(row.last_visit_at),
        importance=importance,
    )


def _moment(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC)
