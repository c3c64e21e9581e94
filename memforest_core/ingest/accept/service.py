"""The one way in: a session is stored whole in one transaction, or not at all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memforest_core.domain.cells import Cutting, assign_windows, cut_cells
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.ids import ForestId, SessionId, TenantId
from memforest_core.domain.ids import session_id as derived_id
from memforest_core.domain.turns import (
    SessionFrame,
    Turn,
    TurnLimits,
    checked_channel,
    checked_messages,
    checked_metadata,
    checked_name,
    checked_zone,
    parse_timestamp,
    parse_turns,
    timestamp_of,
    utc_offset,
)
from memforest_core.errors import ForestFrozen, InvalidInput, InvalidSettings, NotFound, SessionConflict
from memforest_core.ingest.accept.progress_rows import ProgressRows
from memforest_core.ingest.accept.quotas import Quotas
from memforest_core.ingest.accept.records import (
    Accepted,
    Quota,
    RunningSession,
    SessionHead,
    SessionProgress,
    TenantLimits,
)
from memforest_core.ingest.accept.redaction import NOTHING, Redactor, counted
from memforest_core.ingest.accept.rows import AcceptRows, accepting
from memforest_core.settings import AcceptSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import NO_OWNER, ForestRef, known
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import Lane, WorkError
from memforest_core.work.messages import Queue, WakeUps

Placing = Callable[[AcceptRows, ForestId, SessionId, Turn], None]
"""What gives a turn its topic, in the transaction that stores it."""


def open_forest(rows: AcceptRows, owner: str) -> ForestRef | None:
    """The owner's forest. Raises ForestFrozen while it takes no sessions."""
    forest = rows.find_forest(owner)
    if forest is not None and forest.frozen:
        raise ForestFrozen(f"Owner {owner!r:.80} is being merged into another: send it again in some seconds.")
    return forest


def generated_session(moment: datetime) -> str:
    """A new session id that says when the session began."""
    return f"{moment:%Y%m%dT%H%M%S}-{uuid4().hex[:8]}"


def session_for(rows: AcceptRows, forest: ForestId, said_at: datetime, gap: timedelta) -> str:
    """The session that a turn without a session id belongs to, locked by this transaction."""
    name = rows.lock_running(forest, generated_session(said_at))
    _, last_at = rows.turns_so_far(forest, name)
    if last_at is not None and said_at - last_at > gap:
        name = generated_session(said_at)
        rows.begin(forest, name)
    return name


MAX_LIMIT = 2**31 - 1
"""The largest value of a column for a limit."""


def zone(name: str) -> ZoneInfo:
    """The IANA zone of that name, or InvalidSettings."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise InvalidSettings(
            f"Set the time zone to an IANA name such as Europe/Paris; {name!r:.60} is not known."
        ) from None


def _new_turns(
    rows: AcceptRows, session: SessionId, stored: Sequence[Turn] | None, parsed: list[Turn], redactor: Redactor
) -> list[Turn]:
    """The turns behind those that are ``stored``, or without these (None) those whose ids are not in the session.

    Raises SessionConflict for one that is stored with other content; what was stored before it would be masked is equal
    to what is masked now.
    """

    def same(old: Turn, new: Turn) -> bool:
        return old.same_as(new) or replace(old, content=redactor.masked(old.content)[0]).same_as(new)

    if stored is not None:
        for old, new in zip(stored, parsed, strict=False):
            if not same(old, new):
                raise SessionConflict(
                    f"Turn {new.ordinal + 1} differs from the stored one: send it under a new session id."
                )
        return parsed[len(stored) :]
    fresh: list[Turn] = []
    for turn in parsed:
        known = None if turn.generated else rows.turn_named(session, turn.id)
        if known is None:
            fresh.append(turn)
        elif not same(known, turn):
            raise SessionConflict(f"Turn id {turn.id!r:.80} is stored with other content: send it under a new id.")
    return fresh


def _nothing_said(rows: AcceptRows, forest: ForestRef | None, name: str | None, *, appends: bool) -> Accepted:
    """What messages without words add to a session that has turns: nothing. Raises InvalidInput for a new one."""
    running = rows.running(forest.id) if forest and name is None else name
    if appends and forest and running and (count := rows.turns_so_far(forest.id, running)[0]):
        return Accepted(forest.id, derived_id(forest.id, running), count, 0, 0, running)
    raise InvalidInput("Send at least one turn with words; in these nobody says anything.", code="empty_session")


class Acceptance:
    """Accepts sessions and single turns; starts, switches and closes the session that runs."""

    def __init__(
        self,
        engine: Engine,
        wakeups: WakeUps,
        settings: AcceptSettings,
        max_wakeups: int,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
        redactor: Redactor = NOTHING,
    ) -> None:
        self._engine = engine
        self._wakeups = wakeups
        self._settings = settings
        self._max_wakeups = max_wakeups
        self._now = now
        self._quotas = Quotas(settings, clock)
        self.redactor = redactor
        """What masks a text before it is stored."""
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
        session_id: str | None,
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
        appends: bool = False,
        close: bool = False,
        placing: Placing | None = None,
    ) -> Accepted:
        """Store a session, or what is new of it, and wake extraction.

        The same turns again are a no-op, and never refused; more turns than stored extend the session.
        ``display_name`` is what the owner is called from now on, ``metadata``, ``channel`` and ``time_zone`` replace
        the session's, ``trace`` is the W3C traceparent under which a new session is followed. The facts of a new
        session that is a ``note`` are pinned when they are placed.

        With ``appends`` the turns follow those that are stored; one whose id is stored already adds nothing. Their last
        cell stays open for a second turn for the quiet period, unless ``close``. Without a ``session_id`` they go to
        the session that runs. ``placing`` is called for a single new turn in the transaction that stores it.

        What ``accept.redact`` names is masked first, and counted by kind in ``redacted``.

        Raises InvalidInput, SessionConflict, StoreUnavailable, and QuotaExceeded while too much waits or too much came
        within a day. Without a broker work is delayed, not refused.
        """
        owner = checked_name(owner, "owner")
        name = None if appends and session_id is None else checked_name(session_id, "session_id")
        called = None if display_name is None else checked_name(display_name, "display_name")
        masks: Counter[str] = Counter()
        masked = None if metadata is None else self.redactor.values(metadata, masks)
        fields = None if masked is None else checked_metadata(masked, "The session", self._limits)
        channel = None if channel is None else checked_channel(channel)
        given = None if time_zone is None else checked_zone(time_zone)
        found = self.redactor.turns(checked_messages(turns))
        messages = [message for message, _ in found]
        with accepting(self._engine, tenant, joined) as rows:
            forest = open_forest(rows, owner)
            if not messages:
                return _nothing_said(rows, forest, name, appends=appends)
            frame = self._frame(forest, owner, called, messages, started_at, given)
            forest = forest or rows.ensure_forest(owner, ForestId(uuid4()), frame.zone.key)
            if called is not None and called != forest.display_name:
                rows.set_display_name(forest, called)
            first_at = timestamp_of(messages[0], frame)
            name = name or session_for(rows, forest.id, first_at, self._session_gap)
            head = rows.lock_session(forest, name, first_at, lane, trace, note=note)
            rows.describe_session(head.id, fields, channel, given.key if given else None)
            stored = None if appends else [] if head.created else rows.turns(head.id)
            if given is None and head.time_zone != frame.zone.key:
                # What is added is in the session's own zone unless another is given.
                own = head.time_zone != forest.time_zone
                frame = replace(frame, zone=zone(head.time_zone), elsewhere=own)
            if appends:
                frame = replace(frame, first_ordinal=head.turn_count)
            elif stored:
                # Undated turns fall back on the stored start, whatever time it is now.
                frame = replace(frame, started_at=head.started_at)
            parsed = parse_turns(messages, frame, self._limits)
            fresh = _new_turns(rows, head.id, stored, parsed, self.redactor)
            if fresh:
                self._quotas.check(rows, tenant, lane)
            held_for_s = self._settings.quiet_s if appends and not close else None
            cells, windows = self._store_turns(rows, forest, head, fresh, held_for_s)
            if placing is not None and len(fresh) == 1:
                placing(rows, forest.id, head.id, fresh[0])
        self._quotas.note(tenant, cells, len(fresh))
        masks = sum((found[turn.ordinal - frame.first_ordinal][1] for turn in fresh), masks)
        if windows and joined is None:  # inside the caller's transaction the reconciler wakes extraction
            # One task for each window, and one that makes the raw cells' vectors while these wait for the model.
            self._wakeups.send(Queue.EXTRACT, tenant, head.id, min(windows + 1, self._max_wakeups))
        count = head.turn_count if stored is None else len(stored)
        return Accepted(forest.id, head.id, count + len(fresh), len(fresh), windows, name, counted(masks))

    @repeated
    def progress(self, tenant: TenantId, owner: str, session_id: str) -> SessionProgress:
        """How far a session has come. Raises InvalidInput, NotFound."""
        owner, session_id = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        with ProgressRows.opened(self._engine, tenant) as rows:
            forest = rows.find_forest(owner)
            found = forest and rows.progress(derived_id(forest, session_id))
        if not found:
            raise NotFound(f"No session {session_id!r:.80} of owner {owner!r:.80}: enqueue it first.")
        return found

    def status(self, tenant: TenantId, owner: str, session_id: str) -> SessionProgress:
        """How far a session has come, and why no further: ``last_error``. Raises NotFound."""
        found = self.progress(tenant, owner, session_id)
        if found.ready and not found.repaired + found.verbatim:
            return found
        return replace(found, last_error=self.last_error(tenant, owner, session_id))

    @repeated
    def last_error(self, tenant: TenantId, owner: str, session_id: str) -> WorkError | None:
        """What the last failed try of a session's unfinished work ended with. Raises InvalidInput."""
        owner, session_id = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        with ProgressRows.opened(self._engine, tenant) as rows:
            forest = rows.find_forest(owner)
            return None if forest is None else rows.last_error(derived_id(forest, session_id))

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

    @repeated
    def session_start(self, tenant: TenantId, owner: str, session_id: str | None = None) -> RunningSession:
        """Begin a session, for apps that have no session ids of their own: ``append`` without one goes to it.

        The session that ran before is left: it can be gone back to. Without a ``session_id`` one is made, from the time
        and a random part. Raises InvalidInput, ForestFrozen, StoreUnavailable.
        """
        owner = checked_name(owner, "owner")
        name = generated_session(self._now()) if session_id is None else checked_name(session_id, "session_id")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = open_forest(rows, owner) or rows.ensure_forest(owner, ForestId(uuid4()), self._settings.time_zone)
            rows.begin(forest.id, name)
            return RunningSession(owner, name, *rows.turns_so_far(forest.id, name))

    @repeated
    def session_switch(self, tenant: TenantId, owner: str, session_id: str) -> RunningSession:
        """Go on with a session of before: ``append`` without a session id goes to it now.

        Raises NotFound for a session that the owner does not have, else as ``session_start``.
        """
        owner, name = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = known(open_forest(rows, owner), owner, NO_OWNER)
            found = RunningSession(owner, name, *rows.turns_so_far(forest.id, name))
            if rows.running(forest.id) != name and not found.turns:
                raise NotFound(f"Owner {owner!r:.80} has no session {name!r:.80}.")
            rows.begin(forest.id, name)
            return found

    @repeated
    def session_close(
        self, tenant: TenantId, owner: str, session_id: str | None = None, *, summarize: bool = True
    ) -> RunningSession | None:
        """Close the session that runs, or the named one; None when none runs.

        The next turn without a session id begins a new one. With ``summarize`` the session's last cell is extracted at
        once instead of after the quiet period, and the refresh of its summaries is due; ``wait(owner, session_id,
        "summaries")`` waits for them. Raises NotFound for an owner or a session that does not exist, else as
        ``session_start``.
        """
        owner = checked_name(owner, "owner")
        named = None if session_id is None else checked_name(session_id, "session_id")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = known(open_forest(rows, owner), owner, NO_OWNER)
            name = named or rows.running(forest.id)
            if name is None:
                return None
            ran = rows.end(forest.id, name)
            closed = RunningSession(owner, name, *rows.turns_so_far(forest.id, name))
            if not ran and not closed.turns:
                raise NotFound(f"Owner {owner!r:.80} has no session {name!r:.80}.")
            id_ = derived_id(forest.id, name)
            ready = rows.release(id_) if summarize else 0
        if summarize:
            self._hurry(tenant, forest.id, id_, ready)
        return closed

    @repeated
    def summarize_session(self, tenant: TenantId, owner: str, session: str) -> None:
        """Extract a session's last cell and refresh its summaries at once; see ``MemForest.summarize``."""
        owner, name = checked_name(owner, "owner"), checked_name(session, "session_id")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = known(open_forest(rows, owner), owner, NO_OWNER)
            if not rows.turns_so_far(forest.id, name)[0]:
                raise NotFound(f"Owner {owner!r:.80} has no session {name!r:.80}.")
            id_ = derived_id(forest.id, name)
            ready = rows.release(id_)
        self._hurry(tenant, forest.id, id_, ready)

    def _hurry(self, tenant: TenantId, forest: ForestId, session: SessionId, ready: int) -> None:
        """Make what a session touches due, and wake those who do it; so many cells became ``ready``."""
        with ProgressRows.opened(self._engine, tenant) as rows:
            rows.make_due(forest, session)
        self._wakeups.send(Queue.EXTRACT if ready else Queue.REFRESH, tenant, session)

    @repeated
    def session_current(self, tenant: TenantId, owner: str) -> RunningSession | None:
        """The session that runs; None when none does. Raises InvalidInput, StoreUnavailable."""
        owner = checked_name(owner, "owner")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = rows.find_forest(owner)
            name = None if forest is None else rows.running(forest.id)
            if forest is None or name is None:
                return None
            return RunningSession(owner, name, *rows.turns_so_far(forest.id, name))

    def _frame(
        self,
        forest: ForestRef | None,
        owner: str,
        called: str | None,
        messages: Sequence[Mapping[str, object]],
        started_at: object | None,
        given: ZoneInfo | None,
    ) -> SessionFrame:
        """What the turns fall back on; they begin as given, at the first dated one, or now. Raises InvalidInput."""
        own = given or (zone(forest.time_zone) if forest else self._zone)
        dated = [
            (number, raw["timestamp"]) for number, raw in enumerate(messages, 1) if raw.get("timestamp") is not None
        ]
        number, stamp = (0, started_at) if started_at is not None or not dated else dated[0]
        start = self._now()
        if stamp is not None:
            start = parse_timestamp(stamp, own, f"Turn {number}" if number else "started_at")
        return SessionFrame(
            owner,
            own,
            start,
            display_name=called or (forest.display_name if forest else None),
            utc_offset=utc_offset(stamp),
            elsewhere=forest is not None and forest.time_zone != own.key,
        )

    def _store_turns(
        self, rows: AcceptRows, forest: ForestRef, session: SessionHead, fresh: Sequence[Turn], held_for_s: float | None
    ) -> tuple[int, int]:
        """Store new turns and the cells they make; how many cells, and how many windows became ready. With
        ``held_for_s`` a last cell that is not full stays open for that many seconds."""
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
            rows.add_turns(forest.id, session.id, fresh, note=session.note)
        cells = assign_windows(cut_cells(turns, first_ordinal, self._cutting), self._cutting)
        held = held_for_s is not None and not cells[-1].full
        if held:
            cells[-1] = replace(cells[-1], window=cells[-1].ordinal)
        rows.put_cells(forest.id, session.id, cells, session.lane, held_for_s)
        rows.set_counts(session.id, turns[-1].ordinal + 1, cells[-1].ordinal + 1)
        return len(cells), len({cell.window for cell in (cells[:-1] if held else cells)})
