"""The demo's conversation and questions, so that a first run needs no data of the user's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class DemoSession:
    """One conversation, as ``ingest(owner, session_id, turns)`` takes it.

    ``turns`` are in order and carry id, role, content, timestamp (ISO 8601 with offset),
    speaker_id and name.
    """

    owner: str
    session_id: str
    turns: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question about the owner and how to tell that the evidence has its answer.

    ``expect`` are alternatives: any one of them in any of the first ``within`` evidence texts is
    enough. ``why`` says what makes the question worth a place here.
    """

    question: str
    expect: tuple[str, ...]
    within: int
    why: str

    def answered_by(self, texts: Sequence[str]) -> bool:
        """Whether the first ``within`` of ``texts`` (best first) hold the answer, in any case."""
        first = [text.casefold() for text in texts[: self.within]]
        return any(wanted.casefold() in text for wanted in self.expect for text in first)


def load_conversation() -> list[DemoSession]:
    """All sessions, oldest first."""
    sessions = []
    for line in _read("conversation.jsonl").splitlines():
        raw = json.loads(line)
        sessions.append(DemoSession(raw["owner"], raw["session_id"], tuple(raw["turns"])))
    return sessions


def load_questions() -> list[DemoQuestion]:
    """All questions; the first three are about where the owner lived."""
    return [
        DemoQuestion(raw["question"], tuple(raw["expect"]), raw["within"], raw["why"])
        for raw in json.loads(_read("questions.json"))
    ]


def load_expected() -> dict[str, list[str]]:
    """What the built-in rules make of the conversation: lines of ``states``, and of the owner's ``profile``."""
    return dict(json.loads(_read("expected.json")))


def _read(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
