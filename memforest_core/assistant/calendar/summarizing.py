"""Summaries that are wanted now: of a day, or of a session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from memforest_core.assistant.calendar.records import DayDigest
from memforest_core.assistant.calendar.service import CalendarService
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput
from memforest_core.ingest.accept.records import SessionProgress
from memforest_core.ingest.accept.running import RunningSessions
from memforest_core.ingest.accept.service import Acceptance


@dataclass(frozen=True, slots=True)
class Summarizing:
    """Summarizes at once what would be summarized later. Thread-safe."""

    calendar: CalendarService
    running: RunningSessions
    acceptance: Acceptance

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
            return self.calendar.summarize(tenant, owner, day)
        if session is None or day is not None:
            raise InvalidInput("Give the day or the session to summarize.", code="one_target")
        self.running.summarize(tenant, owner, session)
        return self.acceptance.status(tenant, owner, session)
