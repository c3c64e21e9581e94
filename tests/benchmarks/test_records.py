"""Records survive a killed run, and are not mixed up with those of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.eval.records import RECORDS, Record, RecordFile, WrongRun, read_records

MEASURED = {"dataset": "own", "limit": None}


def record(question: str = "q1", method: str = "memforest") -> Record:
    return Record(
        method=method,
        conversation="c1",
        question_id=question,
        category="temporal",
        gold=("t1", "t2"),
        share_500=0.75,
        share_2000=1.0,
        found_500=0.5,
        found_2000=1.0,
        ranks=(3, None),
        recall_at_5=0.5,
        recall_at_10=0.5,
        recall_at_20=0.5,
        all_at_10=0.0,
        mrr=1 / 3,
        ndcg_10=0.4,
        context_tokens=300,
        ms=12.5,
        k_ms=8.25,
        stages_ms={"embed": 4.0},
        losses={"gold": 2},
        degraded=("Something is away.",),
    )


def test_records_of_locked_questions_name_no_gold_turns(tmp_path: Path) -> None:
    with RecordFile(tmp_path, MEASURED, resume=False, gold=False) as records:
        records.add(record("q1"))
        assert records.of("memforest", ["q1"]) == [replace(record("q1"), gold=())]
    with RecordFile(tmp_path, MEASURED, resume=True, gold=False) as records:
        assert records.has("memforest", "q1")
    assert read_records(tmp_path) == [replace(record("q1"), gold=())]


def test_a_torn_last_line_is_dropped_and_the_run_goes_on(tmp_path: Path) -> None:
    """Given a run that was killed while it wrote, when it resumes, then the whole records remain and none is torn."""
    with RecordFile(tmp_path, MEASURED, resume=False) as records:
        records.add(record("q1"))
        records.add(record("q2"))
    path = tmp_path / RECORDS
    path.write_text(path.read_text()[:-20])
    assert read_records(tmp_path) == [record("q1")]
    with RecordFile(tmp_path, MEASURED, resume=True) as records:
        assert records.has("memforest", "q1")
        assert not records.has("memforest", "q2")
        records.add(record("q2"))
    assert read_records(tmp_path) == [record("q1"), record("q2")]


def test_records_of_another_run_are_refused_naming_what_differs(tmp_path: Path) -> None:
    with RecordFile(tmp_path, MEASURED, resume=False) as records:
        records.add(record())
    with pytest.raises(WrongRun, match="have another limit"):
        RecordFile(tmp_path, MEASURED | {"limit": 3}, resume=True)
    assert read_records(tmp_path) == [record()]
