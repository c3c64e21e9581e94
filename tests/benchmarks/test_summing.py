"""Rows, comparisons with their intervals, and where evidence is lost."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks.eval.dataset import Conversation, Question, Session, Turn, fingerprint, limited
from benchmarks.eval.losses import Loss, Outcome, Stored, loss_table, lost
from benchmarks.eval.measuring import Quote
from benchmarks.eval.records import Record
from benchmarks.eval.summing import adds, comparison, interval, row
from benchmarks.eval.variants import MEMFOREST, variants
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.settings import WEIGHTS, LlmSettings


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


def test_what_is_ours_is_never_the_best_foreign_baseline() -> None:
    """Given our own facts ahead of a foreign baseline, then the foreign one is compared with, and the row says whose."""
    ours = [record(1, 1.0, 1.0)]
    others = {"flat_facts": [record(1, 0.9, 0.9)], "bm25_turns": [record(1, 0.5, 0.5)]}
    assert comparison(ours, others, 7)["best_500"] == "bm25_turns"
    assert comparison(ours, {"flat_facts": others["flat_facts"]}, 7) == {}
    whose = {name: row(name, ours, 0.0)["ours"] for name in ("bm25_turns", "flat_facts", "memforest", "memforest:flat")}
    assert whose == {"bm25_turns": False, "flat_facts": True, "memforest": True, "memforest:flat": True}


def test_a_part_adds_what_is_lost_without_it() -> None:
    """Given a variant that loses one of the four questions of both rows, then both intervals say how sure that is."""
    ours = [record(n, 1.0, 1.0, conversation="c1" if n < 2 else "c2") for n in range(5)]
    without = [record(n, 0.0 if n == 3 else 1.0, 1.0, conversation="c1" if n < 2 else "c2") for n in range(4)]
    got = adds(ours, {"memforest:no-dense": without, "memforest:late": []}, 7)
    assert got["memforest:no-dense"]["500"] == {
        "n": 4,
        "difference": 25.0,
        "low": 0.0,
        "high": 50.0,
        "question_low": 0.0,
        "question_high": 75.0,
        "changed": 1,
    }
    far = got["memforest:no-dense"]["2000"]
    assert (far["difference"], far["question_low"], far["question_high"], far["changed"]) == (0.0, 0.0, 0.0, 0)
    assert got["memforest:late"] == {}


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


def test_every_weight_of_recall_has_a_row_without_it() -> None:
    names = {one.name: one for one in variants("signals", LlmSettings())}
    assert len(names) == len(WEIGHTS) + 1
    assert names["memforest:no-dense"].recall == {"weights": {"dense": 0.0}}
    assert names[MEMFOREST].recall is None


def test_a_limit_takes_questions_evenly_and_repeats_with_the_seed() -> None:
    turn = Turn("t1", "Ada", "Hm.")
    requested = tuple(Question(f"q{n}", "?", "any", ("t1",) if n % 2 else (), "") for n in range(20))
    one = Conversation("c", (Session("s", datetime(2024, 1, 1, tzinfo=UTC), (turn,)),), requested)
    got = limited((one,), None, 5, 7)[0].questions
    assert len(got) == 5
    assert all(question.measures_recall for question in got)
    assert limited((one,), None, 5, 7)[0].questions == got
    assert limited((one,), None, None, 7) == (one,)
    assert fingerprint((one,)) != fingerprint(limited((one,), None, 5, 7))
