"""From a date phrase, as somebody said it, to the interval of time that it honestly names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from memforest_core.domain.date_phrases import find_date_phrases
from memforest_core.domain.date_rules import Anchor, NoSuchDayError, read
from memforest_core.domain.date_words import COUNT, MONTH, SHORT, UNIT, VAGUE, WEEKDAY
from memforest_core.domain.periods import Period, day, month, week_of, year
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan, plausible

__all__ = ["MAX_PHRASE_CHARS", "find_date_phrases", "resolve"]

MAX_PHRASE_CHARS = 80
"""Longer texts are no date phrases, and are slow to parse as one."""

_QUOTES = {ord("’"): "'", ord("‘"): "'", ord("`"): "'"}
_WHOLE = {"wk": "week", "yr": "year"}
_SHORTENED = re.compile(r"\b(?:wk|yr)(?=s?\b)")
_EDGES = ' \t.,;:!?"()[]{}<>«»“”*_~'
_CLOCK = re.compile(
    r"(?:,? ?\b(?:at|around|about|by|from))? ?(?:"
    r"\b(?P<h12>1[0-2]|0?[1-9])(?:[:.](?P<m12>[0-5]\d))? ?(?P<half>[ap])\.?m\b\.?"
    r"|\b(?P<h24>[01]?\d|2[0-3]):(?P<m24>[0-5]\d)(?::[0-5]\d)?\b"
    r"|\b(?P<noon>noon|midday)\b)"
)
_VAGUE_CLOCK = re.compile(
    r",? at (?:\d\d?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?: o'clock)?$"
)
_STAMP = re.compile(r"(?:at |on |since |until |by |from )?(?P<stamp>\d{4}-\d\d-\d\d[t ]\d\d:\d\d.*)")
_RELATION = re.compile(r"(?:before|after|prior to|not|except) ")
_OF_HOURS = re.compile(rf"\b{SHORT}s?\b")
_DURATION = re.compile(
    rf"(?:(?:for|over|about|almost|nearly|around|only|just|some|at least|more than|less than|up to|within|and) )*"
    rf"(?:(?:the )?{VAGUE}|{COUNT}|half an?) (?:more )?(?:{UNIT}|minute|second)s?(?:(?:,| and|,? and a half)? .*)?"
)
_AGO = re.compile(r"\b(?:ago|back|from now|hence|earlier)\b")
_ENGLISH_DATE = re.compile(
    rf"\b(?:{MONTH}|{WEEKDAY}|ago|yesterday|today|tomorrow)(?!\w)|\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}"
)
_NUMBER_ONLY = re.compile(r"[\W\d_]*")
_PERIODS = {"time": Precision.MINUTE, "day": Precision.DAY, "week": Precision.WEEK, "month": Precision.MONTH}


def resolve(
    phrase: str,
    said_at: datetime,
    time_zone: str,
    languages: Sequence[str] = ("en",),
    *,
    future: bool | None = None,
    clock: tzinfo | None = None,
) -> TimeSpan:
    """The half-open UTC interval that a verbatim date phrase means, with the precision it was said with.

    ``said_at`` is aware; its day by the sender's ``clock`` (``time_zone``'s unless given) is what relative phrases
    count from. Days begin and end in ``time_zone`` (an IANA name), times of day are the clock's. An open date
    ("in May", "on Friday") is the last one, or the next when ``future``; a day and month without a year is the nearest,
    unless ``future`` is given.
    Durations, relations ("before May"), absurd dates and what is not understood are UNKNOWN_TIME; no phrase raises.
    ``languages`` are tried by dateparser when the English rules find nothing. Raises ZoneInfoNotFoundError for an
    unknown zone.
    """
    zone = ZoneInfo(time_zone)
    folded = _fold(phrase)
    if not folded or len(folded) > MAX_PHRASE_CHARS:
        return UNKNOWN_TIME
    now = said_at.astimezone(clock or zone).replace(tzinfo=None)
    if not _OF_HOURS.search(folded):
        now = datetime.combine(now, time.min)
    return _resolved(folded, now, zone, clock or zone, tuple(languages), future)


def _fold(phrase: str) -> str:
    text = unicodedata.normalize("NFKC", phrase[: 4 * MAX_PHRASE_CHARS]).casefold().translate(_QUOTES)
    return _SHORTENED.sub(lambda found: _WHOLE[found[0]], " ".join(text.split()).strip(_EDGES))


@lru_cache(maxsize=16_384)
def _resolved(
    phrase: str, now: datetime, zone: ZoneInfo, clock: tzinfo, languages: tuple[str, ...], future: bool | None
) -> TimeSpan:
    if stamp := _STAMP.fullmatch(phrase):
        stamped = _stamp(stamp["stamp"], clock)
        if stamped is not None:
            return stamped
    if _RELATION.match(phrase):
        return UNKNOWN_TIME
    anchor = Anchor(now, future)
    try:
        period = read(phrase, anchor) or _clocked(phrase, anchor)
    except NoSuchDayError:
        return UNKNOWN_TIME
    if period is None:
        if _DURATION.fullmatch(phrase) and not _AGO.search(phrase):
            return UNKNOWN_TIME
        period = _parsed(phrase, now.date(), languages, future)
    return UNKNOWN_TIME if period is None else _span(period, zone, clock)


def _stamp(phrase: str, clock: tzinfo) -> TimeSpan | None:
    try:
        moment = datetime.fromisoformat(phrase.upper())
        aware = moment if moment.tzinfo else moment.replace(tzinfo=clock)
        start = aware.astimezone(UTC).replace(second=0, microsecond=0)
    except (ValueError, OverflowError):
        return None
    return _checked(start, start + timedelta(minutes=1), Precision.MINUTE)


def _clocked(phrase: str, anchor: Anchor) -> Period | None:
    """A day with a time of day; without a day it is today's, without a half of the day only the day counts."""
    bare = _VAGUE_CLOCK.sub("", phrase)
    if bare != phrase:
        return read(bare.strip(_EDGES), anchor)
    found = _CLOCK.search(phrase)
    if found is None:
        return None
    rest = " ".join(f"{phrase[: found.start()]} {phrase[found.end() :]}".split()).strip(_EDGES)
    on = read(rest, anchor) if rest else day(anchor.today)
    if on is None or on.precision is not Precision.DAY:
        return None
    return Period(on.start, on.end, Precision.MINUTE, _time_of(found))


def _time_of(found: re.Match[str]) -> time:
    if found["noon"]:
        return time(12)
    if found["h24"]:
        return time(int(found["h24"]), int(found["m24"]))
    hour = int(found["h12"]) % 12 + (12 if found["half"] == "p" else 0)
    return time(hour, int(found["m12"] or 0))


def _parsed(phrase: str, today: date, languages: tuple[str, ...], future: bool | None) -> Period | None:
    """What dateparser makes of it. English phrases without any date word are not shown to it: it guesses too much."""
    if _NUMBER_ONLY.fullmatch(phrase) or not languages:
        return None
    if set(languages) == {"en"} and not _ENGLISH_DATE.search(phrase):
        return None
    from dateparser.date import DateDataParser  # slow to import, rarely needed

    settings = {
        "RELATIVE_BASE": datetime.combine(today, time.min),
        "PREFER_DATES_FROM": "future" if future else "past",
        "PREFER_DAY_OF_MONTH": "first",
        "RETURN_TIME_AS_PERIOD": True,
    }
    try:
        data = DateDataParser(languages=list(languages), settings=settings).get_date_data(phrase)
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError):
        return None  # malformed phrases break the library in several ways
    moment = data.date_obj
    if moment is None:
        return None
    return _period(moment, _PERIODS.get(data.period or "", Precision.YEAR))


def _period(moment: datetime, precision: Precision) -> Period | None:
    try:
        if precision is Precision.MINUTE:
            single = day(moment.date())
            return Period(single.start, single.end, precision, moment.time())
        if precision is Precision.MONTH:
            return month(moment.year, moment.month)
        if precision is Precision.YEAR:
            return year(moment.year)
        return week_of(moment.date()) if precision is Precision.WEEK else day(moment.date())
    except (ValueError, OverflowError):
        return None


def _span(period: Period, zone: ZoneInfo, clock: tzinfo) -> TimeSpan:
    """The period's ends at midnight of the zone (or the one minute of its time of day by the clock) in UTC."""
    try:
        if period.at is not None:
            moment = datetime.combine(period.start, period.at.replace(second=0, microsecond=0), clock)
            start = moment.astimezone(UTC)
            return _checked(start, start + timedelta(minutes=1), period.precision)
        start = datetime.combine(period.start, time.min, zone).astimezone(UTC)
        end = datetime.combine(period.end, time.min, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return UNKNOWN_TIME
    return _checked(start, end, period.precision)


def _checked(start: datetime, end: datetime, precision: Precision) -> TimeSpan:
    if not plausible(start) or not plausible(end) or end < start:
        return UNKNOWN_TIME
    return TimeSpan(start, end, precision)
