"""Loading conversations in LoCoMo's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.locomo import evidence_ids, load


def sample(**changes: Any) -> dict[str, Any]:
    """One conversation of two sessions and one question."""
    conversation = {
        "speaker_a": "Ines",
        "speaker_b": "Bram",
        "session_2_date_time": "9:05 am on 3 March, 2024",
        "session_2": [{"speaker": "Bram", "dia_id": "D2:1", "text": "The loom is sold."}],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ines", "dia_id": "D1:1", "text": "I bought a loom."},
            {"speaker": "Bram", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a red rug"},
        ],
        "session_3_date_time": "9:05 am on 4 March, 2024",
    }
    question = {"question": "What did Ines buy?", "answer": "a loom", "evidence": ["D1:1"], "category": 4}
    return {"sample_id": "c1", "conversation": conversation, "qa": [question]} | changes


def written(directory: Path, document: object) -> Path:
    path = directory / "data.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["D8:6; D9:17"], ("D8:6", "D9:17")),
        (["D30:05"], ("D30:5",)),
        (["D:11:26"], ("D11:26",)),
        (["D1:1", "D1:1", "D2:3 "], ("D1:1", "D2:3")),
        (["D"], ()),
        ("D4:2", ("D4:2",)),
        (None, ()),
    ],
)
def test_evidence_in_odd_forms_is_read(given: object, expected: tuple[str, ...]) -> None:
    assert evidence_ids(given) == expected


def test_evidence_that_names_no_turn_is_dropped_and_a_question_without_gold_measures_nothing(tmp_path: Path) -> None:
    requested = [
        {"question": "One?", "answer": 7, "evidence": ["D1:1; D9:9"], "category": 1},
        {"question": "None?", "answer": "x", "evidence": ["D9:9"], "category": 2},
        {"question": "Never said?", "adversarial_answer": "x", "evidence": ["D1:1"], "category": 5},
    ]
    one, none, never = load(written(tmp_path, [sample(qa=requested)]))[0].questions
    assert (one.id, one.category, one.gold, one.answer) == ("c1/0", "multi-hop", ("D1:1",), "7")
    assert one.measures_recall
    assert (none.category, none.gold, none.measures_recall) == ("temporal", (), False)
    assert (never.category, never.measures_recall) == ("adversarial", False)
