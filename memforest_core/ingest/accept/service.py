"""The one way in: a session is stored whole in one transaction, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memforest_core.domain.cells import Cutting, assign_windows, cut_cells
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.ids import ForestId, SessionId, TenantId
from memforest_core.domain.ids import session_id as derive_session_id
from memforest_core.domain.turns import (
    SessionFrame,
    Turn,
    TurnLimits,
    checked_channel,
    checked_metadata,
    checked_name,
    checked_zone,
    parse_timestamp,
    parse_turns,
    utc_offset,
)
from memforest_core.errors import InvalidInput, InvalidSettings, NotFound, SessionConflict
from memforest_core.ingest.accept.quotas import Quotas
from memforest_core.ingest.accept.records import Accepted, Quota, SessionHead, SessionProgress, TenantLimits
from memforest_core.ingest.accept.rows.accepting import AcceptRows, accepting
from memforest_core.ingest.accept.running import open_forest, session_for
from memforest_core.settings import AcceptSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import Lane, WorkError
from memforest_core.work.messages import Queue
from memforest_core.work.wakeups import WakeUps

MAX_LIMIT = 2**31 - 1
"""What a column for a limit holds."""


def zone(name: str) -> ZoneInfo:
    """The IANA zone of that name, or InvalidSettings."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise InvalidSettings(
            f"Set the time zone to an IANA name such as Europe/Paris; {name!r:.60} is not known."
        ) from None


def _resumed(frame: SessionFrame, head: SessionHead, forest: ForestRef, given: ZoneInfo | None) -> SessionFrame:
    """The frame of what is added to a session: in the session's own zone unless another is given."""
    if given is not None or head.time_zone == frame.zone.key:
        return frame
    return replace(frame, zone=zone(head.time_zone), elsewhere=head.time_zone != forest.time_zone)


class Acceptance:
    """Accepts sessions and single turns for one tenant."""

    def __init__(
        self,
        engine: Engine,
        wakeups: WakeUps,
        settings: AcceptSettings,
        max_wakeups: int,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._wakeups = wakeups
        self._settings = settings
        self._max_wakeups = max_wakeups
        self._now = now
        self._quotas = Quotas(settings, clock)
        self._zone = zone(settings.time_zone)
        self._limits = TurnLimits(settings.max_turns, settings.max_turn_bytes)
        gap = timedelta(hours=settings.cell_gap_h)
        self._cutting = Cutting(
            settings.cell_turns,
            settings.cell_chars,
            settings.part_chars,
            settings.tool_part_chars,
            gap,
            settings.window_turns,
            settings.window_tokens * CHARS_PER_TOKEN,
            settings.topic_markers,
        )
        self._session_gap = timedelta(hours=settings.session_gap_h)

    @repeated
    def enqueue(
        self,
        tenant: TenantId,
        owner: str,
        session_id: str,
        turns: Sequence[object],
        *,
        started_at: object | None = None,
        display_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        channel: str | None = None,
        time_zone: str | None = None,
        lane: Lane = Lane.LIVE,
        joined: object | None = None,
        trace: str | None = None,
        note: bool = False,
    ) -> Accepted:
        """Store a session, or what is new of it, and wake extraction.

        The same turns again are a no-op, and never refused; more turns than stored extend the session.
        ``display_name`` is what the owner is called from now on, ``metadata``, ``channel`` and ``time_zone`` replace
        the session's, ``trace`` is the W3C traceparent under which a new session is followed. The facts of a new
        session that is a ``note`` are pinned when they are placed. Raises InvalidInput, SessionConflict,
        StoreUnavailable, and QuotaExceeded while too much waits or too much came within a day. Without a broker work
        is delayed, not refused.
        """
        called = self._called(display_name)
        owner, session_id = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        about_session = self._about(metadata)
        channel = None if channel is None else checked_channel(channel)
        given = None if time_zone is None else checked_zone(time_zone)
        with accepting(self._engine, tenant, joined) as rows:
            forest = open_forest(rows, owner)
            frame = self._frame(forest, owner, called, turns, started_at, given)
            parsed = parse_turns(turns, frame, self._limits)
            forest = self._forest(rows, forest, frame, called)
            head = rows.lock_session(forest, session_id, parsed[0].occurred_at, lane, trace, note=note)
            rows.describe_session(head.id, about_session, channel, given.key if given else None)
            stored = [] if head.created else rows.turns(head.id)
            if stored:
                # Undated turns fall back on the stored start, whatever time it is now.
                frame = replace(_resumed(frame, head, forest, given), started_at=head.started_at)
                parsed = parse_turns(turns, frame, self._limits)
            for old, new in zip(stored, parsed, strict=False):
                if not old.same_as(new):
                    raise SessionConflict(
                        f"Turn {new.ordinal + 1} differs from the stored one: send it under a new session id."
                    )
            fresh = parsed[len(stored) :]
            taken = {turn.id for turn in stored}
            for turn in fresh:
                if turn.id in taken:
                    raise InvalidInput(
                        f"Turn {turn.ordinal + 1}: its id is used twice in this session.", code="duplicate_turn_id"
                    )
            if fresh:
                self._quotas.check(rows, tenant, lane)
            cells, windows = self._store_turns(rows, forest, head, fresh, None)
        self._quotas.note(tenant, cells, len(fresh))
        self._wake(tenant, joined, head.id, windows)
        return Accepted(forest.id, head.id, max(len(stored), len(parsed)), len(fresh), windows, session_id)

    @repeated
    def append(
        self,
        tenant: TenantId,
        owner: str,
        session_id: str | None,
        turn: object,
        *,
        display_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        channel: str | None = None,
        time_zone: str | None = None,
        close: bool = False,
        joined: object | None = None,
        trace: str | None = None,
    ) -> Accepted:
        """Add one turn to a running session; its cell stays open for a second turn for the quiet period.

        With ``close`` it is extracted at once instead. A turn whose id is already stored in the session adds nothing.
        Without a ``session_id`` it goes to the session that runs. Raises as ``enqueue``.
        """
        owner, called = checked_name(owner, "owner"), self._called(display_name)
        asked = None if session_id is None else checked_name(session_id, "session_id")
        about_session = self._about(metadata)
        channel = None if channel is None else checked_channel(channel)
        given = None if time_zone is None else checked_zone(time_zone)
        with accepting(self._engine, tenant, joined) as rows:
            forest = open_forest(rows, owner)
            frame = self._frame(forest, owner, called, [turn], None, given)
            first = parse_turns([turn], frame, self._limits)[0]
            forest = self._forest(rows, forest, frame, called)
            name = asked or session_for(rows.running, forest.id, first.occurred_at, self._session_gap)
            head = rows.lock_session(forest, name, first.occurred_at, Lane.LIVE, trace)
            rows.describe_session(head.id, about_session, channel, given.key if given else None)
            frame = replace(_resumed(frame, head, forest, given), first_ordinal=head.turn_count)
            new = parse_turns([turn], frame, self._limits)
            if self._known(rows, head.id, new[0]):
                new = []
            if new:
                self._quotas.check(rows, tenant, Lane.LIVE)
            held_for_s = None if close else self._settings.quiet_s
            cells, windows = self._store_turns(rows, forest, head, new, held_for_s)
        self._quotas.note(tenant, cells, len(new))
        self._wake(tenant, joined, head.id, windows)
        return Accepted(forest.id, head.id, head.turn_count + len(new), len(new), windows, name)

    @repeated
    def progress(self, tenant: TenantId, owner: str, session_id: str) -> SessionProgress:
        """How far a session has come. Raises InvalidInput, NotFound."""
        owner, session_id = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        with accepting(self._engine, tenant) as rows:
            forest = rows.find_forest(owner)
            found = forest and rows.progress(forest.id, derive_session_id(forest.id, session_id))
        if not found:
            raise NotFound(f"No session {session_id!r:.80} of owner {owner!r:.80}: enqueue it first.")
        return found

    def status(self, tenant: TenantId, owner: str, session_id: str) -> SessionProgress:
        """How far a session has come, and why no further: ``last_error``. Raises InvalidInput, NotFound."""
        found = self.progress(tenant, owner, session_id)
        if found.ready and not found.repaired + found.verbatim:
            return found
        return replace(found, last_error=self.last_error(tenant, owner, session_id))

    @repeated
    def last_error(self, tenant: TenantId, owner: str, session_id: str) -> WorkError | None:
        """What the last failed try of a session's unfinished work ended with. Raises InvalidInput."""
        owner, session_id = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        with accepting(self._engine, tenant) as rows:
            forest = rows.find_forest(owner)
            return None if forest is None else rows.last_error(derive_session_id(forest.id, session_id))

    @repeated
    def quota(self, tenant: TenantId) -> Quota:
        """A tenant's limits, and how much of them is used now. Raises StoreUnavailable."""
        with accepting(self._engine, tenant) as rows:
            return self._quotas.quota(rows)

    @repeated
    def set_limits(self, tenant: TenantId, limits: TenantLimits) -> None:
        """Change a tenant's own limits; other processes follow within seconds.

        Raises InvalidInput, StoreUnavailable.
        """
        for value in (limits.max_waiting_cells, limits.max_turns_per_day):
            if value is not None and not 1 <= value <= MAX_LIMIT:
                raise InvalidInput(f"Set a limit between 1 and {MAX_LIMIT}.", code="invalid_limit")
        with accepting(self._engine, tenant) as rows:
            rows.set_limits(limits)
        self._quotas.forget(tenant)

    @staticmethod
    def _called(display_name: str | None) -> str | None:
        return None if display_name is None else checked_name(display_name, "display_name")

    def _about(self, metadata: Mapping[str, object] | None) -> dict[str, object] | None:
        return None if metadata is None else checked_metadata(metadata, "The session", self._limits)

    def _forest(self, rows: AcceptRows, forest: ForestRef | None, frame: SessionFrame, called: str | None) -> ForestRef:
        """The owner's forest, made in the session's zone when missing, under the name the owner is called by now."""
        forest = forest or rows.ensure_forest(frame.owner, ForestId(uuid4()), frame.zone.key)
        if called is not None and called != forest.display_name:
            rows.set_display_name(forest, called)
        return forest

    def _frame(
        self,
        forest: ForestRef | None,
        owner: str,
        called: str | None,
        turns: Sequence[object],
        started_at: object | None,
        given: ZoneInfo | None,
    ) -> SessionFrame:
        place = given or (zone(forest.time_zone) if forest else self._zone)
        name = called or (forest.display_name if forest else None)
        start, ahead = self._start(turns, place, started_at)
        elsewhere = forest is not None and forest.time_zone != place.key
        return SessionFrame(owner, place, start, display_name=name, utc_offset=ahead, elsewhere=elsewhere)

    def _start(
        self, turns: Sequence[object], place: ZoneInfo, started_at: object | None
    ) -> tuple[datetime, int | None]:
        """When a session begins: as given, at its first dated turn, or now; with its offset. Raises InvalidInput."""
        if started_at is not None:
            return parse_timestamp(started_at, place, "started_at"), utc_offset(started_at)
        if isinstance(turns, Sequence) and not isinstance(turns, str | bytes):
            for number, raw in enumerate(turns, start=1):
                stamp = raw.get("timestamp") if isinstance(raw, Mapping) else None
                if stamp is not None:
                    return parse_timestamp(stamp, place, f"Turn {number}"), utc_offset(stamp)
        return self._now(), None

    @staticmethod
    def _known(rows: AcceptRows, session: SessionId, turn: Turn) -> bool:
        """Whether a turn with the caller's id is stored already; another content is a conflict."""
        if turn.generated:
            return False
        old = rows.turn_named(session, turn.id)
        if old is not None and not old.same_as(turn):
            raise SessionConflict(f"Turn id {turn.id!r:.80} is stored with other content: send it under a new id.")
        return old is not None

    def _store_turns(
        self,
        rows: AcceptRows,
        forest: ForestRef,
        session: SessionHead,
        fresh: Sequence[Turn],
        held_for_s: float | None,
    ) -> tuple[int, int]:
        """Store new turns and the cells they make; how many cells, and how many windows became ready.

        With ``held_for_s`` the last cell, if it is not full, stays open for that many seconds.
        """
        if not fresh and held_for_s is not None:
            return 0, 0
        tail = rows.held_tail(session.id)
        if not fresh and tail is None:
            return 0, 0
        first_ordinal, turns = session.cell_count, list(fresh)
        if tail is not None:
            first_ordinal, first_turn = tail
            turns = rows.turns(session.id, first_turn) + turns
        if fresh:
            rows.add_turns(forest.id, session.id, fresh)
        cells = assign_windows(cut_cells(turns, first_ordinal, self._cutting), self._cutting)
        held = held_for_s is not None and not cells[-1].full
        if held:
            cells[-1] = replace(cells[-1], window=cells[-1].ordinal)
        rows.put_cells(forest.id, session.id, cells, session.lane, held_for_s)
        rows.set_counts(session.id, turns[-1].ordinal + 1, cells[-1].ordinal + 1)
        return len(cells), len({cell.window for cell in (cells[:-1] if held else cells)})

    def _wake(self, tenant: TenantId, joined: object | None, session: SessionId, windows: int) -> None:
        """Wake extraction after the commit; inside the caller's transaction the reconciler does it."""
        if windows and joined is None:
            # One task for each window, and one that makes the raw cells' vectors while these wait for the model.
            self._wakeups.send(Queue.EXTRACT, tenant, session, min(windows + 1, self._max_wakeups))
