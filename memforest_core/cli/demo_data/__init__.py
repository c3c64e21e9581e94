"""The demo's conversation and questions, so that a first run needs no data of the user's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class DemoSession:
    """One conversation, as ``ingest`` takes it; turns have id, role, content, timestamp, speaker_id and name."""

    owner: str
    session_id: str
    turns: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question about the owner: any of ``expect`` in any of the first ``within`` evidence texts answers it.

    ``why`` says what makes the question worth a place here.
    """

    question: str
    expect: Sequence[str]
    within: int
    why: str

    def place(self, texts: Sequence[str]) -> int | None:
        """Which of ``texts`` (best first, from 1) has the answer, in any case; None when none of the first has it."""
        wanted = [text.casefold() for text in self.expect]
        first = enumerate(texts[: self.within], start=1)
        return next((place for place, text in first if any(each in text.casefold() for each in wanted)), None)


def load_conversation() -> list[DemoSession]:
    """All sessions, oldest first."""
    return [DemoSession(**json.loads(line)) for line in _read("conversation.jsonl").splitlines()]


def load_questions() -> list[DemoQuestion]:
    """All questions; the first three are about where the owner lived."""
    return [DemoQuestion(**each) for each in json.loads(_read("questions.json"))]


def load_expected() -> dict[str, list[str]]:
    """What the built-in rules make of the conversation: lines of ``states``, and of the owner's ``profile``."""
    return dict(json.loads(_read("expected.json")))


def _read(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
