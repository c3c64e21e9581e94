"""Calendar arithmetic on local days: the periods that English date phrases name, and the words of these phrases."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import date, time, timedelta

from memforest_core.domain.text import NUMBER_WORDS
from memforest_core.domain.times import Precision

MONTHS = {name.casefold(): number for number, name in enumerate(calendar.month_name) if name}
WEEKDAYS = {name.casefold(): number for number, name in enumerate(calendar.day_name)}
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""First month of each meteorological season of the northern hemisphere; each lasts three months."""

_FIXED = """
    01-01: new year's day, new year's, new years, new year; 02-14: valentine's day, valentine's, valentines day;
    03-17: st patrick's day, st. patrick's day; 07-04: fourth of july, independence day; 10-31: halloween;
    12-24: christmas eve; 12-25: christmas day, christmas, xmas; 12-26: boxing day; 12-31: new year's eve, new years eve
"""
_DATED = [entry.split(": ") for entry in " ".join(_FIXED.split()).split("; ")]
FIXED_HOLIDAYS = {name: (int(day[:2]), int(day[3:])) for day, names in _DATED for name in names.split(", ")}
MOVABLE_HOLIDAYS = frozenset(
    {"easter", "easter sunday", "easter monday", "good friday", "thanksgiving", "labor day", "memorial day"}
)
HOLIDAYS = (*FIXED_HOLIDAYS, *sorted(MOVABLE_HOLIDAYS))

DAY = timedelta(days=1)
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Period:
    """Local days [start, end) and the precision they were said with; ``at`` is a time of day on a single day."""

    start: date
    end: date
    precision: Precision
    at: time | None = None


def day(start: date) -> Period:
    """One day."""
    return Period(start, start + DAY, Precision.DAY)


def days(start: date, end: date, precision: Precision = Precision.WEEK) -> Period:
    """The days [start, end), said loosely."""
    return Period(start, end, precision)


def week_of(moment: date) -> Period:
    """The week, from Monday, with a day in it."""
    monday = moment - timedelta(days=moment.weekday())
    return Period(monday, monday + WEEK, Precision.WEEK)


def weekend_of(moment: date) -> Period:
    """Saturday and Sunday of the week with a day in it."""
    saturday = moment + timedelta(days=5 - moment.weekday())
    return Period(saturday, saturday + 2 * DAY, Precision.WEEK)


def add_months(moment: date, months: int) -> date:
    """The first day of the month that lies ``months`` later."""
    index = moment.year * 12 + moment.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)


def month(year: int, number: int) -> Period:
    """A calendar month."""
    first = date(year, number, 1)
    return Period(first, add_months(first, 1), Precision.MONTH)


def year(number: int) -> Period:
    """A calendar year."""
    return Period(date(number, 1, 1), date(number + 1, 1, 1), Precision.YEAR)


def decade(first_year: int) -> Period:
    """Ten years; the year is the finest part that was said."""
    return Period(date(first_year, 1, 1), date(first_year + 10, 1, 1), Precision.YEAR)


def season(name: str, in_year: int) -> Period:
    """Three months; winter begins in December of its year. Coarser than a month, so its precision is the year."""
    first = date(in_year, SEASONS[name], 1)
    return Period(first, add_months(first, 3), Precision.YEAR)


def _nth_weekday(in_year: int, in_month: int, weekday: int, nth: int) -> date:
    """The nth (from 1; -1 is the last) weekday of a month. Raises ValueError when there is none."""
    weeks = calendar.Calendar().monthdayscalendar(in_year, in_month)
    found = [week[weekday] for week in weeks if week[weekday]]
    index = nth - 1 if nth > 0 else nth
    if index >= len(found):
        raise ValueError("the month has no such weekday")
    return date(in_year, in_month, found[index])


def nth_part(unit: str, nth: int, whole: Period) -> Period:
    """The nth (from 1; -1 is the last) week, weekend or weekday of a month. Raises ValueError."""
    first = whole.start
    if unit == "weekend":
        saturday = _nth_weekday(first.year, first.month, 5, nth)
        return Period(saturday, saturday + 2 * DAY, Precision.WEEK)
    if unit == "week":
        start = whole.end - WEEK if nth < 0 else first + (nth - 1) * WEEK
        return Period(start, start + WEEK, Precision.WEEK)
    return day(_nth_weekday(first.year, first.month, WEEKDAYS[unit], nth))


def _easter(in_year: int) -> date:
    """Western Easter Sunday by the anonymous Gregorian computus (Meeus, Astronomical Algorithms, 1991)."""
    golden = in_year % 19
    century, rest = divmod(in_year, 100)
    leap, skipped = divmod(century, 4)
    moon = (19 * golden + century - leap - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    shift = (32 + 2 * skipped + 2 * (rest // 4) - moon - rest % 4) % 7
    late = (golden + 11 * moon + 22 * shift) // 451
    number, day_index = divmod(moon + shift - 7 * late + 114, 31)
    return date(in_year, number, day_index + 1)


def holiday(name: str, in_year: int) -> Period:
    """The day of a holiday in a year."""
    if name in FIXED_HOLIDAYS:
        number, of_month = FIXED_HOLIDAYS[name]
        return day(date(in_year, number, of_month))
    if name.startswith("easter") or name == "good friday":
        return day(_easter(in_year) + {"easter monday": 1, "good friday": -2}.get(name, 0) * DAY)
    if name == "thanksgiving":
        return day(_nth_weekday(in_year, 11, 3, 4))
    if name == "labor day":
        return day(_nth_weekday(in_year, 9, 0, 1))
    return day(_nth_weekday(in_year, 5, 0, -1))


MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\.?)"
)
WEEKDAY = (
    r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|(?:mon|tues|tue|wed|thurs|thur|thu|fri|sat|sun)\.?)"
)
SEASON = r"(?:spring|summer|autumn|fall|winter)"
HOLIDAY = "(?:" + "|".join(re.escape(name) for name in sorted(HOLIDAYS, key=len, reverse=True)) + ")"
UNIT = r"(?:hour|day|night|week|fortnight|month|year|decade)"
COUNTS = {word: int(value) for word, value in NUMBER_WORDS.items()} | {"a": 1, "an": 1}
COUNT = r"(?:\d{1,4}|" + "|".join(sorted(COUNTS, key=len, reverse=True)) + ")"
VAGUE = r"(?:(?:a )?couple(?: of)?|(?:a |the )?few|several|some|many)"
SHORT_UNITS = {"hour": 3600, "hr": 3600, "minute": 60, "min": 60, "second": 1, "sec": 1}
"""Units shorter than a day, in seconds."""
SHORT = "(?:" + "|".join(SHORT_UNITS) + ")"
_ORDINAL_WORDS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
    fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third
    twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"""
ORDINALS = {word: number for number, word in enumerate(_ORDINAL_WORDS.split(), start=1)}
ORDINAL = "(?:" + "|".join(sorted(ORDINALS, key=len, reverse=True)) + ")"
DAY_NUMBER = rf"(?:[0-3]?\d(?:st|nd|rd|th|\.(?= ))?|{ORDINAL})"
YEAR = r"(?:(?:1[5-9]|2[01])\d\d)"


def month_number(name: str) -> int:
    """1 to 12 of a month's name or abbreviation. Raises ValueError."""
    return _number_of(name, MONTHS)


def weekday_number(name: str) -> int:
    """0 (Monday) to 6 of a weekday's name or abbreviation. Raises ValueError."""
    return _number_of(name, WEEKDAYS)


def _number_of(name: str, known: dict[str, int]) -> int:
    for full, number in known.items():
        if full.startswith(name.rstrip(".")[:3]):
            return number
    raise ValueError(f"no month or weekday {name!r}")


def count(word: str) -> int:
    """A counting word or digits as a number. Raises ValueError."""
    return COUNTS[word] if word in COUNTS else int(word)


def day_number(text: str) -> int:
    """The day of a month such as "8th" or "eighth". Raises ValueError."""
    return ORDINALS.get(text) or int(re.sub(r"\D", "", text))


def year_number(text: str) -> int:
    """A year of four digits, or of two, read as 1950 to 2049. Raises ValueError."""
    digits = text.lstrip("'")
    if len(digits) == 4:
        return int(digits)
    return 2000 + int(digits) if int(digits) < 50 else 1900 + int(digits)
