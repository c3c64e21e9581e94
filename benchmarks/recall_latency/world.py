"""A seeded world to remember: topics with words of their own, people who talk about them, and later questions."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.facts import Change, Modality, Origin, Polarity, Statement
from memforest_core.domain.ids import TenantId
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.domain.turns import Role, Turn
from memforest_core.models.calls import CallRecord, Embedded, Step, Vectors
from memforest_core.models.token_vectors import PACKED, WIDTH, Packed, TokenVectors, pack

TENANT = TenantId("benchmark")
DIMENSION = 384
"""Of the built-in embedding model."""
WORDS = 8_000
TOPICS = 200
TOPIC_WORDS = 150
NAMES = 300
"""People, towns and things that are talked about."""
SPEAKERS = 8
"""Who talk with the owner, one a session."""
SESSION_TURNS = 20
START = datetime(2022, 1, 3, 8, tzinfo=UTC)
ATTRIBUTES = ("home", "work", "car", "pet", "sport")

_OPENINGS = "ba be bi bo da de di do fa fe ga go ha he ka ke ki la le lo ma me mi mo na ne no pa pe ra re ri ro sa se"
_ENDINGS = "ban bel dar den der dor fen gan gel kor lan len mar mer nel nor pan ral ren ron sal sen tan tel tor van"
_SMALL = ("the", "a", "with", "and", "to", "of", "in", "for", "on", "at", "from", "was", "my")

_AXES = np.eye(WIDTH, dtype=np.float32)
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of a session, what it states, and its direction among the meanings, float32 (DIMENSION,)."""

    turn: Turn
    statement: Statement
    topic: int
    vector: Vectors


@dataclass(frozen=True, slots=True)
class Requested:
    """A question about something that was said, and its vector."""

    text: str
    vector: Vectors


class StoredVectors:
    """An Embedder of questions whose vectors are known: a benchmark of everything but the embedding.

    Another text, such as a question without the names in it, has a direction of its own. Tokens are words.
    """

    model = "benchmark-directions"
    dimension = DIMENSION

    def __init__(self, requested: Iterable[Requested]) -> None:
        self._known = {one.text: one.vector for one in requested}

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Unit vectors, shape (n, DIMENSION), and token vectors."""
        record = CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, "ok")
        return Embedded(np.stack([self._vector(text) for text in texts]), record, list(map(token_vectors, texts)))

    embed_query = embed

    def _vector(self, text: str) -> NDArray[np.float32]:
        known = self._known.get(text)
        if known is not None:
            return known
        drawn = np.random.default_rng(list(text.encode())).standard_normal(DIMENSION, dtype=np.float32)
        unit: NDArray[np.float32] = drawn / np.linalg.norm(drawn)
        return unit


class World:
    """Everything drawn from one seed; sessions of a forest follow each other, one a day."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._noise = np.random.default_rng(seed)
        parts = [
            first + second + last
            for first in _OPENINGS.split()
            for second in ("", "li", "ra", "ve", "no", "tu", "mi", "so", "qua", "ski")
            for last in _ENDINGS.split()
        ]
        self._rng.shuffle(parts)
        self._words = parts[:WORDS]
        self._names = [word.capitalize() for word in parts[WORDS : WORDS + NAMES]]
        self._zipf = list(itertools.accumulate(1.0 / rank for rank in range(1, WORDS + 1)))
        self._topics = [self._rng.sample(self._words, TOPIC_WORDS) for _ in range(TOPICS)]
        self._topic_zipf = list(itertools.accumulate(1.0 / rank for rank in range(1, TOPIC_WORDS + 1)))
        self._about = [self._rng.sample(self._names, 12) for _ in range(TOPICS)]
        self._directions = self._units(TOPICS)
        self._name_directions = dict(zip(self._names, self._units(NAMES), strict=True))

    def speakers(self) -> list[str]:
        """Who talk with an owner."""
        return self._rng.sample(self._names, SPEAKERS)

    def session(self, number: int, owner: str, speakers: Sequence[str]) -> list[Said]:
        """The turns of one dialogue of the owner and one of the others about one to three topics."""
        other = self._rng.choice(speakers)
        topics = self._rng.choices(range(TOPICS), k=self._rng.randint(1, 3))
        begun = START + timedelta(hours=18 * number, minutes=self._rng.randint(0, 600))
        return [
            self._said(
                ordinal,
                owner if ordinal % 2 == 0 else other,
                topics[ordinal * len(topics) // SESSION_TURNS],
                begun + timedelta(minutes=ordinal),
            )
            for ordinal in range(SESSION_TURNS)
        ]

    def question(self, said: Sequence[Said]) -> Requested:
        """A question about one of the turns; one in ten is about what came before."""
        one = self._rng.choice(said)
        words = [word for word in one.turn.content.rstrip(".").split() if word not in _SMALL]
        picked = self._rng.sample(words, min(len(words), self._rng.randint(3, 5)))
        first = "What happened before" if self._rng.random() < 0.1 else "What did"
        text = f"{first} {one.turn.name} say about {' '.join(picked)}?"
        return Requested(text, unit(one.vector + np.float32(0.6) * self._units(1)[0]))

    def _said(self, ordinal: int, name: str, topic: int, at: datetime) -> Said:
        named = self._rng.sample(self._about[topic], self._rng.choices((0, 1, 2), (0.4, 0.4, 0.2))[0])
        content = self._sentence(topic, named)
        attribute = self._rng.choice(ATTRIBUTES) if self._rng.random() < 0.05 else ""
        value = self._rng.choice(self._words[:200]) if attribute else ""
        statement = Statement(
            text=content,
            time=self._event(at),
            mentioned_at=at,
            speaker=name,
            subject=name,
            attribute=attribute,
            value=value,
            previous_value="",
            change=Change.START if attribute else Change.NONE,
            polarity=Polarity.POSITIVE,
            modality=Modality.ASSERTED,
            entities=tuple(named),
            scene=f"topic{topic}",
            origin=Origin.USER,
            verbatim=True,
        )
        turn = Turn(ordinal, f"t{ordinal}", Role.USER, content, at, True, name, name)
        direction = np.float32(0.65) * self._directions[topic] + np.float32(0.7) * self._units(1)[0]
        for one in named:
            direction = direction + np.float32(0.3) * self._name_directions[one]
        return Said(turn, statement, topic, unit(direction))

    def _sentence(self, topic: int, named: Sequence[str]) -> str:
        own = self._rng.choices(self._topics[topic], cum_weights=self._topic_zipf, k=self._rng.randint(4, 9))
        common = self._rng.choices(self._words, cum_weights=self._zipf, k=self._rng.randint(3, 7))
        words = [*own, *common, *named]
        self._rng.shuffle(words)
        return " ".join(part for word in words for part in (self._rng.choice(_SMALL), word)).capitalize() + "."

    def _event(self, at: datetime) -> TimeSpan:
        if self._rng.random() < 0.8:
            return UNKNOWN_TIME
        day = at.replace(hour=0, minute=0) + timedelta(days=self._rng.randint(-30, 30))
        return TimeSpan(day, day + timedelta(days=1), Precision.DAY)

    def _units(self, count: int) -> NDArray[np.float32]:
        drawn = self._noise.standard_normal((count, DIMENSION), dtype=np.float32)
        units: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        return units


def unit(vector: Vectors) -> Vectors:
    """The vector at length 1."""
    return vector / np.float32(np.linalg.norm(vector))


def sessions(world: World, owner: str, facts: int) -> Iterator[tuple[str, list[Said]]]:
    """As many sessions, each under its name, as say ``facts`` facts; the last is cut short."""
    speakers = world.speakers()
    for number in range(-(-facts // SESSION_TURNS)):
        yield f"session-{number}", world.session(number, owner, speakers)[: facts - number * SESSION_TURNS]


def token_vectors(text: str) -> TokenVectors:
    """One token a word and a mark; the built-in model's are some 1.3 a word."""
    found = list(_WORD.finditer(text))
    packed = np.concatenate([np.empty((0, PACKED), np.uint8), *(_of_word(one[0].lower()) for one in found)])
    return TokenVectors(packed, [one.start() for one in found])


@cache
def _of_word(word: str) -> Packed:
    drawn = np.random.default_rng(list(word.encode())).standard_normal((1, WIDTH), dtype=np.float32)
    return pack(drawn, _AXES)
