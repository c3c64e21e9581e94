"""Makes digests of days that are missing or out of date: load, compute with nothing locked, keep what is still true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4
from zoneinfo import ZoneInfo

from memforest_core.assistant.calendar.digesting import MAX_TEXT_CHARS, MAX_TURNS, Digested, Digester
from memforest_core.assistant.calendar.records import DayDigest, HeldDay, Kept, LoadedDay
from memforest_core.assistant.calendar.rows import CalendarRows
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
"""How often a day is read again because somebody else kept a digest, or a turn came or went, meanwhile."""


@dataclass(frozen=True, slots=True)
class Made:
    """A day's digest, and how it is kept (None: it is not)."""

    digest: DayDigest
    kept: Kept | None


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
                shown.append(Made(_digest(each, forest), each.kept if each.turns else None))
        return shown

    def budget(self) -> Budget:
        """What one reading may make."""
        return Budget(self._settings.at_once)

    def now(self) -> datetime:
        """The moment now."""
        return self._now()

    def outdated(self, kept: Kept, digest: bytes, end: datetime) -> bool:
        """Whether what a digest was made from is another one since, or rules stood in for a model, and it may be made
        again; ``end`` is when its time is over."""
        now, without_model = self._now(), kept.source is SummarySource.DEGRADED
        if self._digester.chat is not None:
            without_model = without_model or kept.source is SummarySource.EXTRACTIVE
        if kept.input_hash == digest and not without_model:
            return False
        over_since = kept.made_at < end <= now
        return over_since or now - kept.made_at >= timedelta(seconds=self._settings.today_s)

    def recorded(self, tenant: TenantId, forest: ForestId, calls: Sequence[CallRecord]) -> list[str]:
        """Keep what calls cost; a sentence when that could not be kept."""
        if not calls:
            return []
        self._telemetry.called(tenant, calls)
        try:
            self._record(tenant, forest, calls)
        except StoreUnavailable:
            # The text is there and paid for; losing it as well would help nobody.
            return ["What the digest cost could not be recorded: Postgres was away."]
        return []

    def _due(self, held: HeldDay) -> bool:
        return held.kept is None or self.outdated(held.kept, held.digest, held.end)

    def _renewed(self, tenant: TenantId, forest: ForestRef, held: HeldDay, *, force: bool) -> Made:
        work = _Work()
        for tries in range(TRIES):
            loaded = self._load(tenant, forest, held)
            held = loaded.held
            if not held.turns or not (self._due(held) or (force and not tries)):
                return Made(_digest(held, forest, work), held.kept if held.turns else None)
            kept = _kept(loaded, self._made(tenant, forest, loaded, work), self._now())
            if forest.frozen:
                return Made(_shown(held, kept, forest, work), None)
            saved = self._saved(tenant, forest, loaded, kept, work)
            if saved is not False:
                return Made(_shown(held, kept, forest, work), kept if saved else None)
        work.notes.append(f"The digest of {held.days.first} is missing: its turns were deleted again and again.")
        return Made(_digest(replace(held, kept=None), forest, work), None)

    @repeated
    def _load(self, tenant: TenantId, forest: ForestRef, held: HeldDay) -> LoadedDay:
        with CalendarRows.opened(self._engine, tenant) as rows:
            (now,) = rows.held(forest.id, [held.days], ZoneInfo(forest.time_zone))
            words, sources = rows.words(forest.id, now.start, now.end)
            turns = rows.turns(forest.id, now.start, now.end, MAX_TURNS, MAX_TEXT_CHARS)
        return LoadedDay(now, words, sources, turns)

    def _made(self, tenant: TenantId, forest: ForestRef, loaded: LoadedDay, work: _Work) -> Digested:
        if forest.frozen:
            work.notes.append("The memory is being merged into another: rules picked, and nothing is kept.")
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

    def _saved(self, tenant: TenantId, forest: ForestRef, loaded: LoadedDay, kept: Kept, work: _Work) -> bool | None:
        """Whether a digest was kept; None when the database could not be asked."""
        try:
            return self._save(tenant, forest.id, loaded, kept)
        except StoreUnavailable:
            work.notes.append("The digest could not be kept: Postgres was busy or away.")
            return None

    def _save(self, tenant: TenantId, forest: ForestId, loaded: LoadedDay, kept: Kept) -> bool:
        """Keep a digest if the words that were read are all there, and nobody kept another one meanwhile.

        What was said since then is no reason to make it again: it tells less, and nothing wrong.
        """
        with CalendarRows.opened(self._engine, tenant) as rows:
            rows.hurried()
            if rows.lock_forest(forest) not in VISIBLE:
                return False
            if not loaded.words <= rows.words(forest, loaded.held.start, loaded.held.end)[0]:
                return False
            return rows.keep(forest, loaded.held, kept)


def _kept(loaded: LoadedDay, made: Digested, now: datetime) -> Kept:
    return Kept(
        texts=made.texts,
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
    """A day as it is kept, or without a digest."""
    work = work or _Work()
    if held.kept is None or not held.turns:
        return DayDigest(
            held.days.first,
            forest.time_zone,
            held.turns,
            degraded=tuple(dict.fromkeys(work.notes)),
            calls=len(work.calls),
        )
    return _shown(held, held.kept, forest, work)


def _shown(held: HeldDay, kept: Kept, forest: ForestRef, work: _Work) -> DayDigest:
    notes = list(work.notes)
    if kept.source is SummarySource.DEGRADED and not notes:
        notes.append(f"The digest of {held.days.first} was picked by rules: the model failed when it was made.")
    if kept.left_out:
        notes.append(f"The oldest {kept.left_out} turns of {held.days.first} were not read: there are too many.")
    return DayDigest(
        day=held.days.first,
        time_zone=forest.time_zone,
        turns=held.turns,
        speakers=kept.texts,
        source=kept.source.value,
        model=kept.model,
        made_at=kept.made_at,
        sources=kept.sources,
        new_turns=max(0, held.turns - kept.turns),
        left_out=kept.left_out,
        degraded=tuple(dict.fromkeys(notes)),
        calls=len(work.calls),
    )
