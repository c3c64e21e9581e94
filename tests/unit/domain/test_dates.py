"""Date phrases: what they mean on the day they are said, and where they stand in a sentence."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from memforest_core.domain.dates import MAX_PHRASE_CHARS, find_date_phrases, resolve
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan
from tests.harness.tables import cases

SUNDAY = date(2023, 5, 21)
NEW_YORK = "America/New_York"


def said(on: date, zone: str = NEW_YORK, hour: int = 10) -> datetime:
    """A local hour of a day, as stored: in UTC."""
    return datetime(on.year, on.month, on.day, hour, tzinfo=ZoneInfo(zone)).astimezone(UTC)


def local_days(span: TimeSpan, zone: str = NEW_YORK) -> tuple[str, str, str]:
    """First local day, the local day after the last, precision."""
    assert span.start is not None
    assert span.end is not None
    first, after = span.start.astimezone(ZoneInfo(zone)), span.end.astimezone(ZoneInfo(zone))
    return first.date().isoformat(), after.date().isoformat(), span.precision.value


@pytest.mark.parametrize(
    ("phrase", "first", "after", "precision"),
    cases("""
This morning => 2023-05-21 => 2023-05-22 => day | yesterday evening => 2023-05-20 => 2023-05-21 => day
three days ago => 2023-05-18 => 2023-05-19 => day | in 10 days => 2023-05-31 => 2023-06-01 => day
last Sunday => 2023-05-14 => 2023-05-15 => day | Friday night => 2023-05-19 => 2023-05-20 => day
this coming Thursday => 2023-05-25 => 2023-05-26 => day | Thursday at nine => 2023-05-18 => 2023-05-19 => day
the week before last => 2023-05-01 => 2023-05-08 => week | this weekend => 2023-05-20 => 2023-05-22 => week
over the weekend => 2023-05-20 => 2023-05-22 => week | the other day => 2023-05-14 => 2023-05-21 => week
the week of May 9 => 2023-05-08 => 2023-05-15 => week | the first week of May => 2023-05-01 => 2023-05-08 => week
the second weekend of April => 2023-04-08 => 2023-04-10 => week
the last Monday in May 2022 => 2022-05-30 => 2022-05-31 => day | two months ago => 2023-03-01 => 2023-04-01 => month
in two months => 2023-07-01 => 2023-08-01 => month | next June => 2023-06-01 => 2023-07-01 => month
May 2021 => 2021-05-01 => 2021-06-01 => month | back in Sept. 2019 => 2019-09-01 => 2019-10-01 => month
the end of April => 2023-04-01 => 2023-05-01 => month | mid-July 2020 => 2020-07-01 => 2020-08-01 => month
2021-05 => 2021-05-01 => 2021-06-01 => month | from November to February 2022 => 2021-11-01 => 2022-03-01 => month
a few weeks ago => 2023-04-09 => 2023-05-08 => month | in 2019 => 2019-01-01 => 2020-01-01 => year
early 2020 => 2020-01-01 => 2021-01-01 => year | between 2016 and 2018 => 2016-01-01 => 2019-01-01 => year
the 90s => 1990-01-01 => 2000-01-01 => year | the 2010s => 2010-01-01 => 2020-01-01 => year
next summer => 2023-06-01 => 2023-09-01 => year | summer of 2019 => 2019-06-01 => 2019-09-01 => year
2023-05-08 => 2023-05-08 => 2023-05-09 => day | 25/12/2022 => 2022-12-25 => 2022-12-26 => day
8 May 2023 => 2023-05-08 => 2023-05-09 => day | May 8th, 2023 => 2023-05-08 => 2023-05-09 => day
the 8th of May => 2023-05-08 => 2023-05-09 => day | Monday, 8 May 2023 => 2023-05-08 => 2023-05-09 => day
on the 8th => 2023-05-08 => 2023-05-09 => day | June 3 => 2023-06-03 => 2023-06-04 => day
May 3-5 => 2023-05-03 => 2023-05-06 => day | over Christmas => 2022-12-24 => 2022-12-27 => week
Christmas week => 2022-12-19 => 2022-12-26 => week | on New Year's Eve => 2022-12-31 => 2023-01-01 => day
at Thanksgiving => 2022-11-24 => 2022-11-25 => day | Easter 2024 => 2024-03-31 => 2024-04-01 => day
next Halloween => 2023-10-31 => 2023-11-01 => day | 5 weeks and 3 days ago => 2023-04-13 => 2023-04-14 => day
"""),
)
def test_a_phrase_means_local_days_as_coarse_as_it_was_said(
    phrase: str, first: str, after: str, precision: str
) -> None:
    span = resolve(phrase, said(SUNDAY), NEW_YORK)

    assert local_days(span) == (first, after, precision)


@pytest.mark.parametrize(
    ("on", "phrase", "first", "after"),
    cases("""
2024-01-01 => yesterday => 2023-12-31 => 2024-01-01 | 2023-12-31 => tomorrow => 2024-01-01 => 2024-01-02
2024-01-03 => last week => 2023-12-25 => 2024-01-01 | 2024-01-15 => last month => 2023-12-01 => 2024-01-01
2024-03-31 => a month ago => 2024-02-01 => 2024-03-01 | 2023-12-20 => next month => 2024-01-01 => 2024-02-01
2024-03-01 => yesterday => 2024-02-29 => 2024-03-01 | 2023-03-01 => yesterday => 2023-02-28 => 2023-03-01
2024-02-29 => a year ago => 2023-01-01 => 2024-01-01 | 2023-05-21 => February 29 => 2024-02-29 => 2024-03-01
2025-01-19 => on New Year's Eve => 2024-12-31 => 2025-01-01 | 2025-01-05 => last winter => 2023-12-01 => 2024-03-01
2025-01-05 => this winter => 2024-12-01 => 2025-03-01 | 2023-05-19 => on Friday => 2023-05-12 => 2023-05-13
2023-05-15 => last weekend => 2023-05-13 => 2023-05-15
2023-05-15 => the weekend before last => 2023-05-06 => 2023-05-08
2023-11-12 => on December 11 => 2023-12-11 => 2023-12-12
"""),
)
def test_year_ends_leap_days_and_weekdays_said_on_themselves(on: str, phrase: str, first: str, after: str) -> None:
    assert local_days(resolve(phrase, said(date.fromisoformat(on)), NEW_YORK))[:2] == (first, after)


@pytest.mark.parametrize(
    ("on", "phrase", "first", "after"),
    cases("""
2024-04-14 => in July => 2024-07-01 => 2024-08-01 | 2023-05-21 => on Thursday => 2023-05-25 => 2023-05-26
2025-01-19 => on September 20 => 2025-09-20 => 2025-09-21 | 2023-05-21 => the 8th => 2023-06-08 => 2023-06-09
2023-11-12 => over Christmas => 2023-12-24 => 2023-12-27 | 2023-05-21 => yesterday => 2023-05-20 => 2023-05-21
2023-05-21 => in 2019 => 2019-01-01 => 2020-01-01
"""),
)
def test_an_open_date_lies_ahead_when_the_caller_knows_it_is_a_plan(
    on: str, phrase: str, first: str, after: str
) -> None:
    assert local_days(resolve(phrase, said(date.fromisoformat(on)), NEW_YORK, future=True))[:2] == (first, after)


@pytest.mark.parametrize(
    ("phrase", "start"),
    cases("""
1:56 pm on 8 May, 2023 => 2023-05-08T17:56 | yesterday at 10:30 => 2023-05-20T14:30
last Tuesday at 7 a.m. => 2023-05-16T11:00 | at noon => 2023-05-21T16:00 | 2023-05-08T10:30:00Z => 2023-05-08T10:30
2023-05-08 10:30 => 2023-05-08T14:30 | 12:05 am on June 1, 2022 => 2022-06-01T04:05
"""),
)
def test_a_time_of_day_is_one_minute(phrase: str, start: str) -> None:
    span = resolve(phrase, said(SUNDAY), NEW_YORK)

    assert span.precision is Precision.MINUTE
    assert span.start == datetime.fromisoformat(start).replace(tzinfo=UTC)
    assert span.end == datetime.fromisoformat(start).replace(tzinfo=UTC) + timedelta(minutes=1)


class TestTimeZones:
    @pytest.mark.parametrize(
        ("zone", "start"),
        [
            ("America/New_York", "2023-05-20T04:00"),
            ("Asia/Tokyo", "2023-05-20T15:00"),
            ("Pacific/Kiritimati", "2023-05-20T10:00"),
            ("UTC", "2023-05-20T00:00"),
            ("Asia/Kathmandu", "2023-05-20T18:15"),
        ],
    )
    def test_the_day_is_that_of_the_zone(self, zone: str, start: str) -> None:
        # 20:00 UTC on Sunday is already Monday east of UTC+4.
        moment = datetime(2023, 5, 21, 20, tzinfo=UTC)

        assert resolve("yesterday", moment, zone).start == datetime.fromisoformat(start).replace(tzinfo=UTC)

    @pytest.mark.parametrize(
        ("on", "hours"), [(date(2023, 3, 13), 23), (date(2023, 11, 6), 25), (date(2023, 5, 21), 24)]
    )
    def test_days_around_a_change_of_clocks_are_shorter_or_longer(self, on: date, hours: int) -> None:
        span = resolve("yesterday", said(on), NEW_YORK)

        assert span.start is not None
        assert span.end is not None
        assert span.end - span.start == timedelta(hours=hours)

    def test_a_day_without_a_midnight_starts_at_its_first_hour(self) -> None:
        # Clocks in Sao Paulo went from 00:00 to 01:00 on 4 November 2018.
        span = resolve("2018-11-04", said(SUNDAY), "America/Sao_Paulo")

        assert span.start == datetime(2018, 11, 4, 3, tzinfo=UTC)
        assert span.end == datetime(2018, 11, 5, 2, tzinfo=UTC)

    def test_an_unknown_zone_is_the_callers_error(self) -> None:
        with pytest.raises(ZoneInfoNotFoundError):
            resolve("yesterday", said(SUNDAY), "Mars/Olympus")


@pytest.mark.parametrize(
    "phrase",
    [
        *cases("""
two weeks | for six years | a few days | in 1 hour and 58 minutes | 204 pounds | 12 | before May | after Christmas
Feb 29 2023 | May 32 | 31 April 2022 | in 9999 years | in 99999 years | 9999-12-31 | 0001-01-01
the fifth Monday of February 2023 | soon | 3 mai 2023
"""),
        "",
        "   ",
        "\x00",
        "x" * 5_000,
        "last Tuesday " * 20,
    ],
)
def test_durations_absurd_dates_and_other_words_are_unknown(phrase: str) -> None:
    assert resolve(phrase, said(SUNDAY), NEW_YORK) == UNKNOWN_TIME


def test_other_languages_are_read_when_the_caller_names_them() -> None:
    span = resolve("3 mai 2023", said(SUNDAY), NEW_YORK, languages=["fr"])

    assert local_days(span) == ("2023-05-03", "2023-05-04", "day")


def test_case_spaces_quotes_and_punctuation_do_not_matter() -> None:
    plain = resolve("on new year's eve", said(SUNDAY), NEW_YORK)

    assert resolve("  On  New Year’s Eve. ", said(SUNDAY), NEW_YORK) == plain


def test_a_phrase_of_the_longest_length_is_still_read() -> None:
    phrase = "yesterday".rjust(MAX_PHRASE_CHARS)

    assert resolve(phrase, said(SUNDAY), NEW_YORK).known


@pytest.mark.parametrize(
    ("sentence", "phrases"),
    [
        ("I went to the gym yesterday.", ["yesterday"]),
        ("Two weeks ago I applied for a job.", ["Two weeks ago"]),
        ("The interview is on Thursday, not Tuesday.", ["on Thursday", "Tuesday"]),
        ("It's October 4, not September 20.", ["October 4", "September 20"]),
        ("I spent Christmas week with Maya.", ["Christmas week"]),
        ("Maya got engaged on New Year’s Eve!", ["on New Year’s Eve"]),
        ("They made an offer on Friday and I accepted this morning.", ["on Friday", "this morning"]),
        ("I want to go at the end of April, after the race.", ["at the end of April"]),
        ("She left on May 3, 2021 at 5:30 pm.", ["on May 3, 2021 at 5:30 pm"]),
        ("I was there from May to July 2022.", ["from May to July 2022"]),
        ("I've lived here since 2016.", ["since 2016"]),
        ("We met in the summer of 2019.", ["in the summer of 2019"]),
        ("The deadline is 2024-03-01.", ["2024-03-01"]),
        ("Did that on 3/14/2023 already.", ["on 3/14/2023"]),
        ("I lived in Boston for six years.", []),
        ("I finished in 1 hour and 58 minutes.", []),
        ("You may march in if you like.", []),
        ("We had 2,300 downloads.", []),
        ("We talk every Sunday.", []),
        ("The meeting is on Mondays.", []),
        ("The sun sat on the wall.", []),
        ("", []),
    ],
)
def test_phrases_are_found_word_by_word_and_in_order(sentence: str, phrases: list[str]) -> None:
    found = find_date_phrases(sentence)

    assert found == phrases
    assert all(phrase in sentence for phrase in found)
