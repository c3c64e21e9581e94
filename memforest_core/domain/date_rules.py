"""Rules that read an English date phrase against a day: deterministic, one meaning each."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import NamedTuple

from memforest_core.domain import periods as cal
from memforest_core.domain.periods import DAY, WEEK, Period
from memforest_core.domain.times import Precision

_N, _U, _SHORT, _VAGUE = cal.COUNT, cal.UNIT, cal.SHORT, cal.VAGUE
_DAY_NUMBER, _WEEKDAY_NAME, _MONTH_NAME, _YEAR = cal.DAY_NUMBER, cal.WEEKDAY, cal.MONTH, rf"{cal.YEAR}|'\d\d"
_NTH = r"first|1st|second|2nd|third|3rd|fourth|4th|last"
_HALF_DAYS = {"week": 3, "fortnight": 7, "month": 15, "year": 183, "decade": 1826}
"""Half of each unit, in days."""
_VAGUE_DAYS = {"day": (1, 7), "night": (1, 7), "week": (14, 42), "month": (60, 210), "year": (730, 2190)}
"""How many days ago "a few" units ago lies, at least and at most."""


class NoSuchDayError(ValueError):
    """A phrase has the form of a date that no calendar has, such as 30 February."""


class Anchor(NamedTuple):
    """When a phrase was said by the sender's clock, and whether an open date lies ahead; None when nobody says."""

    now: datetime
    """Without a zone."""
    future: bool | None

    @property
    def today(self) -> date:
        """The day it was said."""
        return self.now.date()


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
    """A day and month without a year: the nearest one, as such days are announced as often as they are reported."""
    found: list[Period] = []
    for offset in range(-4, 5):
        try:
            found.append(make(anchor.today.year + offset))
        except ValueError:
            continue  # 29 February of a common year
    if anchor.future:
        found = [each for each in found if each.start >= anchor.today] or found
    elif anchor.future is False:
        found = [each for each in found if each.start <= anchor.today] or found
    if not found:
        raise ValueError("no such day")
    return min(found, key=lambda each: abs(each.start - anchor.today))


def _month_of_year(found: re.Match[str], anchor: Anchor) -> Period:
    return cal.month(int(found["y"]), int(found["m"]))


def _numeric(found: re.Match[str], anchor: Anchor) -> Period:
    """Month first, as in the United States, unless only day first is possible or dots are used."""
    first, second = int(found["a"]), int(found["b"])
    month, of_month = (second, first) if found["sep"] == "." or first > 12 else (first, second)
    if found["y"] is None:
        return _nearest(anchor, lambda year: cal.day(date(year, month, of_month)))
    return cal.day(date(cal.year_number(found["y"]), month, of_month))


def _month_day(found: re.Match[str], anchor: Anchor) -> Period:
    number, first = cal.month_number(found["m"]), cal.day_number(found["d"])
    last = cal.day_number(found["to"]) if found["to"] else first

    def make(year: int) -> Period:
        start, end = date(year, number, first), date(year, number, last) + DAY
        return Period(start, end, Precision.DAY)

    if found["y"]:
        return make(cal.year_number(found["y"]))
    if found["which"]:
        return _yearly(anchor, make, found["which"])
    return _nearest(anchor, make)


def _month(found: re.Match[str], anchor: Anchor) -> Period:
    number = cal.month_number(found["m"])
    if found["y"]:
        return cal.month(cal.year_number(found["y"]), number)
    which = found["which"] or ""
    if which in {"last", "past", "this past"}:
        # In June, "last May" is the one just over.
        return _yearly(anchor, lambda year: cal.month(year, number), "last")
    return _yearly(anchor, lambda year: cal.month(year, number), which)


def _season(found: re.Match[str], anchor: Anchor) -> Period:
    if found["y"]:
        return cal.season(found["s"], cal.year_number(found["y"]))
    if found["which"] == "this":
        # The running one, else that of the calendar year.
        before = cal.season(found["s"], anchor.today.year - 1)
        running = before.start <= anchor.today < before.end
        return before if running else cal.season(found["s"], anchor.today.year)
    return _yearly(anchor, lambda year: cal.season(found["s"], year), found["which"] or "")


def _holiday(found: re.Match[str], anchor: Anchor) -> Period:
    name = found["h"]
    if found["y"]:
        named = cal.holiday(name, cal.year_number(found["y"]))
    else:
        named = _yearly(anchor, lambda year: cal.holiday(name, year), found["which"] or "")
    if found["over"]:
        return cal.days(named.start - DAY, named.end + DAY)
    return cal.week_of(named.start) if found["week"] else named


def _relative_day(found: re.Match[str], anchor: Anchor) -> Period:
    shifts = {"yesterday": -1, "last night": -1, "the night before last": -2, "tomorrow": 1}
    shift = shifts.get(found["w"], 0) * (2 if found["beyond"] else 1)
    return cal.day(anchor.today + shift * DAY)


def _weekday(found: re.Match[str], anchor: Anchor) -> Period:
    weekday, which = cal.weekday_number(found["wd"]), found["which"] or ""
    today = anchor.today
    back = (today.weekday() - weekday) % 7
    if which in {"next", "the following"}:
        return cal.day(cal.week_of(today).start + WEEK + weekday * DAY)
    if which in {"this", "coming", "this coming", "upcoming"} or (anchor.future and not which and not found["twice"]):
        return cal.day(today + (-back % 7) * DAY)
    return cal.day(today - (back or 7) * DAY - (7 if found["twice"] else 0) * DAY)


def _part(phrase: str, anchor: Anchor, precision: Precision | None = None) -> Period:
    """What a part of a phrase names. Raises ValueError when that is nothing, or not with this precision."""
    found = read(phrase, anchor)
    if found is None or precision not in (None, found.precision):
        raise ValueError("not such a date")
    return found


def _within(found: re.Match[str], anchor: Anchor) -> Period:
    """A weekday of a week, or a day of a month: "Friday next week", "the 3rd of next month"."""
    first = _part(found["of"], anchor).start
    weekday = found["wd"]
    return cal.day(
        first + cal.weekday_number(weekday) * DAY if weekday else first.replace(day=cal.day_number(found["d"]))
    )


def _span(found: re.Match[str], anchor: Anchor) -> Period:
    """This, last or next week, weekend, month, year or decade."""
    which, unit, today = found["which"], found["u"], anchor.today
    step = 0
    if which in {"last", "past", "previous"} or (which == "this past" and unit != "weekend"):
        step = -1
    elif which in {"next", "coming", "following"} or (which == "this coming" and unit != "weekend"):
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
    half = _HALF_DAYS.get(found["u"], 0) if found["half"] or found["more"] else 0
    return _shifted(anchor.today + back * half * DAY, back * cal.count(found["n"]), found["u"])


def _exactly(found: re.Match[str], anchor: Anchor) -> Period:
    """So many days, weeks or years from a named day: "a week ago today", "two weeks from Monday"."""
    first = _part(found["of"], anchor._replace(future=not found["ago"])).start
    step = (-1 if found["ago"] else 1) * cal.count(found["n"])
    days = {"day": 1, "week": 7, "fortnight": 14}.get(found["u"])
    return cal.day(first + step * days * DAY if days else first.replace(year=first.year + step))


def _hours(found: re.Match[str], anchor: Anchor) -> Period:
    """So many hours or minutes from now: the day that it was then by the sender's clock."""
    named, half = found["n"], found["half"] or found["more"] or found["n"].startswith("half")
    exact = re.fullmatch(cal.COUNT, named)
    number = cal.count(named) if exact else 0 if half else 2 if "couple" in named else 3
    step = timedelta(seconds=(number + bool(half) / 2) * cal.SHORT_UNITS[found["u"]])
    return cal.day((anchor.now - step if found["ago"] else anchor.now + step).date())


def _shifted(today: date, step: int, unit: str) -> Period:
    """``step`` units from a day, as coarse as the unit. Raises ValueError and OverflowError out of the calendar."""
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
    precision = {"day": Precision.WEEK, "night": Precision.WEEK, "week": Precision.MONTH}
    coarse = precision.get(found["u"], Precision.YEAR)
    if found["ago"]:
        return cal.days(anchor.today - most * DAY, anchor.today - least * DAY + DAY, coarse)
    return cal.days(anchor.today + least * DAY, anchor.today + most * DAY + DAY, coarse)


def _lately(found: re.Match[str], anchor: Anchor) -> Period:
    """The last few days, the past two weeks: up to and with today."""
    unit_days = {"day": 1, "night": 1, "week": 7, "month": 30, "year": 365}[found["u"]]
    units = 4 if found["vague"] else cal.count(found["n"] or "a")
    coarse = {"day": Precision.WEEK, "night": Precision.WEEK, "week": Precision.MONTH}.get(found["u"], Precision.YEAR)
    return cal.days(anchor.today - units * unit_days * DAY, anchor.today + DAY, coarse)


def _of_month(found: re.Match[str], anchor: Anchor) -> Period:
    """The 8th: the last one begun, or the next."""
    wanted = cal.day_number(found["d"])
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
    whole = _part(found["of"], anchor, Precision.MONTH)
    unit = found["u"] if found["u"] in {"week", "weekend"} else list(cal.WEEKDAYS)[cal.weekday_number(found["u"])]
    return cal.nth_part(unit, -1 if found["nth"] == "last" else cal.day_number(found["nth"]), whole)


def _range(found: re.Match[str], anchor: Anchor) -> Period:
    to = _part(found["to"], anchor)
    start = _range_start(found["from"], to, anchor)
    coarse = start.precision if start.end - start.start >= to.end - to.start else to.precision
    return Period(start.start, to.end, coarse)


def _range_start(phrase: str, to: Period, anchor: Anchor) -> Period:
    """The first end: with the year of the other end or the year before that, else as it is, the last one before it."""
    ending = anchor._replace(now=datetime.combine(to.start, datetime.min.time()), future=False)
    years = (f"{phrase} {to.start.year}", f"{phrase} {to.start.year - 1}")
    for form, since in ((years[0], anchor), (years[1], anchor), (phrase, anchor), (phrase, ending)):
        start = read(form, since)
        if start is not None and start.start < to.end:
            return start
    raise ValueError("not a range")


_WHICH = r"(?P<which>last|next|this past|this coming|this|past|previous|coming|upcoming)?\s*"
_DAYS = rf"(?P<d>{_DAY_NUMBER})(?:\s?(?:-|–|to|and|until)\s?(?:the )?(?P<to>{_DAY_NUMBER}))?"
_IN_YEAR = rf"(?:,?[ -](?:of |in )?(?P<y>{_YEAR}))?"
_HALF = r"(?P<half> and a half)?"
_IN = r"(?P<in>in )?"
_FAR = r"(?(in)(?:'s?)?(?: time)?|(?:(?P<ago> ago| back| earlier)| from now| hence))"
_MORE = _HALF.replace("half>", "more>")
_PART = r"(?: (?:morning|afternoon|evening|night|noon|lunchtime))?"

Rule = tuple[re.Pattern[str], Callable[[re.Match[str], Anchor], Period]]
RULES: tuple[Rule, ...] = tuple(
    (re.compile(pattern), handler)
    for pattern, handler in (
        (
            r"(?P<y>\d{4})(?P<sep>[-/.])(?P<m>\d\d?)(?P=sep)(?P<d>\d\d?)",
            lambda found, _: cal.day(date(int(found["y"]), int(found["m"]), int(found["d"]))),
        ),
        (r"(?P<y>\d{4})[-/](?P<m>\d\d?)", _month_of_year),
        (r"(?P<m>\d\d?)/(?P<y>\d{4})", _month_of_year),
        (r"(?P<a>\d\d?)(?P<sep>[/.-])(?P<b>\d\d?)(?:(?P=sep)(?P<y>\d{4}|\d\d))?", _numeric),
        (rf"{_WHICH}(?P<m>{_MONTH_NAME}) (?:the )?{_DAYS}{_IN_YEAR}{_PART}", _month_day),
        (
            rf"(?:(?:from|between) )?(?:the )?{_WHICH}{_DAYS}[ -](?:of )?(?P<m>{_MONTH_NAME}){_IN_YEAR}{_PART}",
            _month_day,
        ),
        (rf"{_WHICH}(?P<m>{_MONTH_NAME}){_IN_YEAR}", _month),
        (rf"(?P<y>{_YEAR})", lambda found, _: cal.year(cal.year_number(found["y"]))),
        (r"(?P<y>(?:1[5-9]|2[01])\d0)'?s", lambda found, _: cal.decade(int(found["y"]))),
        (r"'?(?P<y>[4-9]0)'?s", lambda found, _: cal.decade(1900 + int(found["y"]))),
        (rf"{_WHICH}(?P<s>{cal.SEASON}){_IN_YEAR}", _season),
        (rf"(?P<over>over )?(?:the )?{_WHICH}(?P<h>{cal.HOLIDAY})(?P<week> week)?{_IN_YEAR}{_PART}", _holiday),
        (
            r"(?P<beyond>(?:the )?day (?:before|after) )?(?P<w>yesterday|today|tomorrow|tonight|last night|this morning"
            r"|this afternoon|this evening|earlier today|later today|right now|just now|the night before last)(?:'s)?"
            + _PART,
            _relative_day,
        ),
        (
            r"(?P<which>last|next|this past|this coming|this|past|coming|upcoming|the following)?\s*"
            rf"(?:the )?(?P<wd>{_WEEKDAY_NAME})(?P<twice> before last)?{_PART}",
            _weekday,
        ),
        (
            rf"(?:(?P<wd>{_WEEKDAY_NAME})(?: of|,)?|(?P<d>{_DAY_NUMBER}) of)"
            r" (?P<of>(?:last|this|next|the) (?(wd)week|month))",
            _within,
        ),
        (rf"(?P<of>(?:last|this|next) week),?(?: on)? (?P<wd>{_WEEKDAY_NAME})", _within),
        (
            r"(?P<which>last|next|this past|this coming|this|the|past|previous|coming|following) "
            r"(?P<u>weekend|week|month|year|decade)"
            r"(?P<twice> before last| after next)?",
            _span,
        ),
        (rf"{_IN}(?P<n>half an?|{_N}|{_VAGUE}){_HALF} (?P<u>{_SHORT})s?{_MORE}{_FAR}", _hours),
        (rf"{_IN}(?P<n>{_N}){_HALF} (?P<u>{_U})s?{_MORE}{_FAR}", _ago),
        (
            rf"(?P<n>{_N}) (?P<u>day|week|fortnight|year)s?(?: from|(?P<ago> ago)(?: on)?)"
            rf" (?P<of>today|yesterday|tomorrow|{_WEEKDAY_NAME})",
            _exactly,
        ),
        (rf"{_IN}(?P<n>{_VAGUE}) (?P<u>{_U})s?{_FAR}", _vague_ago),
        (r"the other (?:day|night)", lambda _, anchor: cal.days(anchor.today - WEEK, anchor.today)),
        (
            rf"(?:the )?(?:last|past) (?:(?P<vague>few|couple(?: of)?|several)|(?P<n>{_N}))"
            r" (?P<u>day|night|week|month|year)s?",
            _lately,
        ),
        (r"(?:the )?(?P<d>[0-3]?\d(?:st|nd|rd|th))", _of_month),
        (rf"(?:the )?(?P<nth>{_NTH}) (?P<u>weekend|week|{_WEEKDAY_NAME}) (?:of|in) (?P<of>.+)", _nth),
        (
            r"(?:the )?week (?:of|with) (?P<of>.+)",
            lambda found, at: cal.week_of(_part(found["of"], at, Precision.DAY).start),
        ),
        (rf"(?P<from>{cal.YEAR})\s?[-–]\s?(?P<to>{cal.YEAR})", _range),
        (r"between (?P<from>.+) and (?P<to>.+)", _range),
        (r"(?:from )?(?P<from>.+) (?:to|until|till|through) (?P<to>.+)", _range),
    )
)
_LEADING = re.compile(
    r"(?:(?:the )?(?:back|sometime|around|about|roughly|exactly|just|only|ever since|since|from|by|until|till|as of"
    r"|starting|on|in|at|during|throughout|early|earlier|late|later|mid|middle of|start of|beginning of|end of|half of"
    r"|for|of|first half of|second half of|over)[ -])+"
)
_LEADING_WEEKDAY = re.compile(rf"{_WEEKDAY_NAME},?(?: the)? (?!\d{{4}}$)(?=.*(?:\d|{_MONTH_NAME}))")


def read(phrase: str, anchor: Anchor) -> Period | None:
    """The period that a folded phrase names, first as it is: "in two months" means something else without its "in".
    None when no rule reads it. Raises NoSuchDayError when there is no such day."""
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
