"""Conversations with questions whose evidence is known, whatever file they came from."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any


class WrongFile(Exception):
    """A file that is not what it was taken for; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance; ``id`` is unique in its conversation."""

    id: str
    speaker: str
    text: str
    at: datetime | None = None
    """The turn's timestamp, with a time zone; None when only the session's time is known."""
    role: str = "user"
    """``user``, ``assistant`` or ``tool``, as it is ingested."""
    by_owner: bool = False
    """Whether the memory's owner said it, so that "I" in a question means its speaker."""


@dataclass(frozen=True, slots=True)
class Session:
    """Turns that belong together; ``started_at`` is aware."""

    id: str
    started_at: datetime
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question; ``id`` is unique in the data set, ``gold`` are the ids of the turns that hold the answer."""

    id: str
    text: str
    category: str
    gold: tuple[str, ...]
    answer: str
    asked_at: datetime | None = None
    answerable: bool = True
    """False for one whose right answer is that the conversation does not say."""
    excerpts: Mapping[str, str] = field(default_factory=dict)
    """For the ids of long gold turns the part that contains the answer: only it has to be delivered."""
    best: tuple[str, ...] = ()
    """The gold turns with the answer itself; empty when all have it."""
    outdated: tuple[str, ...] = ()
    """Turns with a value that is wrong for this question: of another time or person, corrected, only planned."""
    paraphrase_of: str = ""
    """The id of the question that this one repeats in other words."""

    @property
    def measures_recall(self) -> bool:
        """Whether there is something that ought to be found."""
        return self.answerable and bool(self.gold)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One memory: sessions in the order of time, and the questions about them."""

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    def turns(self) -> Iterator[tuple[Session, Turn]]:
        """All turns with their sessions, in order."""
        for session in self.sessions:
            for turn in session.turns:
                yield session, turn

    def evidence(self, question: Question) -> list[str]:
        """What has to be delivered for a question: each gold turn's text, or the part of it with the answer."""
        texts = {turn.id: turn.text for _, turn in self.turns()}
        return [question.excerpts.get(turn, texts[turn]) for turn in question.gold]


Dataset = tuple[Conversation, ...]


def fingerprint(data: Dataset) -> str:
    """The same for the same content: 64 hexadecimal digits."""
    text = json.dumps([asdict(one) for one in data], default=datetime.isoformat, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def evenly(count: int, limit: int | None, rng: random.Random) -> list[int]:
    """``limit`` of ``count`` positions in equal distances from a random start; all of them without a limit."""
    if limit is None or limit >= count:
        return list(range(count))
    start = rng.random()
    return [int((number + start) * count / limit) for number in range(limit)]


def limited(data: Dataset, conversations: int | None, questions: int | None, seed: int) -> Dataset:
    """At most so many conversations, and so many questions of each that measure recall."""
    rng = random.Random(f"{seed}/limit")
    stored = [data[position] for position in evenly(len(data), conversations, rng)]
    found = []
    for one in stored:
        requested = [question for question in one.questions if question.measures_recall or questions is None]
        chosen = tuple(requested[position] for position in evenly(len(requested), questions, rng))
        found.append(replace(one, questions=chosen))
    return tuple(found)


def read_json(path: Path) -> Any:
    """The document in a file. Raises WrongFile."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongFile(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise WrongFile(f"{path} is not JSON: give the data set's own file.") from None


def checked(path: Path, data: Sequence[Conversation]) -> Dataset:
    """The conversations, unless there are none or one is there twice. Raises WrongFile."""
    ids = [one.id for one in data]
    if not ids:
        raise WrongFile(f"{path} holds no conversation with a dated session.")
    if len(set(ids)) != len(ids):
        raise WrongFile(f"{path} holds a conversation twice: each needs an id of its own.")
    return tuple(data)
