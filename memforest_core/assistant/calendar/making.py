"""Makes digests of days, and of longer times from those of their parts: load, compute with nothing locked, and store
what is still true."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from memforest_core.assistant.calendar.records import (
    LIFE,
    DayDigest,
    Days,
    DaySource,
    DayTurn,
    HeldDay,
    PeriodDigest,
    Span,
    SpeakerDigest,
    StoredDigest,
    midnight,
    month_of,
    one_day,
    speaker_lines,
    whole_life,
    year_of,
)
from memforest_core.assistant.calendar.rows import CalendarRows
from memforest_core.assistant.checked_calls import record_costs
from memforest_core.assistant.condensing import GROUP_TOKENS, MAX_TEXT_CHARS, MAX_TURNS, Condensed, Condenser, DatedText
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.extractive import summarize
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.people import KnownPerson, People
from memforest_core.domain.rendering import turn_line
from memforest_core.errors import StoreUnavailable
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.models.calls import CallRecord
from memforest_core.settings import CalendarSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import VISIBLE, ForestRef
from memforest_core.store.repeating import repeated
from memforest_core.work.telemetry import SILENT, Telemetry

TRIES = 3
"""How often a time is read again because somebody else stored a digest, or a turn came or went, meanwhile."""
MAX_DAYS = 31
"""Of a month."""
MAX_LIFE_DAYS = 400_000
"""Days of a life that are looked for: more than a thousand years."""
FEW_TURNS, MANY_TURNS = 5, 50
"""Today's digest is made again when it has many new turns, or ten for each that it was made of above the few. So a day
of n turns costs at most 2 + n / 50 calls before its end, however often it is read, and one more an hour while somebody
is looked for who has spoken only since."""
MAX_ROUNDS = 50
"""Queries for one page; a page may be short when so many days in a row have only deleted turns."""


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
    """What one reading did, and how many digests it may make still."""

    left: int = 0
    calls: int = 0
    stale: bool = False
    """Something that it read was deleted meanwhile, or somebody else stored a text: it is to be read again."""
    notes: list[str] = field(default_factory=list)
    missing: list[date] = field(default_factory=list)

    def take(self) -> bool:
        """Whether there is one left, which is used now."""
        self.left -= 1
        return self.left >= 0

    @property
    def degraded(self) -> tuple[str, ...]:
        """The notes, each once."""
        return tuple(dict.fromkeys(self.notes))


@dataclass(frozen=True, slots=True)
class Means:
    """What digests are made with; ``now`` says what today is, and how old a digest."""

    engine: Engine
    settings: CalendarSettings
    digester: Condenser
    """Of days."""
    condenser: Condenser
    """Of longer times."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    telemetry: Telemetry = SILENT


class Diary:
    """The digests of one owner, or of one ``person`` in that owner's memory, as one request reads them."""

    def __init__(self, means: Means, tenant: TenantId, forest: ForestRef, person: KnownPerson | None = None) -> None:
        self._means = means
        self._tenant = tenant
        self._forest = forest
        self._person = person
        self._about = "" if person is None else person.id
        self._zone = ZoneInfo(forest.time_zone)

    def day(self, day: date, *, force: bool = False) -> DayDigest:
        """A day's digest; one that is due, or that ``force`` wants, is made now."""
        (held,) = self._held([one_day(day)])
        return self._shown(held, self._work(), force=force)[0]

    def page(self, before: date | None, limit: int) -> tuple[tuple[DayDigest, ...], date | None]:
        """The newest days before a day that have turns, and where to go on; ``calendar.at_once`` are made at most.

        Of a person only the days that have something of them.
        """
        held, more = self._with_turns(before, limit)
        work = self._work()
        shown = [self._shown(each, work)[0] for each in held]
        return tuple(each for each in shown if each.speakers or not (self._about and each.made)), more

    def period(self, days: Days, name: str) -> PeriodDigest:
        """The text of days in a row, of a month, a year or the life, if nothing changed while it was made.

        Of a week one statement when it and its days are up to date.
        """
        calls = 0
        for _ in range(TRIES):
            work = self._work()
            work.calls = calls
            shown = self._period(days, name, work)
            if not work.stale:
                return shown
            calls = work.calls
        note = "There is no text: its days changed again and again while it was made."
        return replace(shown, text="", source="", model="", made_at=None, degraded=(*shown.degraded, note))

    def _work(self) -> _Work:
        return _Work(self._means.settings.at_once)

    def _shown(self, held: HeldDay, work: _Work, *, force: bool = False) -> tuple[DayDigest, UUID | None]:
        """A day's digest with its stored version; one that is due is made if the ``work`` may make another."""
        own = _Work()
        if not (held.turns and (force or self._due(held)) and work.take()):
            return self._as_stored(held, own)
        for tries in range(TRIES):
            held, words, sources, turns, people = self._load(held.days)
            if not held.turns or not (self._due(held) or (force and not tries)):
                return self._as_stored(held, own)
            made = self._digested(held, turns, people, own)
            stored = self._made(made, made.text, held.turns, held.digest, sources=sources)
            if self._forest.frozen:
                return self._digest(held, stored, own), None
            # Turns that came since are no reason to make it again: it covers less, and nothing wrong.
            still = partial(_has_words, self._forest.id, held, words)
            saved = self._saved(held, stored, still, "digest", own)
            if saved is not False:
                return self._digest(held, stored, own), stored.version if saved else None
        own.notes.append(f"The digest of {held.days.first} is missing: its turns were deleted again and again.")
        return self._digest(held, None, own), None

    def _due(self, held: HeldDay) -> bool:
        stored = held.stored
        if stored is None:
            return True
        enough = min(MANY_TURNS, 10 * (stored.turns - FEW_TURNS)) if self._means.settings.today_s else 0
        first = held.own > 0 and not any(each.turns for each in self._of_person(stored.texts))
        return self._is_stale(stored, held.digest, held.end, first or held.turns - stored.turns >= enough)

    def _is_stale(self, stored: StoredDigest, digest: bytes, end: datetime, grown: bool = True) -> bool:
        """Whether a digest's turns have changed since, or rules replaced a model, and it may be made again; ``end`` is
        when its time is over, and until then it must have ``grown`` enough."""
        now, without_model = self._means.now(), stored.source is SummarySource.DEGRADED
        if self._means.digester.chat is not None:
            without_model = without_model or stored.source is SummarySource.EXTRACTIVE
        if not without_model and (stored.input_hash == digest or (now < end and not grown)):
            return False
        over_since = stored.made_at < end <= now
        return over_since or now - stored.made_at >= timedelta(seconds=self._means.settings.today_s)

    @repeated
    def _load(self, days: Days) -> tuple[HeldDay, frozenset[bytes], tuple[DaySource, ...], Sequence[DayTurn], People]:
        """A day, the hashes of its words, their sessions, the turns in order, and everybody who has spoken.

        Hashes are read before words, so that words that are deleted meanwhile are not taken for those that are there.
        """
        with CalendarRows.opened(self._means.engine, self._tenant) as rows:
            (now,) = rows.held(self._forest.id, [days], self._zone, self._person)
            words, sources = rows.words(self._forest.id, now.start, now.end)
            turns = rows.turns(self._forest.id, now.start, now.end, MAX_TURNS, MAX_TEXT_CHARS)
            people = People(self._forest.owner, rows.speakers(self._forest.id), self._forest.display_name)
            return now, words, sources, turns, people

    def _digested(
        self, held: HeldDay, turns: Sequence[DayTurn], people: People, work: _Work
    ) -> Condensed[tuple[SpeakerDigest, ...]]:
        frozen, calls = self._forest.frozen, list[CallRecord]()
        if frozen:
            work.notes.append("The memory is being merged into another: rules picked, and nothing is stored.")
        made = self._means.digester.digest(held.days, self._zone, turns, held.turns, people, calls, model=not frozen)
        self._record_costs(calls, made.notes, work)
        return made

    def _record_costs(self, calls: Sequence[CallRecord], notes: Sequence[str], work: _Work) -> None:
        means = self._means
        work.notes += record_costs(means.engine, means.telemetry, self._tenant, calls, self._forest.id, what="digest")
        work.notes += notes
        work.calls += len(calls)

    def _made(
        self,
        made: Condensed[tuple[SpeakerDigest, ...]] | Condensed[str],
        texts: tuple[SpeakerDigest, ...],
        turns: int,
        digest: bytes,
        *,
        sources: tuple[DaySource, ...] = (),
        days: tuple[date, ...] = (),
    ) -> StoredDigest:
        return StoredDigest(
            texts, sources, days, turns, made.left_out, made.source, made.model, digest, uuid4(), self._means.now()
        )

    def _saved(
        self, held: HeldDay, stored: StoredDigest, still: Callable[[CalendarRows], bool], what: str, work: _Work
    ) -> bool | None:
        """Keep a digest if it is ``still`` true and nobody stored another one meanwhile; None: Postgres was busy."""
        try:
            with CalendarRows.opened(self._means.engine, self._tenant) as rows:
                rows.hurried()
                if rows.lock_forest(self._forest.id) not in VISIBLE or not still(rows):
                    return False
                person = "" if held.days.span is Span.DAY else self._about
                return rows.store(self._forest.id, held, stored, person)
        except StoreUnavailable:
            work.notes.append(f"The {what} could not be stored: Postgres was busy or unavailable.")
            return None

    def _as_stored(self, held: HeldDay, work: _Work) -> tuple[DayDigest, UUID | None]:
        stored = held.stored if held.turns else None
        return self._digest(held, stored, work), None if stored is None else stored.version

    def _digest(self, held: HeldDay, stored: StoredDigest | None, work: _Work) -> DayDigest:
        """A day with its digest, if it has one."""
        day = DayDigest(
            *(held.days.first, self._forest.time_zone, held.turns),
            about=self._about,
            degraded=work.degraded,
            calls=work.calls,
        )
        if stored is None:
            return day
        speakers = self._of_person(stored.texts)
        if stored.source is SummarySource.DEGRADED and not work.notes:
            work.notes.append(f"The digest of {day.day} was picked by rules: the model failed when it was made.")
        if picked := sum(each.picked for each in speakers):
            what = "the model's were empty or had words of others"
            work.notes.append(f"Rules picked the texts of {picked} speakers of {day.day}: {what}.")
        if stored.left_out:
            work.notes.append(f"{stored.left_out} turns of {day.day} were not read: there are too many.")
        return replace(
            day,
            speakers=speakers,
            source=stored.source.value,
            model=stored.model,
            made_at=stored.made_at,
            sources=stored.sources,
            new_turns=max(0, held.turns - stored.turns),
            left_out=stored.left_out,
            degraded=work.degraded,
        )

    def _of_person(self, texts: Sequence[SpeakerDigest]) -> tuple[SpeakerDigest, ...]:
        """The person's own texts; without a person those of all who spoke."""
        if self._person is None:
            return tuple(each for each in texts if each.turns)
        return tuple(each for each in texts if each.speaker_id in self._person.ids)

    def _period(self, days: Days, name: str, work: _Work) -> PeriodDigest:
        if days.span is Span.WEEK:
            singles = [one_day(date.fromordinal(each)) for each in range(days.first.toordinal(), days.end.toordinal())]
            found = self._held([days, *singles])
            own = next(each for each in found if each.days == days)
            parts = self._days([each for each in found if each.days.span is Span.DAY and each.turns], work)
        else:
            (own,) = self._held([days])
            parts = self._parts(days, work)
        made, _ = self._text(own, parts, work)
        if days.span is Span.LIFE and parts:
            days = Days(Span.LIFE, parts[-1].days.first, parts[0].days.end)
        shown = PeriodDigest(
            period=name,
            first=None if name == LIFE and not parts else days.first,
            last=None if name == LIFE and not parts else days.last,
            time_zone=self._forest.time_zone,
            missing=tuple(work.missing),
            about=self._about,
            degraded=work.degraded,
            calls=work.calls,
        )
        if made is None:
            return shown
        return replace(
            shown,
            text=made.texts[0].text,
            days=made.days,
            turns=made.turns,
            source=made.source.value,
            model=made.model,
            made_at=made.made_at,
        )

    def _parts(self, days: Days, work: _Work) -> list[_Child]:
        """What a longer time consists of, the newest first."""
        if days.span is Span.MONTH:
            return self._days(self._with_turns(None, MAX_DAYS, days)[0], work)
        return [
            part
            for each in self._longer(days, year_of if days.span is Span.LIFE else month_of)
            if (part := self._part(each, work)).text or part.turns
        ]

    def _part(self, days: Days, work: _Work) -> _Child:
        """A month or a year."""
        (own,) = self._held([days])
        parts = self._parts(days, work)
        made, stored = self._text(own, parts, work)
        text = "" if made is None else made.texts[0].text
        turns = sum(part.turns for part in parts)
        return _Child(days, text, turns, made.version if made is not None and stored else None)

    def _days(self, held: Sequence[HeldDay], work: _Work) -> list[_Child]:
        """Days with their digests, made where they are due."""
        made = [self._shown(each, work) for each in held]
        for digest, _ in made:
            work.calls += digest.calls
            work.notes += digest.degraded
            if not digest.made:
                work.missing.append(digest.day)
        return [
            _Child(one_day(digest.day), _shortened(digest), self._turns_of(digest), version)
            for digest, version in made
            if digest.made and (digest.text or not self._about)
        ]

    def _turns_of(self, day: DayDigest) -> int:
        return sum(each.turns for each in day.speakers) if self._about else day.turns

    def _text(self, own: HeldDay, parts: Sequence[_Child], work: _Work) -> tuple[StoredDigest | None, bool]:
        """The text of its parts, None without any, and whether it is stored."""
        if not parts:
            return None, False
        versions = [part.version for part in parts if part.version]
        # A name without an id may become a person's later.
        ids = () if self._person is None else self._person.ids
        digest = hashlib.sha256(b"".join(version.bytes for version in versions) + "\0".join(ids).encode()).digest()
        whole = not work.missing and len(versions) == len(parts)
        # A stored text covers nothing that was deleted: it would have been deleted too.
        if own.stored is not None and not (whole and self._is_stale(own.stored, digest, own.end)):
            return own.stored, True
        calls: list[CallRecord] = []
        texts = [DatedText(part.days.label, part.text) for part in parts]
        free = whole and not self._forest.frozen and work.take()
        condenser = self._means.condenser
        about = "" if self._person is None else self._person.name
        made = condenser.condense(own.days.label, texts, calls, about=about, model=free)
        self._record_costs(calls, made.notes, work)
        turns = sum(part.turns for part in parts)
        speakers = (SpeakerDigest("", "", made.text, turns),)
        stored = self._made(made, speakers, turns, digest, days=tuple(part.days.first for part in parts))
        by_rules = made.source is SummarySource.EXTRACTIVE and condenser.chat is not None
        if by_rules:
            work.notes.append(f"The text of {own.days.label} was picked by rules: the next readings make it whole.")
        if not whole or self._forest.frozen or by_rules:
            return stored, False
        saved = self._saved(own, stored, lambda rows: rows.all_there(self._forest.id, versions), "text", work)
        work.stale = work.stale or saved is False
        return stored, bool(saved)

    @repeated
    def _held(self, wanted: Sequence[Days]) -> list[HeldDay]:
        with CalendarRows.opened(self._means.engine, self._tenant) as rows:
            return rows.held(self._forest.id, wanted, self._zone, self._person)

    @repeated
    def _longer(self, days: Days, whole: Callable[[date], Days]) -> list[Days]:
        """The months or years that have turns, the newest first; one at an edge may have none."""
        start, end = days.moments(self._zone)
        with CalendarRows.opened(self._means.engine, self._tenant) as rows:
            utc = rows.utc_days(self._forest.id, start, end, MAX_LIFE_DAYS)
        local = {day for each in utc for day in local_days(each, self._zone) if days.first <= day < days.end}
        found = {(each := whole(day)).first: each for day in local}
        return [found[first] for first in sorted(found, reverse=True)]

    @repeated
    def _with_turns(
        self, before: date | None, limit: int, within: Days | None = None
    ) -> tuple[list[HeldDay], date | None]:
        """The newest days before a day that have turns, at most ``limit``, and where to go on (None: nowhere)."""
        zone, bounds = self._zone, within or whole_life()
        start, end = bounds.moments(zone)
        found: list[HeldDay] = []
        before = bounds.end if before is None else min(before, bounds.end)
        with CalendarRows.opened(self._means.engine, self._tenant) as rows:
            for _ in range(MAX_ROUNDS):
                # Two days of UTC may lie in one local day.
                most = 2 * (limit - len(found)) + 3
                utc = rows.utc_days(self._forest.id, start, min(end, midnight(before, zone)), most)
                local = {day for each in utc for day in local_days(each, zone) if bounds.first <= day < before}
                newest = [one_day(day) for day in sorted(local, reverse=True)]
                found += [each for each in rows.held(self._forest.id, newest, zone, self._person) if each.turns]
                if len(found) > limit:
                    return found[:limit], found[limit - 1].days.first
                if len(utc) < most or not local:
                    return found, None
                before = min(local)
        return found, before


def _shortened(day: DayDigest) -> str:
    """The day's text, in which everybody has a part of what one call reads."""
    most = GROUP_TOKENS * CHARS_PER_TOKEN
    if len(day.text) <= most:
        return day.text
    share = most // len(day.speakers) - 1
    return speaker_lines(
        [replace(each, text=summarize([each.text], share - len(turn_line(each.name, "")))) for each in day.speakers]
    )


def _has_words(forest: ForestId, held: HeldDay, words: frozenset[bytes], rows: CalendarRows) -> bool:
    """Whether the words that a digest was made of are all there."""
    return words <= rows.words(forest, held.start, held.end)[0]


def local_days(utc: date, zone: ZoneInfo) -> tuple[date, date]:
    """The days of a zone that a day of UTC lies in: that of its first, and that of its last moment."""
    first = datetime.combine(utc, time.min, UTC)
    last = datetime.combine(utc, time.max, UTC)
    return first.astimezone(zone).date(), last.astimezone(zone).date()
