"""Moments and spans: aware, ordered, exact, and unknown only as a whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memforest_core.domain.times import (
    EARLIEST,
    LATEST,
    UNKNOWN_TIME,
    Precision,
    TimeSpan,
    from_micros,
    micros,
    plausible,
)

DAY = datetime(2023, 5, 8, tzinfo=UTC)


def test_a_span_is_known_or_unknown_as_a_whole() -> None:
    assert TimeSpan(DAY, DAY + timedelta(days=1), Precision.DAY).known
    assert TimeSpan(DAY, DAY, Precision.MINUTE).known
    assert not UNKNOWN_TIME.known


@pytest.mark.parametrize(
    ("start", "end", "precision"),
    [
        (DAY, None, Precision.DAY),
        (None, DAY, Precision.DAY),
        (None, None, Precision.DAY),
        (DAY, DAY, Precision.UNKNOWN),
        (DAY, DAY - timedelta(seconds=1), Precision.DAY),
        (DAY.replace(tzinfo=None), DAY.replace(tzinfo=None), Precision.DAY),
    ],
    ids=["no end", "no start", "precise nothing", "unknown something", "backwards", "naive"],
)
def test_a_span_that_contradicts_itself_cannot_be_made(
    start: datetime | None, end: datetime | None, precision: Precision
) -> None:
    with pytest.raises(ValueError, match="span"):
        TimeSpan(start, end, precision)


@pytest.mark.parametrize(
    ("moment", "meant"),
    [
        (EARLIEST, True),
        (EARLIEST - timedelta(microseconds=1), False),
        (LATEST - timedelta(microseconds=1), True),
        (LATEST, False),
        (DAY, True),
    ],
)
def test_dates_outside_of_two_thousand_years_are_absurd(moment: datetime, meant: bool) -> None:
    assert plausible(moment) is meant


@pytest.mark.parametrize(
    ("moment", "value"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (datetime(2023, 5, 8, 10, 0, 0, 123_457, tzinfo=UTC), 1_683_540_000_123_457),
        (datetime(2999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 32_503_679_999_999_999),
    ],
)
def test_microseconds_are_exact_both_ways(moment: datetime, value: int) -> None:
    assert micros(moment) == value
    assert from_micros(value) == moment
