"""What the benchmark of scale says of sizes that it measured, and of those that took too long."""

from __future__ import annotations

import pytest

from benchmarks.scale.__main__ import speed
from benchmarks.scale.measuring import Cost, Grown, expected_s, extrapolated, next_size, rows


def cost(seconds: float, facts: float = 0.0) -> Cost:
    return Cost(seconds, resident_mb=100.0, disk_mb=1.0, statements=10.0, facts=facts)


def test_what_grows_with_the_square_is_not_within_n_log_n() -> None:
    (row,) = rows("s", 1_000, Grown([(100, {"o": cost(1.0)}), (1_000, {"o": cost(100.0)})]), slack=1.25)
    assert row["growth"] == {"seconds": 10.0, "resident_mb": 0.1}
    assert row["within"] is False
    assert row["extrapolated"] is False


def test_what_grows_with_the_size_is_within() -> None:
    (row,) = rows("s", 1_000, Grown([(100, {"o": cost(1.0)}), (1_000, {"o": cost(10.0)})]), slack=1.25)
    assert row["within"] is True


def test_a_size_that_was_not_reached_continues_the_growth_from_a_tenth_and_is_marked() -> None:
    """Given a square from 20 to 200, when 1,000 was asked for, then it is 25 times what 200 took."""
    (row,) = rows("s", 1_000, Grown([(20, {"o": cost(0.04)}), (200, {"o": cost(4.0)})]), slack=1.25)
    assert row["seconds"] == pytest.approx(100.0)
    assert (row["extrapolated"], row["measured_to"]) == (True, 200)
    assert row["growth"] == {"seconds": 10.0, "resident_mb": 0.1}
    assert row["within"] is False


def test_noise_between_near_sizes_is_not_judged() -> None:
    """Given a size that took half as long again as it should, then the largest is still compared with its tenth."""
    runs = [(100, {"o": cost(1.0)}), (500, {"o": cost(7.5)}), (1_000, {"o": cost(10.0)})]
    (row,) = rows("s", 1_000, Grown(runs), slack=1.25)
    assert row["growth"] == {"seconds": 1.0, "resident_mb": 0.1}


def test_facts_are_told_and_not_judged() -> None:
    (row,) = rows("s", 1_000, Grown([(100, {"o": cost(1.0, 50)}), (1_000, {"o": cost(10.0, 9_000)})]), slack=1.25)
    assert row["facts"] == 9_000
    assert row["within"] is True


def test_the_single_writer_is_told_in_turns_and_facts_a_second() -> None:
    """Given 2,000 turns that are 1,500 facts after 5 s, extrapolated from 1,000 turns."""
    found = Grown([(100, {"o": cost(0.25, 75)}), (1_000, {"o": cost(2.5, 750)})])
    (row,) = rows("s", 2_000, found, slack=1.25)
    assert speed(row) == {"turns_a_second": 400.0, "facts_a_second": 300.0}


def test_sizes_rise_tenfold_while_they_fit() -> None:
    assert next_size([(100, 1.0)], 10_000, limit_s=600) == 1_000
    assert next_size([(100, 1.0), (1_000, 10.0)], 10_000, limit_s=600) == 10_000
    assert next_size([(100, 1.0), (1_000, 10.0), (10_000, 100.0)], 10_000, limit_s=600) is None


def test_where_time_is_short_the_next_size_leaves_time_for_its_tenth() -> None:
    """Given 10 s for 1,000, then 40 s are left for about 3,000 (n log n) and for 300, which takes 10 s at most."""
    next_ = next_size([(100, 1.0), (1_000, 10.0)], 10_000, limit_s=51)
    assert next_ is not None and 2_000 <= next_ <= 3_000
    assert 11 + 10 + expected_s([(100, 1.0), (1_000, 10.0)], next_) <= 51
    assert 11 + 10 + expected_s([(100, 1.0), (1_000, 10.0)], next_ + 1) > 51


def test_no_size_is_run_that_is_near_the_last() -> None:
    assert next_size([(100, 1.0), (1_000, 10.0)], 10_000, limit_s=35) is None


def test_a_fixed_cost_does_not_hide_what_grows_beside_it() -> None:
    """Given 10 s before anything and 1 s for each 100, then 10,000 take 110 s, not less."""
    assert extrapolated(10_000, (100, 11.0), (200, 12.0)) == pytest.approx(110.0)


def test_what_does_not_grow_stays() -> None:
    assert extrapolated(1_000, (100, 2.0), (200, 2.0)) == 2.0
    assert extrapolated(1_000, (100, 0.0), (200, 0.0)) == 0.0


def test_the_time_of_the_next_size_keeps_what_every_run_begins_with() -> None:
    """Given 10 s before anything and 1 s for each 10, then 1,000 take 110 s and a little for the logarithm."""
    assert 110 <= expected_s([(10, 11.0), (100, 20.0)], 1_000) <= 160
