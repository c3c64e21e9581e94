"""A topic from its row: title, importance, priority and temperature."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memforest_core.assistant.topics.records import Temperature, Topic
from memforest_core.domain.ids import TreeId
from memforest_core.domain.tags import tags_of
from memforest_core.domain.text import clipped
from memforest_core.recall.priorities import standing
from memforest_core.settings import TopicSettings

TITLE_CHARS = 80
"""Of a title, until a topic is named: the beginning of its summary."""


def title_of(row: Any) -> str:
    """The stored title, else the beginning of the summary, else the domain; empty when there is none of them yet."""
    title = row.title or row.summary or row.label or ""
    return clipped(" ".join(title.split()), TITLE_CHARS)


def topic_of(row: Any, settings: TopicSettings) -> Topic:
    """A topic of a row, rated when the row was read."""
    importance, rated = standing(row, settings)
    return Topic(
        id=TreeId(row.tree_id),
        title=title_of(row),
        named=bool(row.title),
        tags=tags_of(row.tags),
        facts=row.leaf_count,
        turns=row.turns,
        first=_moment(row.first),
        last=_moment(row.last),
        priority=rated,
        temperature=Temperature.HOT if row.cold_at is None else Temperature.COLD,
        accesses=int(row.visits),
        last_access=_moment(row.last_visit_at),
        importance=importance,
    )


def _moment(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC)
