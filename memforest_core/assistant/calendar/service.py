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
from memforest_core.domain.ids import TenantId
from memforest_core.domain.pages import Page, checked_limit, from_cursor, to_cursor
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

    def today(self, tenant: TenantId, owner: str) -> DayDigest:
        """What happened today, in the owner's time zone, speaker by speaker; see ``day``.

        It is made again at most once in ``calendar.today_s`` seconds, and only if turns have come since: ``new_turns``
        counts those that it does not tell of.
        """
        owner = checked_name(owner, "owner")
        forest = self._forest(tenant, owner)
        return self._unknown(self._today("UTC")) if forest is None else self.today_of(tenant, forest)

    def day(self, tenant: TenantId, owner: str, date: date | str) -> DayDigest:
        """What happened on a day, in the owner's time zone, speaker by speaker.

        ``date`` is a date or ISO 8601 ("2026-11-22"). A digest that is missing or out of date is made now: one call to
        the model of ``llm.summarize`` for all speakers (none where their words are short, some for a very long day);
        without a model, rules pick, and ``extractive`` says so. A day whose turns are the same as when its digest was
        made is never made again. A model that is unavailable is no error: ``degraded`` says so. A day without turns, or
        of an owner without a memory, has no digest (``made`` is False). Raises InvalidInput, StoreUnavailable.
        """
        owner, wanted = checked_name(owner, "owner"), checked_day(date)
        forest = self._forest(tenant, owner)
        if forest is None:
            return self._unknown(wanted)
        return Diary(self, tenant, forest).day(wanted)

    def week(self, tenant: TenantId, owner: str) -> PeriodDigest:
        """One text of the six days before today (days 2 to 7), the most recent first.

        Made from the digests of those days, which are made too where they are missing or out of date; one call to the
        model where they don't fit ``calendar.week_chars`` together. Raises InvalidInput, StoreUnavailable.
        """
        owner = checked_name(owner, "owner")
        forest = self._forest(tenant, owner)
        if forest is None:
            days = week_before(self._today("UTC"))
            return PeriodDigest("week", days.first, days.last, "UTC", owner_known=False)
        return self.week_of(tenant, forest)

    def period(self, tenant: TenantId, owner: str, period: str) -> PeriodDigest:
        """One text of a month ("2026-11"), a year ("2026") or the whole life ("life"), the most recent first.

        A month is made from its days, a year from its months, the life from its years; one reading makes
        ``calendar.at_once`` digests of days at most, the newest first, and ``missing`` lists those still to be
        made. Raises InvalidInput, StoreUnavailable.
        """
        owner, days = checked_name(owner, "owner"), checked_period(period)
        forest = self._forest(tenant, owner)
        if forest is None:
            return PeriodDigest(period, None, None, "UTC", owner_known=False)
        return Diary(self, tenant, forest).period(days, period)

    def days(self, tenant: TenantId, owner: str, *, limit: int = DAYS, cursor: str | None = None) -> Page[DayDigest]:
        """An owner's days on which something was said, the newest first, with their digests.

        ``limit`` is the most days of one page, 1 to 1,000; ``cursor`` is that of the page before. Digests are made as
        ``day`` does, ``calendar.at_once`` at most in one call: of other days ``made`` is False. Raises InvalidInput,
        StoreUnavailable.
        """
        limit, place = checked_limit(limit), from_cursor(cursor, str)
        before = None if place is None else checked_day(place[0], "cursor")
        owner = checked_name(owner, "owner")
        forest = self._forest(tenant, owner)
        if forest is None:
            return Page((), owner_known=False)
        digests, more = Diary(self, tenant, forest).page(before, limit)
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
            owner, wanted = checked_name(owner, "owner"), checked_day(day, "day")
            forest = known(self._forest(tenant, owner), owner, NO_OWNER)
            return Diary(self, tenant, forest).day(wanted, force=True)
        if session is None or day is not None or self.acceptance is None:
            raise InvalidInput("Give the day or the session to summarize.", code="one_target")
        self.acceptance.summarize_session(tenant, owner, session)
        return self.acceptance.status(tenant, owner, session)

    def today_of(self, tenant: TenantId, forest: ForestRef) -> DayDigest:
        """``today`` for those who know the forest: one statement when it is up to date."""
        return Diary(self, tenant, forest).day(self._today(forest.time_zone))

    def week_of(self, tenant: TenantId, forest: ForestRef) -> PeriodDigest:
        """``week`` for those who know the forest: one statement when it is up to date."""
        return Diary(self, tenant, forest).period(week_before(self._today(forest.time_zone)), Span.WEEK.value)

    def _today(self, zone: str) -> date:
        return self.now().astimezone(ZoneInfo(zone)).date()

    def _unknown(self, day: date) -> DayDigest:
        return DayDigest(day, "UTC", owner_known=False)

    @repeated
    def _forest(self, tenant: TenantId, owner: str) -> ForestRef | None:
        with CalendarRows.opened(self.engine, tenant) as rows:
            return rows.find_forest(owner)
