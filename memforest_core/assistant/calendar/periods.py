"""Texts of weeks, months, years and the whole life, each made from the texts of what it consists of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from memforest_core.assistant.calendar.days import LIFE, Days, Span, midnight, month_of, one_day, whole_life, year_of
from memforest_core.assistant.calendar.making import TRIES, Budget, Made, Making
from memforest_core.assistant.calendar.period_texts import DatedText, PeriodCondenser
from memforest_core.assistant.calendar.records import HeldDay, PeriodDigest, SpeakerDigest, StoredDigest
from memforest_core.assistant.calendar.rows import CalendarRows
from memforest_core.assistant.condensing import Condensed
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.periods import DAY
from memforest_core.errors import StoreUnavailable
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.models.calls import CallRecord
from memforest_core.store.engine import Engine
from memforest_core.store.owners import VISIBLE, ForestRef
from memforest_core.store.repeating import repeated

MAX_DAYS = 31
"""Of a month."""
MAX_LIFE_DAYS = 400_000
"""Days of a life that are looked for: more than a thousand years."""


@dataclass(frozen=True, slots=True)
class _Child:
    """A part of a longer time."""

    days: Days
    text: str
    turns: int
    version: UUID | None
    """Of its digest as it is stored; None when it is not."""


@dataclass(slots=True)
class _Work:
    """What one reading did."""

    budget: Budget
    calls: int = 0
    stale: bool = False
    """Something that it read was deleted meanwhile, or somebody else stored a text: it is to be read again."""
    notes: list[str] = field(default_factory=list)
    missing: list[date] = field(default_factory=list)


class Periods:
    """Texts of longer times. Thread-safe."""

    def __init__(self, engine: Engine, condenser: PeriodCondenser, making: Making) -> None:
        self._engine = engine
        self._condenser = condenser
        self._making = making

    def week(self, tenant: TenantId, forest: ForestRef, days: Days) -> PeriodDigest:
        """The text of some days in a row; one statement when it and they are up to date."""
        singles = [one_day(date.fromordinal(each)) for each in range(days.first.toordinal(), days.end.toordinal())]

        def attempt(work: _Work) -> PeriodDigest:
            found = self._held(tenant, forest, [days, *singles])
            own = next(each for each in found if each.days == days)
            said = [each for each in found if each.days.span is Span.DAY and each.turns]
            parts = self._days(tenant, forest, said, work)
            made, _ = self._text(tenant, forest, own, parts, work)
            return _shown(Span.WEEK.value, days, forest, made, parts, work)

        return self._settled(attempt)

    def period(self, tenant: TenantId, forest: ForestRef, days: Days, name: str) -> PeriodDigest:
        """The text of a month, a year or the life."""

        def attempt(work: _Work) -> PeriodDigest:
            (own,) = self._held(tenant, forest, [days])
            parts = self._parts(tenant, forest, days, work)
            made, _ = self._text(tenant, forest, own, parts, work)
            shown = days
            if days.span is Span.LIFE and parts:
                shown = Days(Span.LIFE, parts[-1].days.first, parts[0].days.end)
            return _shown(name, shown, forest, made, parts, work)

        return self._settled(attempt)

    def _settled(self, attempt: Callable[[_Work], PeriodDigest]) -> PeriodDigest:
        """What an attempt shows that found nothing changed in between."""
        calls = 0
        for _ in range(TRIES):
            work = _Work(self._making.budget(), calls)
            shown = attempt(work)
            if not work.stale:
                return shown
            calls = work.calls
        note = "There is no text: its days changed again and again while it was made."
        return replace(shown, text="", source="", model="", made_at=None, degraded=(*shown.degraded, note))

    def _parts(self, tenant: TenantId, forest: ForestRef, days: Days, work: _Work) -> list[_Child]:
        """What a longer time consists of, the newest first."""
        if days.span is Span.MONTH:
            return self._days(tenant, forest, self._of_month(tenant, forest, days), work)
        return [
            part
            for each in self._with_turns(tenant, forest, days, year_of if days.span is Span.LIFE else month_of)
            if (part := self._part(tenant, forest, each, work)).text or part.turns
        ]

    def _part(self, tenant: TenantId, forest: ForestRef, days: Days, work: _Work) -> _Child:
        """A month or a year."""
        (own,) = self._held(tenant, forest, [days])
        parts = self._parts(tenant, forest, days, work)
        made, stored = self._text(tenant, forest, own, parts, work)
        text = "" if made is None else made.texts[0].text
        turns = sum(part.turns for part in parts)
        return _Child(days, text, turns, made.version if made is not None and stored else None)

    def _days(self, tenant: TenantId, forest: ForestRef, held: Sequence[HeldDay], work: _Work) -> list[_Child]:
        """Days with their digests, made where they are due."""
        made = self._making.shown(tenant, forest, held, work.budget)
        for each in made:
            work.calls += each.digest.calls
            work.notes += each.digest.degraded
            if not each.digest.made:
                work.missing.append(each.digest.day)
        return [_child(each) for each in made if each.digest.made]

    def _text(
        self, tenant: TenantId, forest: ForestRef, own: HeldDay, parts: Sequence[_Child], work: _Work
    ) -> tuple[StoredDigest | None, bool]:
        """The text of its parts, None without any, and whether it is stored."""
        digest = _digest(parts)
        whole = not work.missing and all(part.version for part in parts)
        if not parts:
            return None, False
        # A stored text covers nothing that was deleted: it would have been deleted too.
        if own.stored is not None and not (whole and self._making.is_stale(own.stored, digest, own.end)):
            return own.stored, True
        calls: list[CallRecord] = []
        texts = [DatedText(part.days.label, part.text) for part in parts]
        free = whole and not forest.frozen and work.budget.take()
        made = self._condenser.condense(own.days.label, texts, calls, model=free)
        work.calls += len(calls)
        work.notes += [*self._making.recorded(tenant, forest.id, calls), *made.notes]
        stored = _stored_digest(made, parts, digest, self._making)
        by_rules = made.source is SummarySource.EXTRACTIVE and self._condenser.chat is not None
        if not whole or forest.frozen or by_rules:
            if by_rules:
                work.notes.append(f"The text of {own.days.label} was picked by rules: the next readings make it whole.")
            return stored, False
        return stored, self._saved(tenant, forest.id, own, stored, parts, work)

    def _saved(
        self,
        tenant: TenantId,
        forest: ForestId,
        own: HeldDay,
        stored: StoredDigest,
        parts: Sequence[_Child],
        work: _Work,
    ) -> bool:
        try:
            stored_now = self._save(tenant, forest, own, stored, parts)
        except StoreUnavailable:
            work.notes.append("The text could not be stored: Postgres was busy or unavailable.")
            return False
        work.stale = work.stale or not stored_now
        return stored_now

    def _save(
        self, tenant: TenantId, forest: ForestId, own: HeldDay, stored: StoredDigest, parts: Sequence[_Child]
    ) -> bool:
        """Keep a text if what it was made from is all there, and nobody stored another one meanwhile."""
        with CalendarRows.opened(self._engine, tenant) as rows:
            rows.hurried()
            if rows.lock_forest(forest) not in VISIBLE:
                return False
            if not rows.all_there(forest, [part.version for part in parts if part.version]):
                return False
            return rows.store(forest, own, stored)

    @repeated
    def _held(self, tenant: TenantId, forest: ForestRef, wanted: Sequence[Days]) -> list[HeldDay]:
        with CalendarRows.opened(self._engine, tenant) as rows:
            return rows.held(forest.id, wanted, ZoneInfo(forest.time_zone))

    @repeated
    def _of_month(self, tenant: TenantId, forest: ForestRef, days: Days) -> list[HeldDay]:
        with CalendarRows.opened(self._engine, tenant) as rows:
            return days_with_turns(rows, forest, None, MAX_DAYS, days)[0]

    @repeated
    def _with_turns(self, tenant: TenantId, forest: ForestRef, days: Days, whole: Callable[[date], Days]) -> list[Days]:
        """The months or years that have turns, the newest first; one at an edge may have none."""
        zone = ZoneInfo(forest.time_zone)
        start, end = days.moments(zone)
        with CalendarRows.opened(self._engine, tenant) as rows:
            utc = rows.utc_days(forest.id, start, end, MAX_LIFE_DAYS)
        local = {day for each in utc for day in local_days(each, zone) if days.first <= day < days.end}
        found = {(each := whole(day)).first: each for day in local}
        return [found[first] for first in sorted(found, reverse=True)]


def _child(made: Made) -> _Child:
    return _Child(
        one_day(made.digest.day),
        made.digest.text,
        made.digest.turns,
        None if made.stored is None else made.stored.version,
    )


def _digest(parts: Sequence[_Child]) -> bytes:
    return hashlib.sha256(b"".join(part.version.bytes for part in parts if part.version)).digest()


def _stored_digest(made: Condensed[str], parts: Sequence[_Child], digest: bytes, making: Making) -> StoredDigest:
    turns = sum(part.turns for part in parts)
    return StoredDigest(
        texts=(SpeakerDigest("", "", made.text, turns),),
        sources=(),
        days=tuple(part.days.first for part in parts),
        turns=turns,
        left_out=0,
        source=made.source,
        model=made.model,
        input_hash=digest,
        version=uuid4(),
        made_at=making.now(),
    )


def _shown(
    name: str,
    days: Days,
    forest: ForestRef,
    made: StoredDigest | None,
    parts: Sequence[_Child],
    work: _Work,
) -> PeriodDigest:
    return PeriodDigest(
        period=name,
        first=None if name == LIFE and not parts else days.first,
        last=None if name == LIFE and not parts else days.end - DAY,
        time_zone=forest.time_zone,
        text="" if made is None else made.texts[0].text,
        days=() if made is None else made.days,
        turns=0 if made is None else made.turns,
        source="" if made is None else made.source.value,
        model="" if made is None else made.model,
        made_at=None if made is None else made.made_at,
        missing=tuple(work.missing),
        degraded=tuple(dict.fromkeys(work.notes)),
        calls=work.calls,
    )


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
