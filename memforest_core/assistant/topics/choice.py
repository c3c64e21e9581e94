"""Which topic a turn belongs to: that of the turn before it, one that it returns to, or a new one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import log
from uuid import UUID

import numpy as np

from memforest_core.domain.languages import STOP_WORDS
from memforest_core.domain.text import signs
from memforest_core.domain.turns import Role
from memforest_core.models.calls import Vectors

PAUSE = timedelta(hours=6)
"""After a longer one nothing speaks for the topic of the turn before any more."""
STAYS = 0.4
"""What a running conversation adds to the score of its topic, unless the turn announces another."""
WORD = 0.1
"""What a word that a turn shares with a topic adds, times the logarithm of how rare it is among the earlier turns."""
PRIOR = 2.0
"""How slowly the mean of the earlier turns is believed: at once where all are alike, as with models whose cosines are
all high, later where they differ. Like the two above from labelled conversations (docs/topics.md)."""

_ANNOUNCES = re.compile(
    r"\b(different (thing|one|topic|subject)|something (else|different)|unrelated|btw|by the way|incidentally"
    r"|another (thing|one|topic|question)|other \w{0,10} ?(thing|one|question)|oh and|before i forget|off.topic"
    r"|mal was ander(e)?s|was ganz anderes|übrigens|apropos|anderes thema|autre (chose|sujet|question)|au fait"
    r"|por cierto|otr[ao] (cosa|tema|pregunta))\b",
    re.IGNORECASE,
)
_REPLIES = """
    already another cheers cool damn fine good got great haha hello hey hiya kinda lol maybe nice nope okay one ones
    other perfect please pls really right sure thank thanks thx well yay yeah yep yes
    ach danke gut jaja nein noch prima schon stimmt super
    """
_PLAIN = frozenset(re.findall(r"\w+", _REPLIES)).union(*STOP_WORDS.values())
"""Words that say nothing of a topic."""
TELLING = 2
"""A reply with fewer words of a topic follows the turn before."""


@dataclass(frozen=True, slots=True)
class Said:
    """An earlier turn: its topic, words of it, and its vector or that of its topic's facts."""

    topic: UUID
    text: str
    vector: Vectors | None


@dataclass(frozen=True, slots=True)
class Choice:
    """The topic of a turn; None for a new one. ``similarity`` is its score without what a running conversation adds,
    at most 1; None where nothing was compared."""

    topic: UUID | None
    similarity: float | None = None


def telling(text: str) -> frozenset[str]:
    """The words of a text that may be of a topic."""
    words = re.findall(r"\w{3,}", text.casefold())
    return frozenset(words).difference(_PLAIN).union(signs(words))


def follows(role: str, text: str) -> bool:
    """Whether a turn follows the one before it in a running conversation: a short reply, and what no user says. Such
    a turn has no vector: elsewhere its words alone speak for a topic."""
    return role != Role.USER or len(telling(text)) < TELLING


def choose(text: str, vector: Vectors | None, earlier: Sequence[Said], current: UUID | None, match: float) -> Choice:
    """The topic with the best score, from ``match`` on, or a new one. ``current`` is that of a running conversation.

    A score is the cosine of the turn with the mean of the topic's earlier turns, all without the mean of all topics,
    and what shared words add.
    """
    said = [telling(each.text) for each in earlier]
    words = telling(text).intersection(frozenset[str]().union(*said))
    rare = {word: log((len(said) + 1) / (sum(word in one for one in said) + 0.5)) for word in words}
    vectors = _centred([vector, *(each.vector for each in earlier)])
    topics: dict[UUID, list[int]] = defaultdict(list)
    for at, each in enumerate(earlier):
        topics[each.topic].append(at)
    best, reached = Choice(None), match
    for topic, own in topics.items():
        shared = words.intersection(frozenset[str]().union(*(said[at] for at in own)))
        alike = _unit(vectors[0]) @ _unit(vectors[[at + 1 for at in own]].sum(0))
        similarity = float(alike) + WORD * sum(rare[word] for word in shared)
        score = similarity + (STAYS if topic == current and not _ANNOUNCES.search(text) else 0.0)
        if score >= reached:
            best, reached = Choice(topic, min(similarity, 1.0)), score
    return best


def _centred(found: Sequence[Vectors | None]) -> Vectors:
    """Vectors without the mean of all but the first, shape (texts, dimension); zeros of those that are missing."""
    width = next((len(one) for one in found if one is not None), 1)
    there = {at: _unit(one) for at, one in enumerate(found) if one is not None and len(one) == width and one.any()}
    made = np.zeros((len(found), width), np.float32)
    for at, one in there.items():
        made[at] = one
    count = len(there.keys() - {0})
    if count > 1:
        mean = made[1:].sum(0) / count
        common = max(0.0, (count * float(mean @ mean) - 1) / (count - 1))  # the mean cosine of two of them
        made[list(there)] -= mean * common / (common + PRIOR * (1 - common) / count)
    return made


def _unit(vector: Vectors) -> Vectors:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)
