"""Rows, comparisons with their intervals, and where evidence is lost."""

from __future__ import annotations

import pytest

from benchmarks.eval.losses import Loss, Outcome, Stored, loss_table, lost
from benchmarks.eval.measuring import Quote
from benchmarks.eval.records import Record
from benchmarks.eval.summing import comparison, interval, row
from memforest_core.domain.times import UNKNOWN_TIME


def record(
    question: int,
    near: float,
    far: float,
    *,
    conversation: str = "c1",
    category: str = "temporal",
    losses: dict[str, int] | None = None,
    fractions: tuple[float, float] | None = None,
    k_ms: float | None = None,
) -> Record:
    return Record(
        method="any",
        conversation=conversation,
        question_id=f"q{question}",
        category=category,
        gold=("t1",),
        share_500=near if fractions is None else fractions[0],
        share_2000=far if fractions is None else fractions[1],
        found_500=near,
        found_2000=far,
        ranks=(1,),
        recall_at_5=near,
        recall_at_10=near,
        recall_at_20=near,
        all_at_10=near,
        mrr=near,
        ndcg_10=near,
        context_tokens=100 * question,
        ms=float(question),
        k_ms=k_ms,
        stages_ms={"search": 0.5},
        losses=losses or {},
    )


def quotes(*turns: str) -> list[Quote]:
    return [Quote(turn, UNKNOWN_TIME, "", "s", 0, (turn,)) for turn in turns]


def test_a_row_is_the_mean_over_questions_in_percent() -> None:
    got = row("bm25_turns", [record(1, 1.0, 1.0), record(2, 0.5, 1.0), record(3, 0.0, 0.5, category="multi-hop")], 9.5)
    assert (got["method"], got["n"], got["ingest_s"]) == ("bm25_turns", 3, 9.5)
    assert (got["recall_500"], got["recall_2000"], got["context_tokens"]) == (50.0, 83.3, 200)
    assert got["by_category"] == {
        "temporal": {"n": 2, "share_500": 75.0, "share_2000": 100.0, "recall_500": 75.0, "recall_2000": 100.0},
        "multi-hop": {"n": 1, "share_500": 0.0, "share_2000": 50.0, "recall_500": 0.0, "recall_2000": 50.0},
    }
    assert got["query_ms_p50"] == 2.0
    assert got["stages_ms_p50"] == {"search": 0.5}


def test_the_best_baseline_of_each_budget_is_compared_with() -> None:
    """Given one baseline best at 500 tokens and another at 2,000, then each is what we are measured against there."""
    ours = [record(1, 1.0, 1.0), record(2, 0.8, 0.8, conversation="c2")]
    wide = [record(1, 0.2, 0.8), record(2, 0.2, 0.4, conversation="c2")]
    near = [record(1, 0.8, 0.5), record(2, 0.4, 0.5, conversation="c2")]
    got = comparison(ours, {"wide": wide, "near": near, "unfinished": near[:1]}, 7)
    assert (got["best_500"], got["best_2000"]) == ("near", "wide")
    assert got["ratio_500"] == 1.5
    # Of 0.4 missed on average, 0.1 is left.
    assert got["misses_saved_2000"] == 75.0
    assert got["by_category_500"] == {
        "all": {"n": 2, "difference": 30.0, "low": 20.0, "high": 40.0, "below": False},
        "temporal": {"n": 2, "difference": 30.0, "low": 20.0, "high": 40.0, "below": False},
    }


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
        gold=("near", "far", "cut", "reworded", "below", "never", "unstored"),
        found_500=(True, False, False, False, False, False, False),
        found_2000=(True, True, False, False, False, False, False),
        items=quotes("near", "far", "cut", "reworded"),
        fitting=quotes("near", "far", "reworded"),
    )
    held = Stored(frozenset({"near", "far", "cut", "reworded", "below", "never"}), frozenset({"near", "far"}))
    got = lost(outcome, held, lambda: quotes("near", "below"))
    assert got == {
        "gold": 7,
        "no_fact": 5,
        Loss.NOT_STORED: 1,
        Loss.NOT_RECALLED: 1,
        Loss.BELOW_200: 1,
        Loss.CUT_2000: 2,
        "reworded": 1,
        "cut_500": 1,
    }
    table = loss_table([record(1, 0.0, 0.0, losses=got), record(2, 1.0, 1.0, losses={"gold": 3})])
    assert (table["gold_turns"], table["found_500"], table["found_2000"]) == (10, 40.0, 50.0)
