"""Which topic a turn belongs to: that of the turn before it, one that it returns to, or a new one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from memforest_core.domain.languages import STOP_WORDS
from memforest_core.domain.turns import Role

PAUSE = timedelta(hours=6)
"""After a longer one nothing speaks for the topic of the turn before any more."""
NEAREST, ALIKE = 3, 0.7
"""The turns of a topic that are most alike speak for it: their mean cosine is the topic's, or from ``ALIKE`` on that of
the most alike one."""
AHEAD = 0.05
"""By how much another topic has to be nearer than the current one."""
STAYS, ANNOUNCED, RESUMED = 0.125, 0.6, 1.25
"""Of ``match``: what a turn in a running conversation needs to stay, one that announces another topic to return to one,
and one after a pause to join any. From labelled conversations (docs/topics.md)."""

_ANNOUNCES = re.compile(
    r"\b(different (thing|one)|something (else|different)|unrelated|btw|by the way|another (thing|one)"
    r"|other \w{0,10} ?(thing|one)|oh and|mal was ander(e)?s|was ganz anderes|übrigens)\b",
    re.IGNORECASE,
)
_REPLIES = """
    already another cheers cool damn fine good got great haha hello hey hiya kinda lol maybe nice nope okay one ones
    other perfect please pls really right sure thank thanks thx well yay yeah yep yes
    ach danke gut jaja nein noch prima schon stimmt super
    """
_PLAIN = frozenset(re.findall(r"\w+", _REPLIES)).union(*STOP_WORDS.values())
"""Words that say nothing of a topic: a reply of them alone follows the turn before."""


@dataclass(frozen=True, slots=True)
class Before:
    """The last turn that has a topic: of the session, or of a new one's owner."""

    topic: UUID
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class Choice:
    """The topic of a turn; None for a new one. ``similarity`` is a cosine, None where nothing was compared."""

    topic: UUID | None
    similarity: float | None = None


def choose(
    role: str, text: str, said_at: datetime, before: Before | None, cosines: Iterable[tuple[UUID, float]], match: float
) -> Choice:
    """The topic of a turn; ``cosines`` are those with earlier turns, by their topics.

    An assistant's turn and a reply without a word of a topic follow the turn ``before``. Another topic takes a turn
    from ``match`` on when it is nearer than the current one.
    """
    alike = _by_topic(cosines)
    if before is None:
        return _nearest(alike, match * RESUMED)
    own = alike.get(before.topic)
    if said_at - before.occurred_at > PAUSE:
        return _nearest(alike, match * RESUMED)
    if not compares(role, text):
        return Choice(before.topic)
    others = {topic: cosine for topic, cosine in alike.items() if topic != before.topic}
    if _ANNOUNCES.search(text):
        return _nearest(others, match * ANNOUNCED)
    other = _nearest(others, match)
    if other.similarity is not None and (own is None or other.similarity >= own + AHEAD):
        return other
    return Choice(before.topic, own) if own is None or own >= match * STAYS else Choice(None)


def _by_topic(cosines: Iterable[tuple[UUID, float]]) -> Mapping[UUID, float]:
    found: dict[UUID, list[float]] = defaultdict(list)
    for topic, cosine in cosines:
        found[topic].append(min(cosine, 1.0))  # rounding makes that of equal texts more
    best = {topic: sorted(each, reverse=True)[:NEAREST] for topic, each in found.items()}
    return {topic: each[0] if each[0] >= ALIKE else sum(each) / len(each) for topic, each in best.items()}


def _nearest(alike: Mapping[UUID, float], least: float) -> Choice:
    best = max(alike.items(), key=lambda pair: (pair[1], str(pair[0])), default=None)
    return Choice(None) if best is None or best[1] < least else Choice(*best)


def compares(role: str, text: str) -> bool:
    """Whether a turn is compared with earlier ones; others follow the turn before them. One word that may be of a
    topic is enough in a sentence, but not in a reply of two; numbers are none."""
    words = re.findall(r"[^\W\d_]+", text.casefold())
    telling = sum(len(word) > 2 and word not in _PLAIN for word in words)
    return role == Role.USER and telling > (0 if len(words) > 2 else 1)
