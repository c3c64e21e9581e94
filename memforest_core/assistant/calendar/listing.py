"""Which days have turns: days of UTC are read from cells' times, and looked at as days of the owner's zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from memforest_core.assistant.calendar.days import Days, midnight, one_day, whole_life
from memforest_core.assistant.calendar.records import HeldDay
from memforest_core.assistant.calendar.rows import CalendarRows
from memforest_core.store.owners import ForestRef

MAX_ROUNDS = 50
"""Queries for one page; a page may be short when so many days in a row have only deleted turns."""


def days_with_turns(
    rows: CalendarRows, forest: ForestRef, before: date | None, limit: int, within: Days | None = None
) -> tuple[list[HeldDay], date | None]:
    """The newest days before a day that have turns, at most ``limit``, and where to go on (None: nowhere)."""
    zone, bounds = ZoneInfo(forest.time_zone), within or whole_life()
    start, end = bounds.moments(zone)
    found: list[HeldDay] = []
    before = bounds.end if before is None else min(before, bounds.end)
    for _ in range(MAX_ROUNDS):
        # Two days of UTC may lie in one local day.
        most = 2 * (limit - len(found)) + 3
        utc = rows.utc_days(forest.id, start, min(end, midnight(before, zone)), most)
        local = sorted({day for each in utc for day in local_days(each, zone) if bounds.first <= day < before})[::-1]
        found += [each for each in rows.held(forest.id, [one_day(day) for day in local], zone) if each.turns]
        if len(found) > limit:
            return found[:limit], found[limit - 1].days.first
        if len(utc) < most or not local:
            return found, None
        before = local[-1]
    return found, before


def local_days(utc: date, zone: ZoneInfo) -> tuple[date, date]:
    """The days of a zone that a day of UTC lies in: that of its first, and that of its last moment."""
    first = datetime.combine(utc, time.min, UTC)
    last = datetime.combine(utc, time.max, UTC)
    return first.astimezone(zone).date(), last.astimezone(zone).date()
