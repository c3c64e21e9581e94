"""What the benchmark of scale says of a size and a tenth of it."""

from __future__ import annotations

import pytest

from benchmarks.scale.measuring import Cost, rows


def cost(seconds: float, facts: float = 0.0) -> Cost:
    return Cost(seconds, resident_mb=100.0, disk_mb=1.0, statements=10.0, facts=facts)


@pytest.mark.parametrize(("seconds", "growth", "within"), [(100.0, 10.0, False), (10.0, 1.0, True)])
def test_only_what_grows_with_the_size_is_within(seconds: float, growth: float, within: bool) -> None:
    (row,) = rows("s", 1_000, {"o": cost(1.0, 50)}, {"o": cost(seconds, 9_000)}, slack=1.25)
    assert row["growth"] == {"seconds": growth, "resident_mb": 0.1}
    assert row["within"] is within
    assert row["facts"] == 9_000
