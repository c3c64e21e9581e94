"""Lifts pieces of topics that are at hand: the priority by which topics stay hot, as a signal of recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from memforest_core.domain.ids import ForestId
from memforest_core.domain.scoring import Voted, best_first
from memforest_core.domain.temperature import Decay, learned_importance, priority
from memforest_core.recall.rows.priorities import PriorityRows
from memforest_core.settings import TopicSettings

SIGNAL = "priority"


def standing(row: Any, settings: TopicSettings) -> tuple[float, float]:
    """A topic's importance and its priority, each 0 to 1, at the moment ``now`` of its row."""
    decay = Decay(settings.half_life_s)
    accesses = int(row.visits)
    importance = learned_importance(float(row.stated), accesses, decay)
    return importance, priority(importance, accesses, idle_s(row), decay)


def idle_s(row: Any) -> float:
    """Seconds since a topic was accessed or got something."""
    touched: datetime = max(row.learned_at, row.last_visit_at or row.learned_at)
    return float((row.now - touched).total_seconds())


def fact_priorities(
    rows: PriorityRows, forest: ForestId, facts: Sequence[UUID], settings: TopicSettings
) -> dict[UUID, float]:
    """For each of these facts that has a topic the highest priority of its topics, 0 to 1. Two statements."""
    of_fact = rows.topics_of(forest, facts)
    topics = sorted({topic for topics in of_fact.values() for topic in topics}, key=str)
    found = rows.rated(forest, topics, settings.importance)
    rated: dict[UUID, float] = {row.tree_id: standing(row, settings)[1] for row in found}
    return {
        fact: max(rated[topic] for topic in topics if topic in rated)
        for fact, topics in of_fact.items()
        if any(topic in rated for topic in topics)
    }


def by_priority(voted: Sequence[Voted], priorities: Mapping[UUID, float], weight: float) -> list[Voted]:
    """The pieces, best first; each gets ``weight`` times its priority times the best score."""
    if not voted or not priorities:
        return list(voted)
    best = voted[0].score
    found = []
    for one in voted:
        highest = max((priorities[fact] for fact in one.item.facts if fact in priorities), default=0.0)
        added = weight * highest * best
        if added > 0.0:
            one = one.raised_by(added, SIGNAL)
        found.append(one)
    return best_first(found)
