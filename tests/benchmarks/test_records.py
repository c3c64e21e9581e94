"""Rows, comparisons and reports of records; records survive a killed run, and are not mixed up with those of another."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.compare import table
from benchmarks.eval.losses import Loss, Outcome, loss_table, lost
from benchmarks.eval.measuring import Quote
from benchmarks.eval.records import RECORDS, Record, RecordFile, WrongRun, read_records
from benchmarks.eval.report import main, markdown, measured
from benchmarks.eval.summing import comparison, differences, interval, row
from memforest_core.domain.times import UNKNOWN_TIME

MEASURED = {"dataset": "own", "file": "own.json", "seed": 7, "chat_model": "offline", "transform": None, "limit": None}


def record(number: int = 1, near: float = 1.0, far: float = 1.0, **changes: Any) -> Record:
    given: dict[str, Any] = {
        "method": "any",
        "conversation": "c1",
        "question_id": f"q{number}",
        "category": "temporal",
        "gold": ("t1",),
        "share_500": near,
        "found_500": near,
        "share_2000": far,
        "found_2000": far,
        "ranks": (1,),
        "best_ranks": (1,),
        "outdated_ranks": (),
        "head": ("t1",),
        "paraphrase_of": "",
        "context_tokens": 100 * number,
        "ms": float(number),
    }
    return Record(**(given | changes))


def quotes(*turns: str) -> list[Quote]:
    return [Quote(turn, UNKNOWN_TIME, "", "s", 0, (turn,)) for turn in turns]


def test_a_row_is_the_mean_over_questions_in_percent() -> None:
    got = row("bm25_turns", [record(1, 1.0, 1.0), record(2, 0.5, 1.0), record(3, 0.0, 0.5, category="multi-hop")], 9.5)
    assert (got["method"], got["n"], got["ingest_s"]) == ("bm25_turns", 3, 9.5)
    assert (got["recall_500"], got["recall_2000"], got["context_tokens"]) == (50.0, 83.3, 200)
    groups: Any = got["by_category"]
    cells = {name: (cell["n"], cell["share_500"], cell["recall_2000"]) for name, cell in groups.items()}
    assert cells == {"temporal": (2, 75.0, 100.0), "multi-hop": (1, 0.0, 50.0)}
    assert got["query_ms_p50"] == 2.0


def test_the_best_baseline_of_each_budget_is_compared_with() -> None:
    """Given one baseline best at 500 tokens and another at 2,000, then each is what we are measured against there."""
    ours = [record(1, 1.0, 1.0), record(2, 0.8, 0.8, conversation="c2")]
    wide = [record(1, 0.2, 0.8), record(2, 0.2, 0.4, conversation="c2")]
    near = [record(1, 0.8, 0.5), record(2, 0.4, 0.5, conversation="c2")]
    got = comparison(ours, {"wide": wide, "near": near, "unfinished": near[:1]})
    assert (got["best_500"], got["best_2000"]) == ("near", "wide")
    assert got["ratio_500"] == {"wide": 4.5, "near": 1.5}
    # Of 0.4 missed on average, 0.1 is left.
    assert got["misses_saved_2000"] == 75.0
    cell = differences(ours, near, 7)["share_500"]["temporal"]
    assert cell == {
        "n": 2, "difference": 30.0, "low": 20.0, "high": 40.0, "conversation_low": 20.0, "conversation_high": 40.0,
        "changed": 2,
    }  # fmt: skip


def test_first_items_wrong_turns_paraphrases_and_confidence_are_figures_of_a_row() -> None:
    """Given an answer first, one below a wrong turn, one not found and a question that nothing answers, then each figure
    is of the questions that have it."""
    records = [
        record(1, ranks=(3, 1), best_ranks=(1,), outdated_ranks=(2,), confidence=0.9),
        record(2, ranks=(2,), best_ranks=(2,), outdated_ranks=(1,), head=("t9",), paraphrase_of="q1", confidence=0.4),
        record(3, 0.0, ranks=(None,), best_ranks=(None,), outdated_ranks=(None,), paraphrase_of="q1", confidence=0.4),
        record(4, ranks=(), best_ranks=(), answerable=False, confidence=0.4, paraphrase_of="q9"),
    ]
    got = row("memforest", records, 0.0)
    assert (got["n"], got["first"], got["third"], got["complete_500"]) == (3, 33.3, 66.7, 66.7)
    assert (got["outdated_above"], got["same_first"], got["n_same_first"]) == (66.7, 50.0, 2)
    assert (got["auc"], got["n_unanswerable"]) == (66.7, 1)
    better = [replace(one, best_ranks=(1,) if one.answerable else ()) for one in records]
    cells = differences(better, records, 7)
    assert (cells["first"]["all"]["difference"], cells["outdated_above"]["temporal"]["difference"]) == (66.7, -66.7)
    assert any(line.split()[:5] == ["first", "all", "3", "33.3", "100.0"] for line in table(records, better, 7))


def test_the_interval_draws_conversations_and_repeats_with_the_seed() -> None:
    """Given a thousand questions of one conversation, then they say no more than the conversation does."""
    one = [("c1", 0.1)] * 1000
    assert interval(one, 7) == pytest.approx((0.1, 0.1))
    low, high = interval([("c1", -0.2)] * 50 + [("c2", 0.4)] * 50, 7)
    assert (low, high) == pytest.approx((-0.2, 0.4))
    many = [(f"c{n}", n / 100) for n in range(20)]
    assert interval(many, 7) == interval(many, 7)
    low, high = interval(many, 7)
    assert 0.0 < low < 0.095 < high < 0.19


def test_each_gold_turn_is_lost_at_the_first_stage_that_loses_it() -> None:
    outcome = Outcome(
        gold=("near", "far", "cut", "below", "never", "unstored"),
        found_500=(True, False, False, False, False, False),
        found_2000=(True, True, False, False, False, False),
        items=quotes("near", "far", "cut"),
    )
    held = {"near", "far", "cut", "below", "never"}
    got = lost(outcome, held, lambda: quotes("near", "below"))
    assert got == {
        "gold": 6,
        Loss.NOT_STORED: 1,
        Loss.NOT_RECALLED: 1,
        Loss.BELOW_200: 1,
        Loss.CUT_2000: 1,
        "cut_500": 1,
    }
    table = loss_table([record(1, 0.0, 0.0, losses=got), record(2, 1.0, 1.0, losses={"gold": 4})])
    assert (table["gold_turns"], table["found_500"], table["found_2000"]) == (10, 50.0, 60.0)


def test_records_of_locked_questions_name_no_gold_turns(tmp_path: Path) -> None:
    locked = replace(record(1), gold=(), head=(sha256(b"c1/t1").hexdigest(),))
    with RecordFile(tmp_path, MEASURED, resume=False, gold=False) as records:
        records.add(record(1))
        assert records.of("any", ["q1"]) == [locked]
    with RecordFile(tmp_path, MEASURED, resume=True, gold=False) as records:
        assert records.has("any", "q1")
    assert read_records(tmp_path) == [locked]


def test_a_torn_last_line_is_dropped_and_the_run_goes_on(tmp_path: Path) -> None:
    """Given a run that was killed while it wrote, when it resumes, then the whole records remain and none is torn."""
    with RecordFile(tmp_path, MEASURED, resume=False) as records:
        records.add(record(1))
        records.add(record(2))
    path = tmp_path / RECORDS
    path.write_text(path.read_text()[:-20])
    assert read_records(tmp_path) == [record(1)]
    with RecordFile(tmp_path, MEASURED, resume=True) as records:
        assert records.has("any", "q1")
        assert not records.has("any", "q2")
        records.add(record(2))
    assert read_records(tmp_path) == [record(1), record(2)]


def test_records_of_another_run_are_refused_naming_what_differs(tmp_path: Path) -> None:
    with RecordFile(tmp_path, MEASURED, resume=False) as records:
        records.add(record())
    with pytest.raises(WrongRun, match="have another limit"):
        RecordFile(tmp_path, MEASURED | {"limit": 3}, resume=True)
    assert read_records(tmp_path) == [record()]


def test_every_method_has_a_row_of_the_report_and_variants_a_table_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found_by = {"bm25_turns": 1, "dense_turns": 2, "memforest": 3, "memforest:no-dense": 1}
    with RecordFile(tmp_path, MEASURED, resume=False) as file:
        for method, found in found_by.items():
            for number in range(4):
                lost_turns: Any = {"losses": {"gold": 1}} if method == "memforest" else {}
                file.add(record(number, float(number < found), method=method, context_tokens=1_200, **lost_turns))
    text = markdown(measured(tmp_path))
    headline = text.split("## All questions\n\n")[1].split("\n\n## ")[0]
    rows = {line.split(" |")[0].removeprefix("| "): line.split(" | ") for line in headline.splitlines()}
    assert [rows[name][1] for name in ("memforest", "dense_turns")] == ["75.0", "50.0"]
    assert "1,200" in rows["memforest"] and "no-dense" not in headline
    assert "Within 500 tokens dense_turns is the best foreign baseline; memforest has 1.5 times its share." in text
    assert main([str(tmp_path), "--to", str(tmp_path / "notes" / "recall.md")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "notes" / "recall.md")
    assert (tmp_path / "notes" / "recall.md").read_text() == text
