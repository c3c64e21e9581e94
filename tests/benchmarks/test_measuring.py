"""What counts as found, how items are packed, and the measures over ranks."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from benchmarks.eval.measuring import Quote, delivered, earliest, found, fractions, ndcg, packed, ranked, within
from memforest_core.domain.times import Precision, TimeSpan


def words(text: str) -> int:
    return len(text.split())


def quote(text: str, *turns: str, session: str = "s1", day: int = 1, ordinal: int = 0) -> Quote:
    """A piece; its header "[day n]" has two words."""
    moment = datetime(2024, 1, day, tzinfo=UTC)
    return Quote(text, TimeSpan(moment, moment, Precision.DAY), f"day {day}", session, ordinal, turns)


TURN = "We moved to the old mill in Zutphen last spring. It leaks."


def test_a_turn_is_found_whole_or_by_a_sentence_of_at_least_half_of_it() -> None:
    assert found([TURN], f"[day]\nAda: {TURN}\nBob: Hm.") == [True]
    assert found([TURN], "Ada: We moved to the old mill in Zutphen last spring.") == [True]


LONG = " ".join(f"Point {number} of the plan is to mend wall {number * 7919}." for number in range(20))


def test_parts_add_up_wherever_they_stand_and_count_once() -> None:
    half = len(LONG) // 2
    separate = f"{LONG[half:]}\nBob: Hm.\nAda: {LONG[:half]}"
    assert fractions([LONG], separate) == [pytest.approx(1.0, abs=0.01)]
    twice = f"{LONG[:half]}\nBob: Hm.\nAda: {LONG[:half]}"
    assert fractions([LONG], twice) == [pytest.approx(0.5, abs=0.01)]


def test_a_short_turn_counts_whole_or_not_and_chance_does_not_count() -> None:
    assert fractions(["Yes, it is.", "It leaks."], "Ada: Yes, it   is.\nBob: It leaked.") == [1.0, 0.0]
    other = LONG.replace("mend wall", "paint gate")
    assert fractions([LONG], f"Ada: {other}") == [0.0]
    assert fractions([LONG, TURN], "") == [0.0, 0.0]


def test_items_of_one_session_and_day_share_a_header_that_counts() -> None:
    """Given two words a header, when seven words fit, then two items of one day do and of two days don't."""
    same = [quote("a b", "t1"), quote("c d", "t2", ordinal=1)]
    separate = [quote("a b", "t1"), quote("c d", "t2", day=2)]
    assert [item.text for item in packed(same, 7, words)] == ["a b", "c d"]
    assert [item.text for item in packed(separate, 7, words)] == ["a b"]
    assert delivered(same, 7, words) == "[day 1]\na b\nc d"


def test_measures_go_by_the_first_item_that_quotes_a_gold_turn() -> None:
    items = [quote("x", "t9"), quote("y", "t1", "t2"), quote("z", "t1"), *(quote("-", f"o{n}") for n in range(4))]
    items += [quote("w", "t3")]
    got = ranked(("t1", "t3", "t7"), items)
    assert got == (2, 8, None)
    assert [within(got, k) for k in (5, 10, 20)] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert (earliest(got), earliest((None,))) == (2, math.inf)
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(got) == pytest.approx((1 / math.log2(3) + 1 / math.log2(9)) / ideal)
