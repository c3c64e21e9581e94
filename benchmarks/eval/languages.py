"""One conversation and its questions in four languages: ``--dataset languages``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.eval.dataset import Conversation, Dataset, Question, Session, Turn

DATA = Path(__file__).parent / "data" / "languages.json"
LANGUAGES = ("en", "de", "es", "zh")


def conversation(document: Mapping[str, Any], language: str) -> Conversation:
    """The conversation and its questions in one of the languages; turns keep their ids, prefixed by the language."""
    names = document["names"]
    sessions = tuple(
        Session(
            f"{session['id']}-{language}",
            datetime.fromisoformat(session["started_at"]),
            tuple(
                Turn(
                    f"{language}-{turn['id']}",
                    names[turn["by"]][language],
                    turn[language],
                    by_owner=turn["by"] == document["owner"],
                )
                for turn in session["turns"]
            ),
        )
        for session in document["sessions"]
    )
    questions = tuple(
        Question(
            f"{language}-{question['id']}",
            question[language],
            question["asks"],
            tuple(f"{language}-{turn}" for turn in question["gold"]),
            answer="",
        )
        for question in document["questions"]
    )
    return Conversation(f"{document['owner']}-{language}", sessions, questions)


def conversations() -> Dataset:
    """The conversation in every language."""
    document = json.loads(DATA.read_text(encoding="utf-8"))
    return tuple(conversation(document, language) for language in LANGUAGES)
