"""Loading chats in REALTALK's format."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.realtalk import load


def said(id_: str, speaker: str, text: str, at: str) -> dict[str, Any]:
    return {"clean_text": text, "speaker": speaker, "date_time": at, "dia_id": id_}


def chat(**changes: Any) -> dict[str, Any]:
    """One chat of two sessions, the later one first, and one question."""
    return {
        "name": {"speaker_1": "Ines", "speaker_2": "Bram"},
        "session_2": [said("D2:1", "Bram", "The loom is sold.", "30.12.2023, 10:00:00")],
        "session_2_date_time": "30.12.2023, 10:00:00",
        "events_session_1": {"agent_a": []},
        "session_1": [
            said("D1:1", "Ines", "I bought a loom.", "29.12.2023, 00:51:12"),
            said("D1:2", "Bram", "", "29.12.2023, 00:51:40"),
            said("D1:3", "Bram", "Which one?", "29.12.2023, 00:52:00"),
        ],
        "session_1_date_time": "29.12.2023, 00:51:12",
        "qa": [{"question": "What did Ines buy?", "answer": "a loom", "evidence": ["D1:1"], "category": 1}],
    } | changes


def written(directory: Path, document: object, name: str = "Chat_1.json") -> Path:
    path = directory / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_sessions_come_in_the_order_of_time_and_messages_have_their_own(tmp_path: Path) -> None:
    (one,) = load(written(tmp_path, chat()))
    assert one.id == "Chat_1"
    assert [session.id for session in one.sessions] == ["session_1", "session_2"]
    first, second = one.sessions[0].turns
    assert (first.id, first.speaker, first.text) == ("D1:1", "Ines", "I bought a loom.")
    assert first.at == one.sessions[0].started_at == datetime(2023, 12, 29, 0, 51, 12, tzinfo=UTC)
    # A message without text is a picture alone.
    assert second.id == "D1:3"


@pytest.mark.parametrize(
    ("evidence", "gold"),
    [
        (["D1:1; D2:1"], ("D1:1", "D2:1")),
        (["D1:1-3"], ("D1:1", "D1:3")),
        (["D1:1-D1:3"], ("D1:1", "D1:3")),
        (["D1:1."], ("D1:1",)),
        (["D1:2", "D9:1"], ()),
    ],
)
def test_evidence_is_what_is_there_of_lists_and_ranges(tmp_path: Path, evidence: list[str], gold: tuple[str]) -> None:
    asked = {"question": "?", "answer": "!", "evidence": evidence, "category": 2}
    question = load(written(tmp_path, chat(qa=[asked])))[0].questions[0]
    assert (question.gold, question.category) == (gold, "temporal")
    assert question.measures_recall == bool(gold)
