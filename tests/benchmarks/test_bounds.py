"""What the benchmarks' bounds hold: a figure beyond one of them is not kept."""

from __future__ import annotations

import pytest

from benchmarks.harness import Row
from benchmarks.recall_latency.__main__ import bounds


def size(facts: int, p50_ms: float, per_second: float) -> Row:
    return {"facts": facts, "p50_ms": p50_ms, "at_once": {"per_second": per_second}}


SIZES = [size(100_000, 60.0, 20.0), size(1_000, 32.0, 90.0)]
"""In whatever order they were asked for."""


def test_the_ratio_of_recall_alone_is_bounded_unless_asked() -> None:
    assert bounds(SIZES, 2.0, None, None) == {"most": True}
    assert bounds(SIZES, 1.5, None, None) == {"most": False}


@pytest.mark.parametrize(("most_ms", "kept"), [(60.0, True), (59.0, False)])
def test_the_p50_of_the_largest_size_is_bounded(most_ms: float, kept: bool) -> None:
    assert bounds(SIZES, 2.0, most_ms, None) == {"most": True, "most_ms": kept}


@pytest.mark.parametrize(("least", "kept"), [(20.0, True), (21.0, False)])
def test_recalls_at_once_of_the_largest_size_are_bounded(least: float, kept: bool) -> None:
    assert bounds(SIZES, 2.0, None, least) == {"most": True, "least_per_second": kept}
