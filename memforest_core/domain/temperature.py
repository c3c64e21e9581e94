"""Tags of topics, and their priority, which decays with time, slower the more often a topic was read.

The quantities are those of a known topic memory: a half-life of a day that doubles with each fifth access, up to thirty
days; more than 20 topics, and those below 0.05 become cold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from memforest_core.errors import InvalidInput

MAX_TAGS = 20
MAX_TAG_CHARS = 60


def checked_tags(tags: object) -> tuple[str, ...]:
    """Tags as a user gives them, without repetitions, in order. Raises InvalidInput."""
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise InvalidInput("Give tags as a list of short names.", code="invalid_tags")
    cleaned = tuple(dict.fromkeys(tag.strip() if isinstance(tag, str) else "" for tag in tags))
    for tag in cleaned:
        if not tag or len(tag) > MAX_TAG_CHARS or not tag.isprintable():
            raise InvalidInput(
                f"Give each tag 1 to {MAX_TAG_CHARS} printable characters on one line.", code="invalid_tags"
            )
    if len(cleaned) > MAX_TAGS:
        raise InvalidInput(f"A topic has at most {MAX_TAGS} tags.", code="invalid_tags")
    return cleaned


def tags_of(stored: str | None) -> tuple[str, ...]:
    """The tags of a stored text."""
    return tuple(stored.split("\n")) if stored else ()


def stored_tags(tags: Sequence[str]) -> str | None:
    """Tags as they are stored; None for none."""
    return "\n".join(tags) or None


def united_tags(own: str | None, other: str | None) -> str | None:
    """The stored tags of two topics that become one; the first topic's come first, and stay where it is too many."""
    return stored_tags(tuple(dict.fromkeys((*tags_of(own), *tags_of(other))))[:MAX_TAGS])


@dataclass(frozen=True, slots=True)
class Decay:
    """How fast priority fades."""

    half_life_s: float = 86_400.0
    accesses_per_doubling: int = 5
    """Accesses that double the half-life."""
    longest_half_life_s: float = 2_592_000.0

    def half_life(self, accesses: int) -> float:
        """Seconds in which a topic that was accessed so often loses half of its priority."""
        most = math.ceil(math.log2(max(1.0, self.longest_half_life_s / self.half_life_s)))
        doublings = min(accesses // self.accesses_per_doubling, most)
        return min(self.longest_half_life_s, math.ldexp(self.half_life_s, doublings))


class MemoryKind(StrEnum):
    """How well a topic is remembered, by how long its half-life is now."""

    SHORT = "short"
    """At the first half-life: it was accessed too rarely to double it."""
    TRANSITIONING = "transitioning"
    """Between the first and the longest one."""
    LONG = "long"
    """At the longest one."""


def memory_kind(accesses: int, decay: Decay) -> MemoryKind:
    """The kind of memory of a topic that was accessed so often."""
    half_life = decay.half_life(accesses)
    if half_life >= decay.longest_half_life_s:
        return MemoryKind.LONG
    return MemoryKind.SHORT if half_life <= decay.half_life_s else MemoryKind.TRANSITIONING


FEEDBACK = 0.2
"""The part of the distance to 1 or 0 by which one feedback moves an importance."""


def moved(importance: float, useful: bool) -> float:
    """An importance after a feedback, 0 to 1."""
    return importance + FEEDBACK * ((1.0 if useful else 0.0) - importance)


def learned_importance(stated: float, accesses: int, decay: Decay) -> float:
    """How important a topic is, 0 to 1: what its turns state, and what visits teach. As many accesses as double the
    half-life halve what is missing to 1."""
    return 1.0 - (1.0 - min(1.0, max(0.0, stated))) * math.pow(0.5, accesses / decay.accesses_per_doubling)


def priority(importance: float, accesses: int, idle_s: float, decay: Decay) -> float:
    """A topic's priority, 0 to 1: its learned importance, halved with each half-life; ``idle_s`` counts from its last
    access or addition."""
    return importance * math.pow(0.5, max(0.0, idle_s) / decay.half_life(accesses))


@dataclass(frozen=True, slots=True)
class Rated:
    """A hot topic with its priority; ``active`` when the newest turn belongs to it."""

    id: UUID
    priority: float
    active: bool = False


def cooling(topics: Iterable[Rated], hot: int, most: int, below: float) -> list[UUID]:
    """Which topics become cold, the one with the lowest priority first.

    ``hot`` is how many topics are hot now, these among them. So many as exceed ``most`` go, of those whose priority is
    under ``below``; an active one never.
    """
    low = [topic for topic in topics if topic.priority < below and not topic.active]
    low.sort(key=lambda topic: (topic.priority, str(topic.id)))
    return [topic.id for topic in low[: max(0, hot - most)]]
