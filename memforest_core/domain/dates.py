"""Date phrases, resolved by code against the moment they were said; never by a model, never more precise than said."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan, plausible

MAX_PHRASE_CHARS = 80
"""A longer phrase is a sentence, not a date."""

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ),
        start=1,
    )
    for name in names.split()
}
WEEKDAYS = {
    name: number
    for number, names in enumerate(
        ("monday mon", "tuesday tues tue", "wednesday wed", "thursday thurs thur thu", "friday fri", "saturday sat")
    )
    for name in names.split()
} | {"sunday": 6, "sun": 6}
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""First month of each season of the northern half of the world."""
COUNTS = {
    word: value
    for value, words in enumerate(
        ("", "a an one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
    for word in words.split()
}
VAGUE = {"a few": 3, "a couple of": 2, "a couple": 2, "several": 4, "some": 3}
FEASTS = {
    "christmas eve": (12, 24, 1),
    "christmas day": (12, 25, 1),
    "christmas": (12, 24, 3),
    "new year's eve": (12, 31, 1),
    "new years eve": (12, 31, 1),
    "new year's day": (1, 1, 1),
    "halloween": (10, 31, 1),
    "valentine's day": (2, 14, 1),
}
"""(month, day, number of days)."""

_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_WEEKDAY = "|".join(sorted(WEEKDAYS, key=len, reverse=True))
_COUNT = r"\d{1,3}|" + "|".join(sorted([*VAGUE, *COUNTS], key=len, reverse=True))
_UNIT = "day|week|weekend|fortnight|month|year|decade"
_ORDINAL = r"(?:st|nd|rd|th)?"
_TURN_OF = "last|past|previous|this|current|next|coming|following"
_PART = r"(?:early |mid-?|late |the (?:start|beginning|middle|end) of )?"

_Rule = Callable[[re.Match[str], date], "tuple[date, date, Precision] | None"]


def _day(day: date, count: int = 1, precision: Precision = Precision.DAY) -> tuple[date, date, Precision]:
    return day, day + timedelta(days=count), precision


def _month(year: int, month: int, count: int = 1) -> tuple[date, date, Precision]:
    end = month + count - 1
    return date(year, month, 1), date(year + end // 12, end % 12 + 1, 1), Precision.MONTH


def _year(year: int, count: int = 1) -> tuple[date, date, Precision]:
    return date(year, 1, 1), date(year + count, 1, 1), Precision.YEAR


def _shift_month(day: date, months: int) -> tuple[int, int]:
    index = day.year * 12 + day.month - 1 + months
    return index // 12, index % 12 + 1


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _sign(word: str) -> int:
    return {"next": 1, "coming": 1, "following": 1, "this": 0, "current": 0}.get(word, -1)


def _count(text: str) -> tuple[int, bool]:
    """A number of units, and whether it was only a vague one."""
    folded = text.strip()
    if folded in VAGUE:
        return VAGUE[folded], True
    return (int(folded) if folded.isdigit() else COUNTS[folded]), False


def _moved(unit: str, count: int, vague: bool, base: date) -> tuple[date, date, Precision]:
    """``count`` units away from the base: as precise as the unit."""
    if unit == "day":
        day = base + timedelta(days=count)
        return _day(day - timedelta(days=1), 3, Precision.WEEK) if vague else _day(day)
    if unit in {"week", "fortnight"}:
        return _day(
            _monday(base + timedelta(weeks=count * (2 if unit == "fortnight" else 1))), 7, Precision.WEEK
        )
    if unit == "weekend":
        return _day(_monday(base) + timedelta(days=5, weeks=count), 2)
    if unit == "month":
        return _month(*_shift_month(base, count))
    return _year(base.year + count * (10 if unit == "decade" else 1))


def _near_day(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    word = found["near"].replace("  ", " ")
    offset = {
        "the day before yesterday": -2,
        "yesterday": -1,
        "last night": -1,
        "tomorrow": 1,
        "the day after tomorrow": 2,
    }
    return _day(base + timedelta(days=offset.get(word.removesuffix(" morning").removesuffix(" evening"), 0)))


def _ago(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    count, vague = _count(found["count"])
    return _moved(found["unit"], -count, vague, base)


def _ahead(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    count, vague = _count(found["count"])
    return _moved(found["unit"], count, vague, base)


def _relative_unit(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    return _moved(found["unit"], _sign(found["turn"]), False, base)


def _relative_weekday(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    wanted, turn = WEEKDAYS[found["weekday"]], found["turn"] or ""
    if turn in {"next", "coming", "following"}:
        return _day(base + timedelta(days=(wanted - base.weekday() - 1) % 7 + 1))
    if turn in {"this", "current"}:
        return _day(_monday(base) + timedelta(days=wanted))
    if turn:
        return _day(base - timedelta(days=(base.weekday() - wanted - 1) % 7 + 1))
    return _day(base - timedelta(days=(base.weekday() - wanted) % 7))


def _relative_month(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    month, turn = MONTHS[found["month"]], found["turn"] or ""
    if turn in {"next", "coming", "following"}:
        return _month(base.year + (month <= base.month), month)
    if turn in {"this", "current"}:
        return _month(base.year, month)
    return _month(base.year - (month > base.month or (bool(turn) and month == base.month)), month)


def _season(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    first, turn = SEASONS[found["season"]], found["turn"] or ""
    if found["year"]:
        return _month(int(found["year"]), first, 3)
    start = date(base.year, first, 1)
    if turn in {"next", "coming", "following"}:
        return _month(base.year + (start <= base), first, 3)
    if turn in {"this", "current"}:
        return _month(base.year, first, 3)
    over = start > base or (bool(turn) and _month(base.year, first, 3)[1] > base)
    return _month(base.year - over, first, 3)


def _full_date(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    return _day(date(int(found["year"]), MONTHS[found["month"]], int(found["day"])))


def _month_day(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    month, day = MONTHS[found["month"]], int(found["day"])
    ahead = (found["turn"] or "") in {"next", "coming"}
    for year in (base.year + 1, base.year) if ahead else (base.year, base.year - 1, base.year - 4):
        candidate = _valid(year, month, day)
        if candidate and ((candidate > base) if ahead else (candidate <= base)):
            if ahead and (sooner := _valid(base.year, month, day)) and sooner > base:
                candidate = sooner
            return _day(candidate)
    return _day(date(base.year, month, day))


def _valid(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _numeric(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    year, first, second = int(found["year"]), int(found["first"]), int(found["second"])
    year += 2000 if year < 100 else 0
    return _day(date(year, first, second) if first <= 12 else date(year, second, first))


def _iso(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    if not found["day"]:
        return _month(int(found["year"]), int(found["month"]))
    return _day(date(int(found["year"]), int(found["month"]), int(found["day"])))


def _feast(found: re.Match[str], base: date) -> tuple[date, date, Precision]:
    month, day, days = FEASTS[found["feast"]]
    turn = found["turn"] or ""
    year = int(found["year"]) if found["year"] else base.year
    if not found["year"]:
        if turn in {"next", "coming"} and date(year, month, day) <= base:
            year += 1
        elif turn not in {"this", "next", "coming"} and date(year, month, day) > base:
            year -= 1
    return _day(date(year, month, day), days)


_LEAD = r"(?:(?:on|in|at|by|since|from|until|till|around|about|during|over|back in|as of|of|for)\s+)?(?:the\s+)?"
_SAID: list[tuple[re.Pattern[str], _Rule]] = [
    (re.compile(_LEAD + pattern, re.IGNORECASE), rule)
    for pattern, rule in (
        (r"(?P<year>\d{4})-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?(?:[T ]\d{2}:\d{2}\S*)?", _iso),
        (r"(?P<first>\d{1,2})[/.](?P<second>\d{1,2})[/.](?P<year>\d{4}|\d{2})", _numeric),
        (
            rf"(?:(?:{_WEEKDAY}),?\s+)?(?P<day>\d{{1,2}}){_ORDINAL}\s+(?:of\s+)?(?P<month>{_MONTH})\.?,?\s+(?P<year>\d{{4}})",
            _full_date,
        ),
        (
            rf"(?:(?:{_WEEKDAY}),?\s+)?(?P<month>{_MONTH})\.?\s+(?P<day>\d{{1,2}}){_ORDINAL},?\s+(?P<year>\d{{4}})",
            _full_date,
        ),
        (rf"(?:(?P<turn>{_TURN_OF})\s+)?(?P<month>{_MONTH})\.?\s+(?P<day>\d{{1,2}}){_ORDINAL}(?!\d)", _month_day),
        (
            rf"(?:(?P<turn>{_TURN_OF})\s+)?(?P<day>\d{{1,2}}){_ORDINAL}\s+(?:of\s+)?(?P<month>{_MONTH})(?![a-z])",
            _month_day,
        ),
        (
            rf"{_PART}(?P<month>{_MONTH})\.?,?\s+(?:of\s+)?(?P<year>\d{{4}})",
            lambda f, b: _month(int(f["year"]), MONTHS[f["month"]]),
        ),
        (
            r"(?P<near>the day before yesterday|the day after tomorrow|yesterday(?: morning| evening)?|last night"
            r"|tomorrow(?: morning| evening)?|tonight|today|this morning|this afternoon|this evening|earlier today|just now)",
            _near_day,
        ),
        (rf"(?P<count>{_COUNT})\s+(?P<unit>{_UNIT})s?\s+(?:ago|back|earlier)", _ago),
        (rf"(?P<count>{_COUNT})\s+(?P<unit>{_UNIT})s?\s+(?:from now|later)", _ahead),
        (rf"(?:in|within)\s+(?P<count>{_COUNT})\s+(?P<unit>{_UNIT})s?", _ahead),
        (
            rf"(?:(?P<turn>{_TURN_OF})\s+)?(?P<feast>{'|'.join(sorted(FEASTS, key=len, reverse=True))})(?:\s+(?P<year>\d{{4}}))?",
            _feast,
        ),
        (rf"(?P<turn>{_TURN_OF})\s+(?P<unit>week|weekend|month|year|decade)", _relative_unit),
        (rf"(?:(?P<turn>{_TURN_OF})\s+)?(?P<weekday>{_WEEKDAY})(?![a-z])", _relative_weekday),
        (
            rf"{_PART}(?:(?P<turn>{_TURN_OF})\s+)?(?P<season>spring|summer|autumn|fall|winter)(?:\s+(?:of\s+)?(?P<year>\d{{4}}))?",
            _season,
        ),
        (rf"{_PART}(?:(?P<turn>{_TURN_OF})\s+)?(?P<month>{_MONTH})(?![a-z])", _relative_month),
        (r"(?P<year>(?:19|20)\d{2})s(?!\w)", lambda f, b: _year(int(f["year"]), 10)),
        (rf"{_PART}(?P<year>(?:1[5-9]|20|21)\d{{2}})(?!\d)", lambda f, b: _year(int(f["year"]))),
    )
]

# Months, seasons and weekdays are also names and verbs ("may", "fall", "sat", "sun", "mar"): inside a sentence they
# count as dates only behind a word that makes them one.
_ANCHOR = r"(?:on|in|since|until|till|by|from|during|over|around|before|after|back in|last|this|next|past|coming|early|late|mid-?)"
_IN_SENTENCE = re.compile(
    "|".join(
        rf"(?<!\w)(?:{pattern})"
        for pattern in (
            r"\d{4}-\d{1,2}-\d{1,2}",
            r"\d{1,2}/\d{1,2}/\d{2,4}",
            rf"\d{{1,2}}{_ORDINAL}\s+(?:of\s+)?(?:{_MONTH})\b,?(?:\s+\d{{4}})?",
            rf"(?:{_MONTH})\.?\s+\d{{1,2}}{_ORDINAL}\b(?:,?\s+\d{{4}})?",
            rf"{_PART}(?:{_MONTH})\.?\s+(?:of\s+)?\d{{4}}",
            r"the day before yesterday|the day after tomorrow|yesterday(?: morning| evening)?|last night|tomorrow"
            r"|tonight|today|this (?:morning|afternoon|evening)",
            rf"(?:{_COUNT})\s+(?:{_UNIT})s?\s+(?:ago|from now)",
            rf"in\s+(?:{_COUNT})\s+(?:{_UNIT})s?(?!\s+of)",
            rf"(?:{_TURN_OF})\s+(?:week(?:end)?|month|year|decade|spring|summer|autumn|fall|winter|(?:{_WEEKDAY})\b|(?:{_MONTH})\b)",
            rf"{_ANCHOR}\s+(?:the\s+)?{_PART}(?:(?:{_WEEKDAY})|(?:{_MONTH})|spring|summer|autumn|fall|winter)\b(?!\.?\s+\d)",
            rf"{_ANCHOR}\s+(?:the\s+)?(?:1[5-9]|20|21)\d{{2}}s?\b",
            rf"(?:{'|'.join(sorted(FEASTS, key=len, reverse=True))})(?:\s+\d{{4}})?",
        )
    ),
    re.IGNORECASE,
)


def find_date_phrases(sentence: str) -> list[str]:
    """The date phrases of a sentence, verbatim and in order."""
    found: list[str] = []
    for match in _IN_SENTENCE.finditer(sentence):
        before = sentence[match.start() - 1] if match.start() else " "
        after = sentence[match.end()] if match.end() < len(sentence) else " "
        if not (before.isalnum() or after.isalnum()):
            found.append(match.group().strip())
    return found


def resolve(phrase: str, said_at: datetime, time_zone: str) -> TimeSpan:
    """The interval that a date phrase means, said at an aware moment in an IANA zone.

    Half open, in UTC, with the precision that was said; a month or day without a year is the latest one that is not in
    the future. UNKNOWN_TIME for what is no date, and for absurd ones.
    """
    folded = " ".join(phrase.casefold().replace("’", "'").split()).strip(" .,;:!?\"'")
    if not folded or len(folded) > MAX_PHRASE_CHARS:
        return UNKNOWN_TIME
    zone = ZoneInfo(time_zone)
    return _resolve(folded, said_at.astimezone(zone).date(), zone)


@lru_cache(maxsize=8_192)
def _resolve(phrase: str, base: date, zone: ZoneInfo) -> TimeSpan:
    for pattern, rule in _SAID:
        found = pattern.fullmatch(phrase) or pattern.search(phrase)
        if not found:
            continue
        try:
            said = rule(found, base)
        except (ValueError, OverflowError):
            return UNKNOWN_TIME
        return UNKNOWN_TIME if said is None else _span(*said, zone)
    return _by_library(phrase, base, zone)


def _span(start: date, end: date, precision: Precision, zone: ZoneInfo) -> TimeSpan:
    try:
        first = datetime.combine(start, time(), zone).astimezone(UTC)
        last = datetime.combine(end, time(), zone).astimezone(UTC)
    except OverflowError:
        return UNKNOWN_TIME
    if not (plausible(first) and plausible(last)):
        return UNKNOWN_TIME
    return TimeSpan(first, last, precision)


def _by_library(phrase: str, base: date, zone: ZoneInfo) -> TimeSpan:
    """What the rules do not know, if it has a digit: other orders, other separators."""
    if not any(letter.isdigit() for letter in phrase):
        return UNKNOWN_TIME
    from dateparser.date import DateDataParser

    settings: dict[str, Any] = {
        "RELATIVE_BASE": datetime.combine(base, time(12)),
        "PREFER_DATES_FROM": "past",
        "REQUIRE_PARTS": ["month"],
    }
    try:
        data = DateDataParser(languages=["en"], settings=settings).get_date_data(phrase)
    except (ValueError, OverflowError, TypeError, AttributeError, RecursionError):
        return UNKNOWN_TIME
    if data.date_obj is None:
        return UNKNOWN_TIME
    day = data.date_obj.date()
    if data.period == "month":
        return _span(*_month(day.year, day.month), zone)
    if data.period == "year":
        return _span(*_year(day.year), zone)
    return _span(*_day(day), zone)
