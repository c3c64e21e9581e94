"""Loading conversations in BEAM's format, from the authors' directories and from rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.eval.beam import load
from benchmarks.eval.dataset import Dataset


def said(role: str, id_: int, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "id": id_, "content": text} | more


BATCHES = [
    [
        said("user", 0, "I bought a loom. ->-> 1,1", time_anchor="March-15-2024", index="1,1"),
        said("assistant", 1, "Which one?"),
        said("user", 2, "An old one."),
    ],
    [said("user", 3, "The loom is sold. ->-> 2,1", time_anchor="April-02-2024"), said("assistant", 4, "Oh.")],
]
PROBES: dict[str, Any] = {
    "abstention": [{"question": "Who made it?", "ideal_response": "Nobody says.", "rubric": []}],
    "knowledge_update": [
        {
            "question": "Do I have a loom?",
            "answer": "Not any more.",
            "source_chat_ids": {"original_info": [0], "updated_info": [3]},
        }
    ],
    "event_ordering": [{"question": "In which order?", "answer": "1, 2", "source_chat_ids": [2, 3, 3, 99]}],
}


def row(**changes: Any) -> dict[str, Any]:
    return {"conversation_id": "7", "chat": BATCHES, "probing_questions": PROBES} | changes


def written(directory: Path, *rows: object) -> Path:
    path = directory / "beam.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def texts(data: Dataset) -> list[list[str]]:
    return [[turn.text for turn in session.turns] for session in data[0].sessions]


def test_a_batch_is_a_session_at_its_time_anchor(tmp_path: Path) -> None:
    (one,) = load(written(tmp_path, row()))
    assert one.id == "7"
    assert [session.started_at for session in one.sessions] == [
        datetime(2024, 3, 15, tzinfo=UTC),
        datetime(2024, 4, 2, tzinfo=UTC),
    ]
    assert [turn.id for _, turn in one.turns()] == ["0", "1", "2", "3", "4"]
    # The place in the generator's plan is not what the user said.
    assert texts((one,))[0] == ["I bought a loom.", "Which one?", "An old one."]


def test_sources_are_gold_however_they_are_grouped(tmp_path: Path) -> None:
    (one,) = load(written(tmp_path, row()))
    by_category = {question.category: question for question in one.questions}
    assert by_category["knowledge-update"].gold == ("0", "3")
    assert by_category["event-ordering"].gold == ("2", "3")
    assert by_category["knowledge-update"].answer == "Not any more."
    assert not by_category["abstention"].measures_recall
    assert by_category["abstention"].answer == "Nobody says."
    assert by_category["event-ordering"].id == "7/event_ordering/1"
