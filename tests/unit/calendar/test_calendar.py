"""Days of a zone, and what one call reads of them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from memforest_core.assistant.calendar.day_speakers import speakers_of
from memforest_core.assistant.calendar.making import local_days
from memforest_core.assistant.calendar.records import (
    Days,
    DayTurn,
    Span,
    checked_day,
    checked_period,
    midnight,
    month_of,
    one_day,
    week_before,
    year_of,
)
from memforest_core.assistant.condensing import Condenser, DatedText, in_parts
from memforest_core.domain.people import People
from memforest_core.domain.turns import Role
from memforest_core.errors import InvalidInput

NOBODY = People("bob", [])
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def turn(number: int, text: str, speaker: str = "bob", role: Role = Role.USER) -> DayTurn:
    return DayTurn(speaker, speaker.capitalize(), role, text, NOON + timedelta(minutes=number))


@pytest.mark.parametrize(
    "zone, day, hours",
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),  # the clock goes forward
        ("Europe/Berlin", date(2026, 10, 25), 25),  # and back
        ("Asia/Beirut", date(2022, 3, 27), 23),  # over midnight: the day begins at one
        ("America/Havana", date(2026, 11, 1), 25),  # back to midnight: the first one counts
        ("Pacific/Apia", date(2011, 12, 30), 0),  # a day that was left out
        ("Asia/Kathmandu", date(2026, 1, 1), 24),
    ],
)
def test_a_day_is_as_long_as_its_zone_has_it(zone: str, day: date, hours: int) -> None:
    place = ZoneInfo(zone)
    start, end = one_day(day).moments(place)
    assert end - start == timedelta(hours=hours)
    assert start == midnight(day, place)
    if hours:
        assert start.astimezone(place).date() == day
        assert (start - timedelta(microseconds=1)).astimezone(place).date() < day
        assert (end - timedelta(microseconds=1)).astimezone(place).date() == day


def test_longer_times_begin_and_end_with_days() -> None:
    assert week_before(date(2026, 11, 22)) == Days(Span.WEEK, date(2026, 11, 16), date(2026, 11, 22))
    assert month_of(date(2026, 12, 9)) == Days(Span.MONTH, date(2026, 12, 1), date(2027, 1, 1))
    assert year_of(date(2026, 12, 9)) == Days(Span.YEAR, date(2026, 1, 1), date(2027, 1, 1))
    assert [checked_period(each).span for each in ("2026-11", "2026", "life")] == [Span.MONTH, Span.YEAR, Span.LIFE]
    assert month_of(date(2026, 2, 1)).last == date(2026, 2, 28)


@pytest.mark.parametrize("wrong", ["2026-13", "20261", "week", 2026, None, "1000", "2999-12"])
def test_other_periods_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="period"):
        checked_period(wrong)


def test_days_are_dates_or_iso() -> None:
    assert checked_day("2026-11-22") == checked_day(date(2026, 11, 22)) == date(2026, 11, 22)
    for wrong in ("yesterday", "2026-02-30", NOON, 20261122, "0001-01-01", "9999-12-31"):
        with pytest.raises(InvalidInput, match="date"):
            checked_day(wrong)


def test_a_day_of_utc_lies_in_two_local_days() -> None:
    assert local_days(date(2026, 11, 22), ZoneInfo("UTC")) == (date(2026, 11, 22), date(2026, 11, 22))
    assert local_days(date(2026, 11, 22), ZoneInfo("Asia/Tokyo")) == (date(2026, 11, 22), date(2026, 11, 23))
    assert local_days(date(2026, 11, 22), ZoneInfo("America/New_York")) == (date(2026, 11, 21), date(2026, 11, 22))


def test_people_have_digests_and_others_where_no_human_spoke() -> None:
    turns = [turn(0, "Hi."), turn(1, "Hello.", "guide", Role.ASSISTANT), turn(2, "I am Ann.", "ann"), turn(3, "Bye.")]
    assert [(each.id, each.texts) for each in speakers_of(turns, NOBODY)] == [
        ("bob", ("Hi.", "Bye.")),
        ("ann", ("I am Ann.",)),
    ]
    assert [each.id for each in speakers_of(turns[1:2], NOBODY)] == ["guide"]
    assert [each.about for each in speakers_of(turns, NOBODY)] == [frozenset(), frozenset()]
    assert [each.about for each in speakers_of([*turns[:2], turns[3]], NOBODY)] == [frozenset({1})]


def test_parts_are_filled_from_the_last_one_on() -> None:
    assert in_parts(["aaa", "bb", "c", "dddd", "e"], len, 5) == [["aaa"], ["bb", "c"], ["dddd", "e"]]
    assert in_parts(["a" * 99, "b"], len, 5) == [["a" * 99], ["b"]] and in_parts([], len, 5) == []


def test_without_a_model_words_that_fit_stay_as_they_are_and_others_are_picked_by_rules() -> None:
    digester = Condenser(None, 100)
    short = digester.digest(one_day(NOON.date()), ZoneInfo("UTC"), [turn(0, "I bought a kite.")], 1, NOBODY, [])
    assert (short.source, [(each.name, each.text) for each in short.text]) == ("joined", [("Bob", "I bought a kite.")])
    many = [turn(at, f"I bought kite number {at} in the shop of harbour {at}.") for at in range(20)]
    picked = digester.digest(one_day(NOON.date()), ZoneInfo("UTC"), many, 25, NOBODY, [])
    assert (picked.source, picked.left_out) == ("extractive", 5)
    assert 0 < len(picked.text[0].text) <= 100


def test_every_day_shows_some_of_its_text_and_the_newest_comes_first() -> None:
    condenser = Condenser(None, 300)
    texts = [
        DatedText(f"2026-11-{day}", f"Bob: Bought kite {day}. " + "He was glad of it and told us so. " * 9)
        for day in (21, 20, 19)
    ]
    made = condenser.condense("the week", texts, [])
    lines = made.text.splitlines()
    assert made.source == "extractive"
    assert [line[:10] for line in lines] == ["2026-11-21", "2026-11-20", "2026-11-19"]
    assert all(f"kite {day}" in line for day, line in zip((21, 20, 19), lines, strict=True))
    assert len(made.text) <= 300
    small_talk = "Ann: ok cool\nBob: " + "I have two cats, Miso and Tofu, " * 20
    cut = condenser.condense("the week", [DatedText("2026-11-21", small_talk)], []).text
    assert "ok cool … Bob: I have two cats" in cut and cut.endswith(" …") and len(cut) <= 300
    fits = condenser.condense("the week", [DatedText("2026-11-21", "Bob: Hi.")], [])
    assert (fits.text, fits.source) == ("2026-11-21: Bob: Hi.", "joined")
