"""The calendar of an owner: digests are made when they are requested, and stored as long as they are true."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

from memforest_core.assistant.calendar.making import Diary, Means
from memforest_core.assistant.calendar.records import (
    DayDigest,
    PeriodDigest,
    Span,
    checked_day,
    checked_period,
    week_before,
)
from memforest_core.assistant.calendar.rows import CalendarRows
from memforest_core.assistant.profile.persons import person_named, refuse_shared
from memforest_core.domain.ids import TenantId
from memforest_core.domain.pages import Page, checked_limit, from_cursor, to_cursor
from memforest_core.domain.people import KnownPerson, People
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput
from memforest_core.ingest.accept.records import SessionProgress
from memforest_core.ingest.accept.service import Acceptance
from memforest_core.store.owners import NO_OWNER, ForestRef, known
from memforest_core.store.repeating import repeated

DAYS = 30
"""Days of one page."""


@dataclass(frozen=True, slots=True)
class CalendarService(Means):
    """Days of a tenant's owners. Thread-safe."""

    acceptance: Acceptance | None = None
    """What summarizes sessions."""

    def today(self, tenant: TenantId, owner: str, speaker: str | None = None) -> DayDigest:
        """What happened today, in the owner's time zone, speaker by speaker; see ``day``.

        It is made again at most once in ``calendar.today_s`` seconds, and only if enough turns have come since:
        ``new_turns`` counts those that it does not tell of.
        """
        diary, zone = self._diary(tenant, owner, speaker)
        return self._unknown(self._today("UTC")) if diary is None else diary.day(self._today(zone))

    def day(self, tenant: TenantId, owner: str, date: date | str, speaker: str | None = None) -> DayDigest:
        """What happened on a day, in the owner's time zone, speaker by speaker.

        ``date`` is a date or ISO 8601 ("2026-11-22"). ``speaker`` (an id, a name, a nickname or a mention) is whose day
        it is alone: what that person said and did, and what others said of them. A digest that is missing or out of
        date is made now for everybody: one call to the model of ``llm.summarize`` for 25 speakers (none where their
        words are short, some for a very long day); without a model, rules pick, and ``extractive`` says so. A day whose
        turns are the same as when its digest was made is never made again. A model that is unavailable is no error:
        ``degraded`` says so. A day without turns, or of an owner without a memory, has no digest (``made`` is False);
        one without a word of or about the ``speaker`` has no ``speakers``. Raises InvalidInput, StoreUnavailable.
        """
        wanted = checked_day(date)
        diary, _ = self._diary(tenant, owner, speaker)
        return self._unknown(wanted) if diary is None else diary.day(wanted)

    def week(self, tenant: TenantId, owner: str, speaker: str | None = None) -> PeriodDigest:
        """One text of the six days before today (days 2 to 7), the most recent first; of a ``speaker`` as in ``day``.

        Made from the digests of those days, which are made too where they are missing or out of date; one call to the
        model where they don't fit ``calendar.week_chars`` together. Raises InvalidInput, StoreUnavailable.
        """
        diary, zone = self._diary(tenant, owner, speaker)
        days = week_before(self._today(zone))
        if diary is None:
            return PeriodDigest("week", days.first, days.last, zone, owner_known=False)
        return diary.period(days, Span.WEEK.value)

    def period(self, tenant: TenantId, owner: str, period: str, speaker: str | None = None) -> PeriodDigest:
        """One text of a month ("2026-11"), a year ("2026") or the whole life ("life"), the most recent first; of a
        ``speaker`` as in ``day``.

        A month is made from its days, a year from its months, the life from its years; one reading makes
        ``calendar.at_once`` digests of days at most, the newest first, and ``missing`` lists those still to be
        made. Raises InvalidInput, StoreUnavailable.
        """
        days = checked_period(period)
        diary, zone = self._diary(tenant, owner, speaker)
        if diary is None:
            return PeriodDigest(period, None, None, zone, owner_known=False)
        return diary.period(days, period)

    def days(
        self, tenant: TenantId, owner: str, *, speaker: str | None = None, limit: int = DAYS, cursor: str | None = None
    ) -> Page[DayDigest]:
        """An owner's days on which something was said, the newest first, with their digests.

        ``speaker`` is whose days these are, as in ``day``; a page has fewer then, as days without that person are left
        out. ``limit`` is the most days of one page, 1 to 1,000; ``cursor`` is that of the page before. Digests are made
        as ``day`` does, ``calendar.at_once`` at most in one call: of other days ``made`` is False. Raises InvalidInput,
        StoreUnavailable.
        """
        limit, place = checked_limit(limit), from_cursor(cursor, str)
        before = None if place is None else checked_day(place[0], "cursor")
        diary, _ = self._diary(tenant, owner, speaker)
        if diary is None:
            return Page((), owner_known=False)
        digests, more = diary.page(before, limit)
        return Page(digests, to_cursor([more]) if more else None)

    def summarize(
        self, tenant: TenantId, owner: str, *, day: date | str | None = None, session: str | None = None
    ) -> DayDigest | SessionProgress:
        """Summarize a ``day`` or a ``session`` now, whether it is due or not: one of the two is given.

        Of a day (a date or ISO 8601) the digest is made, and returned. Of a session the last cell is extracted at once
        instead of after the quiet period, and the refresh of its summaries is due; how far it has come is returned, and
        ``wait(owner, session, "summaries")`` waits for workers to do it. Raises NotFound for an owner or a session that
        does not exist, ForestFrozen, InvalidInput, StoreUnavailable.
        """
        if day is not None and session is None:
            wanted, (diary, _) = checked_day(day, "day"), self._diary(tenant, owner)
            return known(diary, owner, NO_OWNER).day(wanted, force=True)
        if session is None or day is not None or self.acceptance is None:
            raise InvalidInput("Give the day or the session to summarize.", code="one_target")
        self.acceptance.summarize_session(tenant, owner, session)
        return self.acceptance.status(tenant, owner, session)

    def today_of(self, tenant: TenantId, forest: ForestRef, person: KnownPerson | None) -> DayDigest:
        """``today`` for those who know the forest and the person: one statement when it is up to date."""
        return Diary(self, tenant, forest, person).day(self._today(forest.time_zone))

    def week_of(self, tenant: TenantId, forest: ForestRef, person: KnownPerson | None) -> PeriodDigest:
        """``week`` for those who know the forest and the person: one statement when it is up to date."""
        days = week_before(self._today(forest.time_zone))
        return Diary(self, tenant, forest, person).period(days, Span.WEEK.value)

    def _today(self, zone: str) -> date:
        return self.now().astimezone(ZoneInfo(zone)).date()

    def _unknown(self, day: date) -> DayDigest:
        return DayDigest(day, "UTC", owner_known=False)

    @repeated
    def _diary(self, tenant: TenantId, owner: str, speaker: str | None = None) -> tuple[Diary | None, str]:
        """The diary of an owner, or of a speaker in that memory, and its time zone; None without a memory. Raises
        InvalidInput for a name of several people."""
        owner = checked_name(owner, "owner")
        about = None if speaker is None else checked_name(speaker, "speaker")
        with CalendarRows.opened(self.engine, tenant) as rows:
            forest = rows.find_forest(owner)
            if forest is None:
                return None, "UTC"
            speakers = () if about is None else rows.speakers(forest.id)
        person = None if about is None else person_named(owner, forest, speakers, about)
        people = People(owner, speakers, forest.display_name)
        refuse_shared(people, about)
        return Diary(self, tenant, forest, person), forest.time_zone
