"""Loading conversations in LoCoMo's format."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.dataset import WrongFile
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


def test_sessions_come_in_the_order_of_time_and_those_without_turns_are_left_out(tmp_path: Path) -> None:
    (one,) = load(written(tmp_path, [sample()]))
    assert one.id == "c1"
    assert [session.id for session in one.sessions] == ["session_1", "session_2"]
    assert one.sessions[0].started_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert [(turn.id, turn.speaker, turn.text) for turn in one.sessions[1].turns] == [
        ("D2:1", "Bram", "The loom is sold.")
    ]


def test_a_picture_is_part_of_its_turn_on_request_only(tmp_path: Path) -> None:
    path = written(tmp_path, [sample()])
    assert load(path)[0].sessions[0].turns[1].text == "Look!"
    assert load(path, captions=True)[0].sessions[0].turns[1].text == "Look! [shares a red rug]"


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
    asked = [
        {"question": "One?", "answer": 7, "evidence": ["D1:1; D9:9"], "category": 1},
        {"question": "None?", "answer": "x", "evidence": ["D9:9"], "category": 2},
        {"question": "Never said?", "adversarial_answer": "x", "evidence": ["D1:1"], "category": 5},
    ]
    one, none, never = load(written(tmp_path, [sample(qa=asked)]))[0].questions
    assert (one.id, one.category, one.gold, one.answer) == ("c1/0", "multi-hop", ("D1:1",), "7")
    assert one.measures_recall
    assert (none.category, none.gold, none.measures_recall) == ("temporal", (), False)
    assert (never.category, never.measures_recall) == ("adversarial", False)


def test_a_session_without_a_time_is_refused(tmp_path: Path) -> None:
    broken = sample()
    del broken["conversation"]["session_1_date_time"]
    with pytest.raises(WrongFile, match="session_1 has no session_1_date_time"):
        load(written(tmp_path, [broken]))


@pytest.mark.parametrize("document", [{"a": 1}, [], [1], "text", [{"qa": []}]])
def test_another_file_is_refused_in_one_sentence(tmp_path: Path, document: object) -> None:
    with pytest.raises(WrongFile, match=r"data\.json .*\.$"):
        load(written(tmp_path, document))


def test_a_missing_file_and_a_file_that_is_not_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongFile, match="cannot be read"):
        load(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("not json")
    with pytest.raises(WrongFile, match="is not JSON"):
        load(tmp_path / "text.json")


def test_a_conversation_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongFile, match="twice"):
        load(written(tmp_path, [sample(), sample()]))


def told(**changes: Any) -> dict[str, Any]:
    """One session of an owner and a tool, and a question about a piece of the result."""
    turns = [
        {"speaker": "Ines", "role": "user", "dia_id": "D1:1", "text": "How warm is it?"},
        {"speaker": "tool", "role": "tool", "dia_id": "D1:2", "text": "attic: 31 C, cellar: 12 C"},
    ]
    question = {"question": "How warm was the cellar?", "answer": "12 C", "evidence": ["D1:2"], "category": "number"}
    conversation = {"session_1_date_time": "9:05 am on 3 March, 2024", "session_1": turns}
    return {"conversation": conversation, "qa": [question | changes]}


def test_a_turn_has_a_role_and_a_question_a_piece_of_its_turn(tmp_path: Path) -> None:
    """Given roles and an evidence text, then the owner's turns are known, and only the piece counts."""
    (one,) = load(written(tmp_path, [told(evidence_text={"D1:2": "cellar: 12 C"})]))
    assert [(turn.role, turn.by_owner) for _, turn in one.turns()] == [("user", True), ("tool", False)]
    assert one.evidence(one.questions[0]) == ["cellar: 12 C"]
    (whole,) = load(written(tmp_path, [told()]))
    assert whole.evidence(whole.questions[0]) == ["attic: 31 C, cellar: 12 C"]


@pytest.mark.parametrize("given", [{"D1:2": "cellar: 13 C"}, {"D9:9": "cellar"}, ["cellar"], {"D1:2": 12}])
def test_a_piece_that_is_not_there_is_refused(tmp_path: Path, given: object) -> None:
    with pytest.raises(WrongFile, match="evidence_text"):
        load(written(tmp_path, [told(evidence_text=given)]))


def test_a_role_that_nobody_has_is_refused(tmp_path: Path) -> None:
    document = told()
    document["conversation"]["session_1"][0]["role"] = "narrator"
    with pytest.raises(WrongFile, match="role"):
        load(written(tmp_path, [document]))
