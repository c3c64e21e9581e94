"""Distances between dates in words, exact to the calendar, so that readers need not compute them.

Nothing is said more finely than the dates were: a month is so many months off, never days. Days are those of a
time zone's calendar, so that a change of clocks adds or takes none.
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta, tzinfo

from memforest_core.domain.dates import find_date_phrases, resolve
from memforest_core.domain.indexed import day_words
from memforest_core.domain.times import Precision, TimeSpan

MAX_CHARS = 8_192
"""Only the beginning of a longer text is searched for date phrases."""
MAX_PHRASES = 8

_INSTANT = timedelta(microseconds=1)
_UNITS = {Precision.YEAR: "year", Precision.MONTH: "month", Precision.WEEK: "week"}


def counted(number: int, unit: str) -> str:
    """A number with its unit, such as "1 day", "2 days"."""
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def joined(parts: list[str]) -> str:
    """Parts as one enumeration: "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def months_later(day: date, months: int) -> date:
    """The same day so many months later, or the last day of a month that is too short. Raises OverflowError."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if year > date.max.year:
        raise OverflowError("there is no such year")
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def distance(first: date, last: date) -> tuple[int, int, int]:
    """From one day to a later one: whole years, then whole months (0 to 11), as many as fit, and the days that are
    left; none is negative. Raises ValueError for an earlier one."""
    if last < first:
        raise ValueError("a distance is measured from the earlier day")
    months = (last.year - first.year) * 12 + last.month - first.month
    if last.day < first.day and months_later(first, months) > last:
        months -= 1
    return months // 12, months % 12, (last - months_later(first, months)).days


def days_in_words(first: date, last: date) -> str:
    """A number of days, and the same in larger units: "24 days (3 weeks and 3 days)". Raises as ``distance``."""
    parts = distance(first, last)
    days = (last - first).days
    if any(parts[:2]):
        units = zip(parts, ("year", "month", "day"), strict=True)
        return f"{counted(days, 'day')} ({joined([counted(number, unit) for number, unit in units if number])})"
    weeks, left = divmod(days, 7)
    if not weeks:
        return counted(days, "day")
    return f"{counted(days, 'day')} ({joined([counted(weeks, 'week'), *([counted(left, 'day')] if left else [])])})"


def before_question(span: TimeSpan, asked_at: datetime) -> str:
    """Where a span lies, seen from ``asked_at`` in the asker's zone: "2 months before the question"; empty for an
    unknown time. Raises ValueError for a naive one."""
    if asked_at.tzinfo is None:
        raise ValueError("asked_at is an aware datetime")
    days = _days(span, asked_at.tzinfo)
    if days is None or span.start is None:
        return ""
    first, last = days
    today, unit = asked_at.date(), _UNITS.get(span.precision, "day")
    far, near = _index(today, unit) - _index(first, unit), _index(today, unit) - _index(last, unit)
    if near <= 0 <= far:
        if near < far:
            return f"a time that includes the {unit} of the question"
        if span.precision is Precision.MINUTE:
            return f"on the day of the question{_hours(span.start, asked_at)}"
        return f"{'on' if unit == 'day' else 'in'} the {unit} of the question"
    side = "before" if near > 0 else "after"
    begins, ends = _amount(first, today, unit), _amount(last, today, unit)
    amount = begins if far == near else f"from {begins} to {ends}"
    return f"{amount} {side} the question"


def distance_words(earlier: TimeSpan, later: TimeSpan, zone: tzinfo) -> str:
    """How long from one date to a later one, at the coarser precision of both; empty when they do not differ, when one
    is unknown or ``later`` comes first."""
    one, other = _days(earlier, zone), _days(later, zone)
    if one is None or other is None:
        return ""
    coarser = min(earlier.precision, later.precision, key=list(Precision).index)
    unit = _UNITS.get(coarser, "day")
    steps = _index(other[0], unit) - _index(one[0], unit)
    if steps <= 0:
        return ""
    return days_in_words(one[0], other[0]) if unit == "day" else f"about {counted(steps, unit)}"


def span_words(span: TimeSpan, zone: tzinfo) -> str:
    """A span as people write it, with both ends when it has more than one unit; empty for an unknown time."""
    days = _days(span, zone)
    if days is None:
        return ""
    first, last = days
    unit = _UNITS.get(span.precision, "day")
    if unit == "week":
        return f"{day_words(_midnight(first))} to {day_words(_midnight(last))}"
    ends = [_named(day, unit) for day in ((first,) if _index(first, unit) == _index(last, unit) else (first, last))]
    return " to ".join(ends)


def phrases_resolved(text: str, said_at: datetime, time_zone: str) -> dict[str, TimeSpan]:
    """What the date phrases of a text mean, counted from ``said_at`` (aware) in an IANA ``time_zone``; those that can
    be read two ways are left out."""
    found: dict[str, TimeSpan] = {}
    for phrase in dict.fromkeys(find_date_phrases(text[:MAX_CHARS])):
        back = resolve(phrase, said_at, time_zone, ())
        # "In May" is the last or the next one: only the sentence around it shows which.
        if back.known and back == resolve(phrase, said_at, time_zone, (), future=True):
            found[phrase] = back
        if len(found) == MAX_PHRASES:
            break
    return found


def _days(span: TimeSpan, zone: tzinfo) -> tuple[date, date] | None:
    """The first and the last day of a span in a zone."""
    if span.start is None or span.end is None:
        return None
    last = max(span.start, span.end - _INSTANT)
    return span.start.astimezone(zone).date(), last.astimezone(zone).date()


def _index(day: date, unit: str) -> int:
    """The number of the year, month, week (from Monday) or day that a day lies in."""
    match unit:
        case "year":
            return day.year
        case "month":
            return day.year * 12 + day.month
        case "week":
            return (day.toordinal() - 1) // 7
        case _:
            return day.toordinal()


def _amount(day: date, today: date, unit: str) -> str:
    if unit == "day":
        return days_in_words(min(day, today), max(day, today))
    return counted(abs(_index(today, unit) - _index(day, unit)), unit)


def _hours(moment: datetime, asked_at: datetime) -> str:
    """How many hours or minutes lie between two moments of one day, as they passed."""
    # Subtracting datetimes of one zone would count by its clock, which is put forward and back.
    passed = asked_at.timestamp() - moment.timestamp()
    side = "before" if passed >= 0 else "after"
    minutes = int(abs(passed) // 60)
    if not minutes:
        return ""
    return f", {counted(minutes // 60, 'hour') if minutes >= 60 else counted(minutes, 'minute')} {side} it"


def _named(day: date, unit: str) -> str:
    match unit:
        case "year":
            return f"{day.year}"
        case "month":
            return f"{day:%B} {day.year}"
        case _:
            return day_words(_midnight(day))


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
