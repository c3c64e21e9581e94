"""Times in corrections are as precise as they were given, in the owner's zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.correct.records import corrected_time

OSLO = ZoneInfo("Europe/Oslo")
LONDON = ZoneInfo("UTC")


def span(start: str, end: str, precision: Precision) -> TimeSpan:
    return TimeSpan(datetime.fromisoformat(start + "Z"), datetime.fromisoformat(end + "Z"), precision)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2023", span("2023-01-01T00:00", "2024-01-01T00:00", Precision.YEAR)),
        ("2023-12", span("2023-12-01T00:00", "2024-01-01T00:00", Precision.MONTH)),
        ("2024-02", span("2024-02-01T00:00", "2024-03-01T00:00", Precision.MONTH)),
        (" 2024-02-29 ", span("2024-02-29T00:00", "2024-03-01T00:00", Precision.DAY)),
        ("2023-05-08T10:30", span("2023-05-08T10:30", "2023-05-08T10:30", Precision.MINUTE)),
        (0, span("1970-01-01T00:00", "1970-01-01T00:00", Precision.MINUTE)),
    ],
)
def test_a_start_alone_is_all_that_it_names(given: object, expected: TimeSpan) -> None:
    assert corrected_time(UNKNOWN_TIME, given, None, LONDON) == expected


def test_days_are_the_owners_also_when_they_have_another_length() -> None:
    """Given the day on which Oslo sets its clocks forward, then it has 23 hours."""
    assert corrected_time(UNKNOWN_TIME, "2023-03-26", None, OSLO) == span(
        "2023-03-25T23:00", "2023-03-26T22:00", Precision.DAY
    )
    march = corrected_time(UNKNOWN_TIME, "2023-03", None, OSLO)
    assert march == span("2023-02-28T23:00", "2023-03-31T22:00", Precision.MONTH)


def test_start_and_end_span_both_as_coarse_as_the_coarser() -> None:
    found = corrected_time(UNKNOWN_TIME, "2021-03", "2022", LONDON)
    assert found == span("2021-03-01T00:00", "2023-01-01T00:00", Precision.YEAR)


def test_an_end_alone_ends_the_old_span() -> None:
    old = span("2021-03-01T00:00", "2021-04-01T00:00", Precision.MONTH)
    assert corrected_time(old, None, "2022-05-01", LONDON) == span(
        "2021-03-01T00:00", "2022-05-02T00:00", Precision.MONTH
    )


def test_without_times_nothing_changes() -> None:
    old = span("2021-03-01T00:00", "2021-04-01T00:00", Precision.MONTH)
    assert corrected_time(old, None, None, LONDON) == old


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [
        (None, "2022", "missing_start"),
        ("2022-02", "2021", "invalid_range"),
        ("2022-13", None, "invalid_timestamp"),
        ("2023-02-29", None, "invalid_timestamp"),
        ("soon", None, "invalid_timestamp"),
        ("2999", None, "invalid_timestamp"),
        (datetime(900, 1, 1, tzinfo=UTC), None, "invalid_timestamp"),
    ],
)
def test_absurd_times_are_refused(start: object, end: object, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        corrected_time(UNKNOWN_TIME, start, end, LONDON)
    assert refused.value.code == code
