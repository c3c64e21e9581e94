"""Makes digests of days that are missing or out of date: load, compute with nothing locked, store what is still
true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4
from zoneinfo import ZoneInfo

from memforest_core.assistant.calendar.digesting import MAX_TURNS, Digester
from memforest_core.assistant.calendar.records import DayDigest, HeldDay, LoadedDay, SpeakerDigest, StoredDigest
from memforest_core.assistant.calendar.rows import CalendarRows
from memforest_core.assistant.condensing import MAX_TEXT_CHARS, Condensed
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import StoreUnavailable
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.models.calls import CallRecord
from memforest_core.settings import CalendarSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import VISIBLE, ForestRef
from memforest_core.store.repeating import repeated
from memforest_core.work.telemetry import Telemetry

TRIES = 3
"""How often a day is read again because somebody else stored a digest, or a turn came or went, meanwhile."""


@dataclass(frozen=True, slots=True)
class Made:
    """A day's digest, and how it is stored (None: it is not)."""

    digest: DayDigest
    stored: StoredDigest | None


@dataclass(slots=True)
class Budget:
    """How many digests one reading may make still."""

    left: int

    def take(self) -> bool:
        """Whether there is one left, which is used now."""
        self.left -= 1
        return self.left >= 0


@dataclass(slots=True)
class _Work:
    """What one reading of one day did."""

    calls: list[CallRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Making:
    """Digests of days. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        settings: CalendarSettings,
        digester: Digester,
        now: Callable[[], datetime],
        telemetry: Telemetry,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._digester = digester
        self._now = now
        self._telemetry = telemetry

    def shown(
        self,
        tenant: TenantId,
        forest: ForestRef,
        held: Sequence[HeldDay],
        budget: Budget | None = None,
        *,
        force: bool = False,
    ) -> list[Made]:
        """The digests of days; those that are due are made now, as the ``budget`` allows (``calendar.at_once`` unless
        given), in the order given."""
        budget, shown = budget or self.budget(), []
        for each in held:
            if each.turns and (force or self._due(each)) and budget.take():
                shown.append(self._renewed(tenant, forest, each, force=force))
            else:
                shown.append(Made(_digest(each, forest), each.stored if each.turns else None))
        return shown

    def budget(self) -> Budget:
        """What one reading may make."""
        return Budget(self._settings.at_once)

    def now(self) -> datetime:
        """The current timestamp."""
        return self._now()

    def is_stale(self, stored: StoredDigest, digest: bytes, end: datetime) -> bool:
        """Whether a digest's turns have changed since, or rules replaced a model, and it may be made
        again; ``end`` is when its time is over."""
        now, without_model = self._now(), stored.source is SummarySource.DEGRADED
        if self._digester.chat is not None:
            without_model = without_model or stored.source is SummarySource.EXTRACTIVE
        if stored.input_hash == digest and not without_model:
            return False
        over_since = stored.made_at < end <= now
        return over_since or now - stored.made_at >= timedelta(seconds=self._settings.today_s)

    def recorded(self, tenant: TenantId, forest: ForestId, calls: Sequence[CallRecord]) -> list[str]:
        """Keep what calls cost; a sentence when that could not be stored."""
        if not calls:
            return []
        self._telemetry.called(tenant, calls)
        try:
            self._record(tenant, forest, calls)
        except StoreUnavailable:
            # The text is there and paid for; losing it as well would help nobody.
            return ["What the digest cost could not be recorded: Postgres was unavailable."]
        return []

    def _due(self, held: HeldDay) -> bool:
        return held.stored is None or self.is_stale(held.stored, held.digest, held.end)

    def _renewed(self, tenant: TenantId, forest: ForestRef, held: HeldDay, *, force: bool) -> Made:
        work = _Work()
        for tries in range(TRIES):
            loaded = self._load(tenant, forest, held)
            held = loaded.held
            if not held.turns or not (self._due(held) or (force and not tries)):
                return Made(_digest(held, forest, work), held.stored if held.turns else None)
            stored = _stored_digest(loaded, self._made(tenant, forest, loaded, work), self._now())
            if forest.frozen:
                return Made(_shown(held, stored, forest, work), None)
            saved = self._saved(tenant, forest, loaded, stored, work)
            if saved is not False:
                return Made(_shown(held, stored, forest, work), stored if saved else None)
        work.notes.append(f"The digest of {held.days.first} is missing: its turns were deleted again and again.")
        return Made(_digest(replace(held, stored=None), forest, work), None)

    @repeated
    def _load(self, tenant: TenantId, forest: ForestRef, held: HeldDay) -> LoadedDay:
        with CalendarRows.opened(self._engine, tenant) as rows:
            (now,) = rows.held(forest.id, [held.days], ZoneInfo(forest.time_zone))
            words, sources = rows.words(forest.id, now.start, now.end)
            turns = rows.turns(forest.id, now.start, now.end, MAX_TURNS, MAX_TEXT_CHARS)
        return LoadedDay(now, words, sources, turns)

    def _made(
        self, tenant: TenantId, forest: ForestRef, loaded: LoadedDay, work: _Work
    ) -> Condensed[tuple[SpeakerDigest, ...]]:
        if forest.frozen:
            work.notes.append("The memory is being merged into another: rules picked, and nothing is stored.")
            return self._digester.by_rules(loaded.turns, loaded.held.turns)
        own: list[CallRecord] = []
        zone = ZoneInfo(forest.time_zone)
        made = self._digester.digest(loaded.held.days, zone, loaded.turns, loaded.held.turns, own)
        work.notes += [*self.recorded(tenant, forest.id, own), *made.notes]
        work.calls += own
        return made

    @repeated
    def _record(self, tenant: TenantId, forest: ForestId, calls: Sequence[CallRecord]) -> None:
        with CalendarRows.opened(self._engine, tenant) as rows:
            rows.record(calls, forest)

    def _saved(
        self, tenant: TenantId, forest: ForestRef, loaded: LoadedDay, stored: StoredDigest, work: _Work
    ) -> bool | None:
        """Whether a digest was stored; None when the database was unavailable."""
        try:
            return self._save(tenant, forest.id, loaded, stored)
        except StoreUnavailable:
            work.notes.append("The digest could not be stored: Postgres was busy or unavailable.")
            return None

    def _save(self, tenant: TenantId, forest: ForestId, loaded: LoadedDay, stored: StoredDigest) -> bool:
        """Keep a digest if the words that were read are all there, and nobody stored another one meanwhile.

        Turns that came since then are no reason to make it again: it covers less, and nothing wrong.
        """
        with CalendarRows.opened(self._engine, tenant) as rows:
            rows.hurried()
            if rows.lock_forest(forest) not in VISIBLE:
                return False
            if not loaded.words <= rows.words(forest, loaded.held.start, loaded.held.end)[0]:
                return False
            return rows.store(forest, loaded.held, stored)


def _stored_digest(loaded: LoadedDay, made: Condensed[tuple[SpeakerDigest, ...]], now: datetime) -> StoredDigest:
    return StoredDigest(
        texts=made.text,
        sources=loaded.sources,
        days=(),
        turns=loaded.held.turns,
        left_out=made.left_out,
        source=made.source,
        model=made.model,
        input_hash=loaded.held.digest,
        version=uuid4(),
        made_at=now,
    )


def _digest(held: HeldDay, forest: ForestRef, work: _Work | None = None) -> DayDigest:
    """A day as it is stored, or without a digest."""
    work = work or _Work()
    if held.stored is None or not held.turns:
        return DayDigest(
            held.days.first,
            forest.time_zone,
            held.turns,
            degraded=tuple(dict.fromkeys(work.notes)),
            calls=len(work.calls),
        )
    return _shown(held, held.stored, forest, work)


def _shown(held: HeldDay, stored: StoredDigest, forest: ForestRef, work: _Work) -> DayDigest:
    notes = list(work.notes)
    if stored.source is SummarySource.DEGRADED and not notes:
        notes.append(f"The digest of {held.days.first} was picked by rules: the model failed when it was made.")
    if stored.left_out:
        notes.append(f"The oldest {stored.left_out} turns of {held.days.first} were not read: there are too many.")
    return DayDigest(
        day=held.days.first,
        time_zone=forest.time_zone,
        turns=held.turns,
        speakers=stored.texts,
        source=stored.source.value,
        model=stored.model,
        made_at=stored.made_at,
        sources=stored.sources,
        new_turns=max(0, held.turns - stored.turns),
        left_out=stored.left_out,
        degraded=tuple(dict.fromkeys(notes)),
        calls=len(work.calls),
    )
