"""Distances between dates: exact to the calendar, never negative, the same whatever the clocks do."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest_core.domain.relative_dates import (
    before_question,
    days_in_words,
    distance,
    distance_words,
    months_later,
    phrases_resolved,
    span_words,
)
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan

BERLIN = ZoneInfo("Europe/Berlin")
REQUESTED = datetime(2023, 6, 15, 14, 5, tzinfo=BERLIN)

DAYS = st.dates(date(1900, 1, 1), date(2200, 12, 31))
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"]).map(ZoneInfo)


def midnight(day: date, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def whole_day(year: int, month: int, day: int, *, days: int = 1, zone: ZoneInfo = BERLIN) -> TimeSpan:
    first = date(year, month, day)
    return TimeSpan(midnight(first, zone), midnight(first + timedelta(days=days), zone), Precision.DAY)


def whole_month(year: int, month: int, *, months: int = 1) -> TimeSpan:
    first = date(year, month, 1)
    return TimeSpan(midnight(first), midnight(months_later(first, months)), Precision.MONTH)


def whole_year(year: int, *, years: int = 1) -> TimeSpan:
    return TimeSpan(midnight(date(year, 1, 1)), midnight(date(year + years, 1, 1)), Precision.YEAR)


def week_of(year: int, month: int, day: int) -> TimeSpan:
    first = date(year, month, day)
    return TimeSpan(midnight(first), midnight(first + timedelta(days=7)), Precision.WEEK)


def minute(moment: datetime) -> TimeSpan:
    return TimeSpan(moment.astimezone(UTC), moment.astimezone(UTC), Precision.MINUTE)


@given(DAYS, DAYS)
def test_a_distance_leads_from_one_day_to_the_other_and_has_no_negative_part(one: date, other: date) -> None:
    first, last = min(one, other), max(one, other)
    years, months, left = distance(first, last)
    assert min(years, months, left) >= 0
    assert months < 12
    assert months_later(first, 12 * years + months) + timedelta(days=left) == last


@given(DAYS, DAYS)
def test_a_distance_has_as_many_whole_months_as_fit(one: date, other: date) -> None:
    first, last = min(one, other), max(one, other)
    years, months, _ = distance(first, last)
    assert months_later(first, 12 * years + months + 1) > last


@pytest.mark.parametrize(
    ("first", "last", "parts", "words"),
    [
        (date(2023, 1, 31), date(2023, 2, 28), (0, 1, 0), "1 month"),
        (date(2024, 1, 31), date(2024, 2, 28), (0, 0, 28), "28 days"),
        (date(2024, 2, 29), date(2025, 2, 28), (1, 0, 0), "1 year"),
        (date(2023, 5, 8), date(2024, 2, 12), (0, 9, 4), "9 months and 4 days"),
        (date(2021, 3, 1), date(2023, 5, 4), (2, 2, 3), "2 years, 2 months and 3 days"),
        (date(2023, 5, 8), date(2023, 5, 8), (0, 0, 0), "0 days"),
    ],
)
def test_months_and_years_are_those_of_the_calendar(
    first: date, last: date, parts: tuple[int, int, int], words: str
) -> None:
    assert distance(first, last) == parts
    assert words in days_in_words(first, last)


def test_a_distance_is_not_measured_backwards() -> None:
    with pytest.raises(ValueError, match="earlier"):
        distance(date(2023, 5, 9), date(2023, 5, 8))


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (1, "1 day"),
        (6, "6 days"),
        (7, "7 days (1 week)"),
        (24, "24 days (3 weeks and 3 days)"),
        (31, "31 days (1 month)"),
        (400, "400 days (1 year, 1 month and 3 days)"),
    ],
)
def test_days_are_said_in_larger_units_too(days: int, words: str) -> None:
    assert days_in_words(date(2023, 5, 8), date(2023, 5, 8) + timedelta(days=days)) == words


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (whole_day(2023, 6, 15), "on the day of the question"),
        (whole_day(2023, 6, 14), "1 day before the question"),
        (whole_day(2023, 5, 25), "21 days (3 weeks) before the question"),
        (whole_day(2023, 6, 17), "2 days after the question"),
        (whole_day(2023, 6, 10, days=2), "from 5 days to 4 days before the question"),
        (whole_day(2023, 6, 17, days=2), "from 2 days to 3 days after the question"),
        (whole_day(2023, 6, 14, days=3), "a time that includes the day of the question"),
        (week_of(2023, 6, 12), "in the week of the question"),
        (week_of(2023, 5, 22), "3 weeks before the question"),
        (whole_month(2023, 6), "in the month of the question"),
        (whole_month(2022, 11), "7 months before the question"),
        (whole_month(2022, 12, months=3), "from 6 months to 4 months before the question"),
        (whole_year(2023), "in the year of the question"),
        (whole_year(2022), "1 year before the question"),
        (whole_year(2025), "2 years after the question"),
        (whole_year(1990, years=10), "from 33 years to 24 years before the question"),
        (minute(REQUESTED - timedelta(hours=3, minutes=20)), "on the day of the question, 3 hours before it"),
        (minute(REQUESTED - timedelta(minutes=1)), "on the day of the question, 1 minute before it"),
        (minute(REQUESTED + timedelta(hours=1)), "on the day of the question, 1 hour after it"),
        (minute(REQUESTED), "on the day of the question"),
        (minute(REQUESTED - timedelta(days=2)), "2 days before the question"),
        (UNKNOWN_TIME, ""),
    ],
)
def test_a_time_is_said_as_seen_from_the_question_no_finer_than_it_was_given(span: TimeSpan, words: str) -> None:
    assert before_question(span, REQUESTED) == words


def test_the_day_is_that_of_the_askers_zone() -> None:
    """Given half past eleven in the evening UTC and a question the next morning, then in Berlin both are on one day."""
    late = minute(datetime(2023, 6, 14, 23, 30, tzinfo=UTC))
    assert before_question(late, datetime(2023, 6, 15, 9, 0, tzinfo=UTC)) == "1 day before the question"
    assert before_question(late, datetime(2023, 6, 15, 9, 30, tzinfo=BERLIN)).startswith("on the day of the question")


def test_a_question_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        before_question(whole_day(2023, 6, 1), datetime(2023, 6, 15, 14, 5))


@given(DAYS, st.integers(0, 800), ZONES)
def test_a_change_of_clocks_adds_no_day_and_takes_none(day: date, days: int, zone: ZoneInfo) -> None:
    said = datetime(day.year, day.month, day.day, 12, tzinfo=zone)
    requested = datetime.combine(day + timedelta(days=days), said.timetz())
    found = before_question(minute(said), requested)
    # A zone may have left out noon of a day (Apia its 30 December 2011): then the day is the next one.
    real = (requested.astimezone(UTC).astimezone(zone).date() - said.astimezone(UTC).astimezone(zone).date()).days
    if real == days > 0:
        assert found.startswith(f"{days} day")
        assert found.endswith("before the question")


def test_hours_are_those_that_passed() -> None:
    """Given the night in which the clocks go forward, when two hours of the clock have passed, then it was one."""
    before, after = datetime(2023, 3, 26, 1, 30, tzinfo=BERLIN), datetime(2023, 3, 26, 3, 30, tzinfo=BERLIN)
    assert before_question(minute(before), after) == "on the day of the question, 1 hour before it"


SPANS = st.builds(
    lambda start, hours, precision: TimeSpan(start, start + timedelta(hours=hours), precision),
    st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    st.integers(0, 40_000),
    st.sampled_from([each for each in Precision if each is not Precision.UNKNOWN]),
)


@given(SPANS, st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), ZONES)
def test_no_distance_is_negative_or_nothing(span: TimeSpan, requested: datetime, zone: ZoneInfo) -> None:
    words = before_question(span, requested.replace(tzinfo=zone))
    assert words
    assert "-" not in words
    assert " 0 " not in f" {words}"


@given(SPANS, SPANS, ZONES)
def test_of_two_times_at_most_one_comes_after_the_other(one: TimeSpan, other: TimeSpan, zone: ZoneInfo) -> None:
    there, back = distance_words(one, other, zone), distance_words(other, one, zone)
    assert not (there and back)
    assert "-" not in there + back


@pytest.mark.parametrize(
    ("earlier", "later", "words"),
    [
        (whole_day(2023, 5, 8), whole_day(2024, 2, 12), "280 days (9 months and 4 days)"),
        (whole_day(2023, 5, 8), whole_day(2023, 5, 8), ""),
        (whole_day(2023, 5, 9), whole_day(2023, 5, 8), ""),
        (whole_month(2023, 3), whole_day(2023, 5, 8), "about 2 months"),
        (whole_year(2021), whole_month(2023, 5), "about 2 years"),
        (week_of(2023, 5, 1), whole_day(2023, 5, 16), "about 2 weeks"),
        (whole_month(2023, 5), whole_day(2023, 5, 8), ""),
        (UNKNOWN_TIME, whole_day(2023, 5, 8), ""),
    ],
)
def test_a_distance_is_as_exact_as_the_coarser_of_two_times_allows(
    earlier: TimeSpan, later: TimeSpan, words: str
) -> None:
    assert distance_words(earlier, later, BERLIN) == words


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (whole_day(2023, 5, 8), "Monday 8 May 2023"),
        (whole_day(2023, 5, 6, days=2), "Saturday 6 May 2023 to Sunday 7 May 2023"),
        (week_of(2023, 5, 1), "Monday 1 May 2023 to Sunday 7 May 2023"),
        (whole_month(2023, 4), "April 2023"),
        (whole_month(2022, 12, months=3), "December 2022 to February 2023"),
        (whole_year(2021), "2021"),
        (whole_year(1990, years=10), "1990 to 1999"),
        (UNKNOWN_TIME, ""),
    ],
)
def test_a_span_is_written_with_both_ends_where_it_has_two(span: TimeSpan, words: str) -> None:
    assert span_words(span, BERLIN) == words


def test_date_words_mean_what_they_meant_when_they_were_said() -> None:
    said = datetime(2023, 5, 8, 10, 0, tzinfo=BERLIN)
    found = phrases_resolved(
        "We moved last month, and yesterday Clara came. Her visa ends on 3 March 2025.", said, BERLIN.key
    )
    assert {phrase: span_words(span, BERLIN) for phrase, span in found.items()} == {
        "last month": "April 2023",
        "yesterday": "Sunday 7 May 2023",
        "on 3 March 2025": "Monday 3 March 2025",
    }


def test_date_words_that_can_be_read_two_ways_are_left_alone() -> None:
    said = datetime(2023, 5, 8, 10, 0, tzinfo=BERLIN)
    assert phrases_resolved("I will see her on Friday.", said, BERLIN.key) == {}
