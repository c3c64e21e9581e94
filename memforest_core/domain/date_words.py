"""The words of English date phrases: as regular expressions over folded text, and as numbers."""

from __future__ import annotations

import re

from memforest_core.domain import periods as cal
from memforest_core.domain.text import NUMBER_WORDS

MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\.?)"
)
WEEKDAY = (
    r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|(?:mon|tues|tue|wed|thurs|thur|thu|fri|sat|sun)\.?)"
)
SEASON = r"(?:spring|summer|autumn|fall|winter)"
HOLIDAY = "(?:" + "|".join(re.escape(name) for name in sorted(cal.HOLIDAYS, key=len, reverse=True)) + ")"
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
    for full, number in cal.MONTHS.items():
        if full.startswith(name.rstrip(".")[:3]):
            return number
    raise ValueError(f"no month {name!r}")


def weekday_number(name: str) -> int:
    """0 (Monday) to 6 of a weekday's name or abbreviation. Raises ValueError."""
    for full, number in cal.WEEKDAYS.items():
        if full.startswith(name.rstrip(".")[:3]):
            return number
    raise ValueError(f"no weekday {name!r}")


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
