"""Loading conversations in BEAM's format, from the authors' directories and from rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.__main__ import load as load_named
from benchmarks.eval.__main__ import options as command_line
from benchmarks.eval.beam import load
from benchmarks.eval.dataset import Dataset, WrongFile
from benchmarks.eval.ingesting import payload


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


def repository(directory: Path, *names: str) -> Path:
    """Directories as the authors have them: exchanges within batches."""
    for name in names:
        (directory / name / "probing_questions").mkdir(parents=True)
        chat = [{"batch_number": n, "turns": [batch[:2], batch[2:]]} for n, batch in enumerate(BATCHES, 1)]
        (directory / name / "chat.json").write_text(json.dumps(chat))
        (directory / name / "probing_questions" / "probing_questions.json").write_text(json.dumps(PROBES))
    return directory


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


def test_the_user_is_the_owner_of_the_memory(tmp_path: Path) -> None:
    (one,) = load(written(tmp_path, row()))
    user, assistant, _ = payload(one, one.sessions[0])
    assert (user["role"], user["speaker_id"]) == ("user", "7")
    assert assistant["role"] == "assistant"
    assert "speaker_id" not in assistant


def test_sources_are_gold_however_they_are_grouped(tmp_path: Path) -> None:
    (one,) = load(written(tmp_path, row()))
    by_category = {question.category: question for question in one.questions}
    assert by_category["knowledge-update"].gold == ("0", "3")
    assert by_category["event-ordering"].gold == ("2", "3")
    assert by_category["knowledge-update"].answer == "Not any more."
    assert not by_category["abstention"].measures_recall
    assert by_category["abstention"].answer == "Nobody says."
    assert by_category["event-ordering"].id == "7/event_ordering/1"


def test_an_id_that_two_messages_have_is_no_evidence(tmp_path: Path) -> None:
    twice = [BATCHES[0], [said("user", 3, "One.", time_anchor="April-02-2024"), said("user", 3, "Other.")]]
    (one,) = load(written(tmp_path, row(chat=twice)))
    assert [turn.id for _, turn in one.turns()] == ["0", "1", "2", "at-2.1", "at-2.2"]
    assert {question.category: question.gold for question in one.questions}["knowledge-update"] == ("0",)


def test_directories_and_rows_give_the_same(tmp_path: Path) -> None:
    rows = load(written(tmp_path, row()))
    many = load(repository(tmp_path / "100K", "10", "2"))
    assert [one.id for one in many] == ["2", "10"]
    assert texts(many) == texts(rows)
    (own,) = load(tmp_path / "100K" / "2")
    assert own == many[0]


@pytest.mark.parametrize("write", [json.dumps, repr])
def test_a_row_a_line_with_its_questions_in_one_text(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "beam.jsonl"
    path.write_text("".join(json.dumps(row(conversation_id=n, probing_questions=write(PROBES))) + "\n" for n in "ab"))
    data = load(path)
    assert [one.id for one in data] == ["a", "b"]
    assert [len(one.questions) for one in data] == [3, 3]


def test_the_command_line_names_the_format(tmp_path: Path) -> None:
    path = written(tmp_path, row())
    asked = command_line().parse_args(["--dataset", "beam", "--path", str(path)])
    assert load_named(asked) == load(path)
    with pytest.raises(WrongFile, match=r"Give the file of beam with --path"):
        load_named(command_line().parse_args(["--dataset", "beam"]))
    with pytest.raises(WrongFile, match=r"not in REALTALK's format"):
        load_named(command_line().parse_args(["--dataset", "realtalk", "--path", str(path)]))


def test_what_is_not_beam_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(WrongFile, match=r"not in BEAM's format"):
        load(written(tmp_path, {"chat": "text"}))
    with pytest.raises(WrongFile, match=r"batch 1 has no time_anchor such as"):
        load(written(tmp_path, row(chat=[[said("user", 0, "Hm.")]])))
    with pytest.raises(WrongFile, match=r"the probing_questions of 7 are no lists"):
        load(written(tmp_path, row(probing_questions="none")))
    (tmp_path / "text").write_text("Hm.")
    with pytest.raises(WrongFile, match=r"is not JSON"):
        load(tmp_path / "text")
    with pytest.raises(WrongFile, match=r"cannot be read: No such file"):
        load(tmp_path / "none.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WrongFile, match=r"holds no conversation"):
        load(tmp_path / "empty")
