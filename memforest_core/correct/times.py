"""Times as people give them in a correction: a year, a month, a day or a moment, never more precise than said."""

from __future__ import annotations

import re
from datetime import timedelta
from zoneinfo import ZoneInfo

from memforest_core.domain.times import Precision, TimeSpan
from memforest_core.domain.turns import parse_timestamp
from memforest_core.errors import InvalidInput

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_COARSE_FIRST = (Precision.YEAR, Precision.MONTH, Precision.WEEK, Precision.DAY, Precision.MINUTE)


def corrected_time(old: TimeSpan, start: object | None, end: object | None, zone: ZoneInfo) -> TimeSpan:
    """The span from ``start`` to the end of ``end``, as coarse as the coarser of both.

    A start alone is all of its day, month or year, or a moment; an end alone ends the old span. Each is ISO text (a
    date may lack its day or month), a datetime or unix seconds; naive ones are read in ``zone``. Raises InvalidInput.
    """
    if start is None and end is None:
        return old
    first = old if start is None else _span(start, zone, "start")
    if end is None:
        return first
    last = _span(end, zone, "end")
    if first.start is None or last.end is None:
        raise InvalidInput("It is not known when this began: give start too.", code="missing_start")
    if last.end < first.start:
        raise InvalidInput("Set end to a time that is not before start.", code="invalid_range")
    return TimeSpan(first.start, last.end, min(first.precision, last.precision, key=_COARSE_FIRST.index))


def _span(given: object, zone: ZoneInfo, where: str) -> TimeSpan:
    """The whole day, month or year that a date names, or one moment."""
    date = _DATE.fullmatch(given.strip()) if isinstance(given, str) else None
    if date is None:
        moment = parse_timestamp(given, zone, where)
        return TimeSpan(moment, moment, Precision.MINUTE)
    year, month, day = date.groups()
    first = parse_timestamp(f"{year}-{month or '01'}-{day or '01'}", zone, where)
    local = first.astimezone(zone).replace(fold=0)
    if day is not None:
        after, precision = local + timedelta(days=1), Precision.DAY
    elif month is not None:
        after, precision = (local + timedelta(days=31)).replace(day=1), Precision.MONTH
    else:
        after, precision = local.replace(year=local.year + 1), Precision.YEAR
    # Days of another length included: the local midnight, not so many hours later.
    return TimeSpan(first, parse_timestamp(after, zone, where), precision)
