"""Rules that read an English date phrase against a day: deterministic, one meaning each."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from memforest_core.domain import periods as cal
from memforest_core.domain.date_words import (
    COUNT,
    DAY_NUMBER,
    HOLIDAY,
    MONTH,
    SEASON,
    UNIT,
    VAGUE,
    WEEKDAY,
    YEAR,
    count,
    day_number,
    month_number,
    weekday_number,
    year_number,
)
from memforest_core.domain.periods import DAY, WEEK, Period
from memforest_core.domain.times import Precision

_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": -1}
_VAGUE_DAYS = {"day": (1, 7), "night": (1, 7), "week": (14, 42), "month": (60, 210), "year": (730, 2190)}
"""How many days ago "a few" units ago lies, at least and at most."""


class NoSuchDayError(ValueError):
    """A phrase has the form of a date that no calendar has, such as 30 February."""


class Anchor(NamedTuple):
    """The local day a phrase was said, and whether an open date is meant to lie ahead of it."""

    today: date
    future: bool


def _yearly(anchor: Anchor, make: Callable[[int], Period], which: str = "") -> Period:
    """The occurrence of something yearly: the last one begun, the next one not yet begun, or as ``which`` says."""
    year = anchor.today.year
    if which == "this":
        return make(year)
    candidates = [make(year + offset) for offset in (-2, -1, 0, 1)]
    ahead = [each for each in candidates if each.start >= anchor.today]
    begun = [each for each in candidates if each.start <= anchor.today]
    if which in {"next", "coming", "this coming", "upcoming"}:
        return next(each for each in candidates if each.start > anchor.today)
    if which in {"last", "past", "this past", "previous"}:
        return [each for each in candidates if each.end <= anchor.today][-1]
    running = begun[-1].end > anchor.today
    return ahead[0] if anchor.future and not running else begun[-1]


def _nearest(anchor: Anchor, make: Callable[[int], Period]) -> Period:
    """A day and month without a year: the nearest one, as such days are announced as often as they are told."""
    found: list[Period] = []
    for offset in range(-4, 5):
        try:
            found.append(make(anchor.today.year + offset))
        except ValueError:
            continue  # 29 February of a common year
    if anchor.future:
        found = [each for each in found if each.start >= anchor.today] or found
    if not found:
        raise ValueError("no such day")
    return min(found, key=lambda each: abs(each.start - anchor.today))


def _iso(found: re.Match[str], anchor: Anchor) -> Period:
    if found["d"] is None:
        return cal.month(int(found["y"]), int(found["m"]))
    return cal.day(date(int(found["y"]), int(found["m"]), int(found["d"])))


def _numeric(found: re.Match[str], anchor: Anchor) -> Period:
    """Month first, as in the United States, unless only day first is possible or dots are used."""
    first, second = int(found["a"]), int(found["b"])
    month, of_month = (second, first) if found["sep"] == "." or first > 12 else (first, second)
    if found["y"] is None:
        return _nearest(anchor, lambda year: cal.day(date(year, month, of_month)))
    return cal.day(date(year_number(found["y"]), month, of_month))


def _month_day(found: re.Match[str], anchor: Anchor) -> Period:
    number, first = month_number(found["m"]), day_number(found["d"])
    last = day_number(found["to"]) if found["to"] else first

    def make(year: int) -> Period:
        start, end = date(year, number, first), date(year, number, last) + DAY
        return Period(start, end, Precision.DAY)

    if found["y"]:
        return make(year_number(found["y"]))
    if found["which"]:
        return _yearly(anchor, make, found["which"])
    return _nearest(anchor, make)


def _month(found: re.Match[str], anchor: Anchor) -> Period:
    number = month_number(found["m"])
    if found["y"]:
        return cal.month(year_number(found["y"]), number)
    which = found["which"] or ""
    if which in {"last", "past", "this past"}:
        # In June, "last May" is the one just over.
        return _yearly(anchor, lambda year: cal.month(year, number), "last")
    return _yearly(anchor, lambda year: cal.month(year, number), which)


def _season(found: re.Match[str], anchor: Anchor) -> Period:
    if found["y"]:
        return cal.season(found["s"], year_number(found["y"]))
    if found["which"] == "this":
        # The running one, else that of the calendar year.
        before = cal.season(found["s"], anchor.today.year - 1)
        running = before.start <= anchor.today < before.end
        return before if running else cal.season(found["s"], anchor.today.year)
    return _yearly(anchor, lambda year: cal.season(found["s"], year), found["which"] or "")


def _holiday(found: re.Match[str], anchor: Anchor) -> Period:
    name = found["h"]
    if found["y"]:
        named = cal.holiday(name, year_number(found["y"]))
    else:
        named = _yearly(anchor, lambda year: cal.holiday(name, year), found["which"] or "")
    if found["over"]:
        return cal.days(named.start - DAY, named.end + DAY)
    return cal.week_of(named.start) if found["week"] else named


def _relative_day(found: re.Match[str], anchor: Anchor) -> Period:
    word = found["w"]
    shift = 0
    if word.startswith(("yesterday", "last night")):
        shift = -1
    elif word.startswith("tomorrow"):
        shift = 1
    if found["beyond"]:
        shift *= 2
    return cal.day(anchor.today + shift * DAY)


def _weekday(found: re.Match[str], anchor: Anchor) -> Period:
    weekday, which = weekday_number(found["wd"]), found["which"] or ""
    today = anchor.today
    back = (today.weekday() - weekday) % 7
    if which in {"next", "the following"}:
        return cal.day(cal.week_of(today).start + WEEK + weekday * DAY)
    if which in {"this", "coming", "this coming", "upcoming"} or (anchor.future and not which):
        return cal.day(today + (-back % 7) * DAY)
    return cal.day(today - (back or 7) * DAY)


def _span(found: re.Match[str], anchor: Anchor) -> Period:
    """This, last or next week, weekend, month, year or decade."""
    which, unit, today = found["which"], found["u"], anchor.today
    step = 0
    if which in {"last", "past", "previous"} or (which == "this past" and unit != "weekend"):
        step = -1
    elif which in {"next", "coming", "following"}:
        step = 1
    if found["twice"]:
        step = -2 if "last" in found["twice"] else 2
    if unit == "weekend":
        own = cal.weekend_of(today)
        over = which in {"the", "this past"} and step == 0 and own.start > today
        return cal.weekend_of(today - WEEK if over else today + step * WEEK)
    if unit == "week":
        return cal.week_of(today + step * WEEK)
    if unit == "month":
        first = cal.add_months(today, step)
        return cal.month(first.year, first.month)
    if unit == "year":
        return cal.year(today.year + step)
    return cal.decade((today.year // 10 + step) * 10)


def _ago(found: re.Match[str], anchor: Anchor) -> Period:
    back = -1 if found["ago"] else 1
    return shifted(anchor.today, back * count(found["n"]), found["u"])


def shifted(today: date, step: int, unit: str) -> Period:
    """``step`` units from a day, as coarse as the unit. Raises ValueError and OverflowError out of the calendar."""
    if unit == "hour":
        return cal.day(today + timedelta(hours=step) if abs(step) >= 24 else today)
    if unit in {"day", "night"}:
        return cal.day(today + step * DAY)
    if unit in {"week", "fortnight"}:
        middle = today + step * (2 if unit == "fortnight" else 1) * WEEK
        return cal.days(middle - 3 * DAY, middle + 4 * DAY)
    if unit == "month":
        first = cal.add_months(today, step)
        return cal.month(first.year, first.month)
    if unit == "decade":
        middle_year = today.year + 10 * step
        return cal.days(date(middle_year - 2, 1, 1), date(middle_year + 3, 1, 1), Precision.YEAR)
    return cal.year(today.year + step)


def _vague_ago(found: re.Match[str], anchor: Anchor) -> Period:
    least, most = _VAGUE_DAYS.get(found["u"], (0, 1))
    if "couple" in found["n"]:
        middle = {"day": 2, "night": 2, "week": 14, "month": 61, "year": 730}.get(found["u"], 0)
        least, most = middle * 2 // 3, middle * 3 // 2
    precision = {"hour": Precision.DAY, "day": Precision.WEEK, "night": Precision.WEEK, "week": Precision.MONTH}
    coarse = precision.get(found["u"], Precision.YEAR)
    if found["ago"]:
        return cal.days(anchor.today - most * DAY, anchor.today - least * DAY + DAY, coarse)
    return cal.days(anchor.today + least * DAY, anchor.today + most * DAY + DAY, coarse)


def _lately(found: re.Match[str], anchor: Anchor) -> Period:
    """The last few days, the past two weeks: up to and with today."""
    unit_days = {"day": 1, "night": 1, "week": 7, "month": 30, "year": 365}[found["u"]]
    units = 4 if found["vague"] else count(found["n"] or "a")
    coarse = {"day": Precision.WEEK, "night": Precision.WEEK, "week": Precision.MONTH}.get(found["u"], Precision.YEAR)
    return cal.days(anchor.today - units * unit_days * DAY, anchor.today + DAY, coarse)


def _of_month(found: re.Match[str], anchor: Anchor) -> Period:
    """The 8th: the last one begun, or the next."""
    wanted = day_number(found["d"])
    step = 1 if anchor.future else -1
    for months in range(3):
        first = cal.add_months(anchor.today, step * months)
        try:
            moment = date(first.year, first.month, wanted)
        except ValueError:
            continue
        if (moment >= anchor.today) if anchor.future else (moment <= anchor.today):
            return cal.day(moment)
    raise ValueError("no such day")


def _nth(found: re.Match[str], anchor: Anchor) -> Period:
    whole = read(found["of"], anchor)
    if whole is None or whole.precision is not Precision.MONTH:
        raise ValueError("not a month")
    unit = found["u"] if found["u"] in {"week", "weekend"} else list(cal.WEEKDAYS)[weekday_number(found["u"])]
    return cal.nth_part(unit, _ORDINALS[found["nth"]], whole)


def _week_with(found: re.Match[str], anchor: Anchor) -> Period:
    inner = read(found["of"], anchor)
    if inner is None or inner.precision is not Precision.DAY:
        raise ValueError("not a day")
    return cal.week_of(inner.start)


def _range(found: re.Match[str], anchor: Anchor) -> Period:
    to = read(found["to"], anchor)
    if to is None:
        raise ValueError("not a range")
    start = _range_start(found["from"], to, anchor)
    coarse = start.precision if start.end - start.start >= to.end - to.start else to.precision
    return Period(start.start, to.end, coarse)


def _range_start(phrase: str, to: Period, anchor: Anchor) -> Period:
    """The first end: as it stands, else with the year of the other end, or the year before that."""
    for form in (f"{phrase} {to.start.year}", f"{phrase} {to.start.year - 1}", phrase):
        start = read(form, anchor)
        if start is not None and start.start < to.end:
            return start
    raise ValueError("not a range")


_WHICH = r"(?P<which>last|next|this past|this coming|this|past|previous|coming|upcoming)?\s*"
_DAYS = rf"(?P<d>{DAY_NUMBER})(?:\s?(?:-|–|to)\s?(?P<to>{DAY_NUMBER}))?"
_IN_YEAR = rf"(?:,? (?:of |in )?(?P<y>{YEAR}|'\d\d))?"
_PART = r"(?: (?:morning|afternoon|evening|night|noon|lunchtime))?"

Rule = tuple[re.Pattern[str], Callable[[re.Match[str], Anchor], Period]]
RULES: tuple[Rule, ...] = tuple(
    (re.compile(pattern), handler)
    for pattern, handler in (
        (r"(?P<y>\d{4})[-/](?P<m>\d\d?)(?:[-/](?P<d>\d\d?))?", _iso),
        (r"(?P<a>\d\d?)(?P<sep>[/.-])(?P<b>\d\d?)(?:(?P=sep)(?P<y>\d{4}|\d\d))?", _numeric),
        (rf"{_WHICH}(?P<m>{MONTH}) (?:the )?{_DAYS}{_IN_YEAR}{_PART}", _month_day),
        (rf"{_WHICH}{_DAYS} (?:of )?(?P<m>{MONTH}){_IN_YEAR}{_PART}", _month_day),
        (rf"{_WHICH}(?P<m>{MONTH}){_IN_YEAR}", _month),
        (rf"(?P<y>{YEAR})", lambda found, _: cal.year(int(found["y"]))),
        (r"(?P<y>(?:1[5-9]|2[01])\d0)'?s", lambda found, _: cal.decade(int(found["y"]))),
        (r"'?(?P<y>[4-9]0)'?s", lambda found, _: cal.decade(1900 + int(found["y"]))),
        (rf"{_WHICH}(?P<s>{SEASON}){_IN_YEAR}", _season),
        (rf"(?P<over>over )?(?:the )?{_WHICH}(?P<h>{HOLIDAY})(?P<week> week)?{_IN_YEAR}{_PART}", _holiday),
        (
            r"(?P<beyond>(?:the )?day (?:before|after) )?(?P<w>yesterday|today|tomorrow|tonight|last night|this morning"
            r"|this afternoon|this evening|earlier today|later today|right now|just now)(?:'s)?" + _PART,
            _relative_day,
        ),
        (
            r"(?P<which>last|next|this past|this coming|this|past|coming|upcoming|the following)?\s*"
            rf"(?P<wd>{WEEKDAY}){_PART}",
            _weekday,
        ),
        (
            r"(?P<which>last|next|this past|this|the|past|previous|coming|following) "
            r"(?P<u>weekend|week|month|year|decade)"
            r"(?P<twice> before last| after next)?",
            _span,
        ),
        (rf"(?P<n>{COUNT}) (?P<u>{UNIT})s?(?:(?P<ago> ago| back| earlier)| from now| hence)", _ago),
        (rf"(?P<ago>)?in (?P<n>{COUNT}) (?P<u>day|week|fortnight|month|year|decade)s?(?:'s?)?(?: time)?", _ago),
        (rf"(?P<n>{VAGUE}) (?P<u>{UNIT})s?(?P<ago> ago| back)", _vague_ago),
        (rf"(?P<ago>)?in (?P<n>{VAGUE}) (?P<u>{UNIT})s?(?:'?)(?: time)?", _vague_ago),
        (r"the other (?:day|night)", lambda _, anchor: cal.days(anchor.today - WEEK, anchor.today)),
        (
            rf"(?:the )?(?:last|past) (?:(?P<vague>few|couple(?: of)?|several)|(?P<n>{COUNT}))"
            r" (?P<u>day|night|week|month|year)s?",
            _lately,
        ),
        (r"(?:the )?(?P<d>[0-3]?\d(?:st|nd|rd|th))", _of_month),
        (rf"(?:the )?(?P<nth>{'|'.join(_ORDINALS)}) (?P<u>weekend|week|{WEEKDAY}) (?:of|in) (?P<of>.+)", _nth),
        (r"(?:the )?week (?:of|with) (?P<of>.+)", _week_with),
        (r"between (?P<from>.+) and (?P<to>.+)", _range),
        (r"(?:from )?(?P<from>.+) (?:to|until|till|through) (?P<to>.+)", _range),
    )
)
_LEADING = re.compile(
    r"(?:(?:the )?(?:back|sometime|around|about|roughly|exactly|just|only|ever since|since|from|by|until|till|as of"
    r"|starting|on|in|at|during|throughout|early|earlier|late|later|mid|middle of|start of|beginning of|end of|half of"
    r"|for|of|first half of|second half of|over)[ -])+"
)
_LEADING_WEEKDAY = re.compile(rf"{WEEKDAY},?(?: the)? (?=.*(?:\d|{MONTH}))")


def read(phrase: str, anchor: Anchor) -> Period | None:
    """The period that a folded phrase names, or None when no rule reads it.

    The phrase as it is comes first: "in two months" means something else without its "in". Raises NoSuchDayError when
    it is read, but there is no such day.
    """
    stripped = _LEADING.sub("", phrase, count=1) if _LEADING.match(phrase) else phrase
    undayed = _LEADING_WEEKDAY.sub("", stripped, count=1) if _LEADING_WEEKDAY.match(stripped) else stripped
    impossible = False
    for form in dict.fromkeys((phrase, stripped, stripped.removeprefix("the "), undayed)):
        for pattern, handler in RULES:
            found = pattern.fullmatch(form)
            if found is None:
                continue
            try:
                return handler(found, anchor)
            except (ValueError, OverflowError, IndexError, StopIteration):
                impossible = True
    if impossible:
        raise NoSuchDayError(f"no such day: {phrase}")
    return None
