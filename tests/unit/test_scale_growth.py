"""What the benchmark of scale says of sizes that it measured, and of those that took too long."""

from __future__ import annotations

import pytest

from benchmarks.scale.measuring import Cost, Grown, expected_s, extrapolated, rows


def cost(seconds: float) -> Cost:
    return Cost(seconds, resident_mb=100.0, disk_mb=1.0, statements=10.0)


def test_what_grows_with_the_square_is_not_within_n_log_n() -> None:
    (row,) = rows("s", 1_000, Grown([(100, {"o": cost(1.0)}), (1_000, {"o": cost(100.0)})]), slack=1.25)
    assert row["growth"] == {"seconds": 10.0, "resident_mb": 0.1}
    assert row["within"] is False
    assert row["extrapolated"] is False


def test_what_grows_with_the_size_is_within() -> None:
    (row,) = rows("s", 1_000, Grown([(100, {"o": cost(1.0)}), (1_000, {"o": cost(10.0)})]), slack=1.25)
    assert row["within"] is True


def test_a_size_that_was_not_reached_continues_the_last_growth_and_is_marked() -> None:
    """Given a square from 100 to 200, when 1,000 was asked for, then it is 25 times what 200 took."""
    (row,) = rows("s", 1_000, Grown([(100, {"o": cost(1.0)}), (200, {"o": cost(4.0)})]), slack=1.25)
    assert row["seconds"] == pytest.approx(100.0)
    assert (row["extrapolated"], row["measured_to"]) == (True, 200)
    assert row["within"] is False


def test_a_fixed_cost_does_not_hide_what_grows_beside_it() -> None:
    """Given 10 s before anything and 1 s for each 100, then 10,000 take 110 s, not less."""
    assert extrapolated(10_000, (100, 11.0), (200, 12.0)) == pytest.approx(110.0)


def test_what_does_not_grow_stays() -> None:
    assert extrapolated(1_000, (100, 2.0), (200, 2.0)) == 2.0
    assert extrapolated(1_000, (100, 0.0), (200, 0.0)) == 0.0


def test_the_time_of_the_next_size_keeps_what_every_run_begins_with() -> None:
    """Given 10 s before anything and 1 s for each 10, then 1,000 take 110 s and a little for the logarithm."""
    assert 110 <= expected_s([(10, 11.0), (100, 20.0)], 1_000) <= 160
