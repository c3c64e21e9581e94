"""What an app server imports to hand over conversations: light, and safe inside its own transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import Self

from memforest_core.accept.quotas import Quota, when_there_is_room
from memforest_core.accept.records import Backlog, SessionProgress, Stage, TenantLimits
from memforest_core.accept.service import Accepted
from memforest_core.bootstrap.producer import Producer, open_producer
from memforest_core.domain.ids import TenantId
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput
from memforest_core.settings import Settings, load_settings
from memforest_core.work.dead import DeadLetters
from memforest_core.work.dead_opening import open_deadletters
from memforest_core.work.jobs import Lane
from memforest_core.work.waiting import Steps, waited

WAIT_STAGES = {"raw": Stage.RAW, "facts": Stage.FACTS, "summaries": Stage.SUMMARIES}
DEFAULT_TIMEOUT_S = 300.0
ROOM_TIMEOUT_S = 3_600.0
"""How long a bulk import waits for room in the queue, for one session."""


def stage_named(name: str) -> Stage | None:
    """The stage to wait for: "none" (no waiting), "raw", "facts" or "summaries". Raises InvalidInput."""
    if name == "none":
        return None
    try:
        return WAIT_STAGES[name]
    except KeyError:
        raise InvalidInput(
            f"Set wait to none, raw, facts or summaries, not {name!r:.40}.", code="invalid_wait"
        ) from None


@dataclass(frozen=True, slots=True)
class SessionHandle:
    """An accepted session: the same for the same session, however often it is sent."""

    owner: str
    session_id: str
    accepted: Accepted = field(compare=False)
    _client: MemForestClient = field(compare=False, repr=False)

    def status(self) -> SessionProgress:
        """How far the session has come."""
        return self._client.status(self.owner, self.session_id)

    def wait(self, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S) -> SessionProgress:
        """Wait until its raw cells, facts or summaries can be asked for. Raises WaitTimeout."""
        return self._client.wait(self.owner, self.session_id, stage, timeout_s)


class MemForestClient:
    """Accepts sessions for one tenant. Thread-safe; opens connections on first use."""

    def __init__(self, settings: Settings | None = None, *, producer: Producer | None = None) -> None:
        self.settings = settings or load_settings()
        self._tenant = TenantId(checked_name(self.settings.tenant, "tenant"))
        self._producer = producer or open_producer(self.settings)

    @property
    def tenant(self) -> TenantId:
        """The tenant that everything here belongs to."""
        return self._tenant

    @cached_property
    def dead(self) -> DeadLetters:
        """The tenant's work that was given up: list it, look at it, try it again or let it go."""
        return open_deadletters(self._producer.engine, self.settings, self._producer.wakeups)

    def enqueue(
        self,
        owner: str,
        session_id: str,
        turns: Sequence[object],
        *,
        started_at: object | None = None,
        display_name: str | None = None,
        backfill: bool = False,
        transaction: object | None = None,
        trace: str | None = None,
        room_timeout_s: float = 0.0,
    ) -> SessionHandle:
        """Store a session and wake the workers; returns as soon as it is durable.

        ``turns`` are objects with role and content, and optionally id, timestamp (ISO 8601 or unix), speaker_id, name
        and metadata; messages of the openai and LangChain packages are taken as they are. ``display_name`` is what an
        owner is called whose id is no name; it stays until another is given. ``backfill`` puts the session behind live
        ones. ``transaction`` is an open SQLAlchemy connection or session whose commit then stores the session together
        with the app's own data. ``trace`` is the W3C traceparent to follow a new session under. A full queue refuses;
        with ``room_timeout_s`` the call first waits that many seconds for room (not for one inside a transaction: it
        would be held open meanwhile).

        Raises InvalidInput, SessionConflict, StoreUnavailable, and QuotaExceeded, whose ``retry_after`` says in how
        many seconds to come back; nothing is stored then.
        """
        return waited(
            self.enqueue_steps(
                owner,
                session_id,
                turns,
                started_at=started_at,
                display_name=display_name,
                backfill=backfill,
                transaction=transaction,
                trace=trace,
                room_timeout_s=room_timeout_s,
            )
        )

    def enqueue_steps(
        self,
        owner: str,
        session_id: str,
        turns: Sequence[object],
        *,
        started_at: object | None = None,
        display_name: str | None = None,
        backfill: bool = False,
        transaction: object | None = None,
        trace: str | None = None,
        room_timeout_s: float = 0.0,
    ) -> Steps[SessionHandle]:
        """``enqueue`` in short steps, for callers that sleep in their own way while the queue is full."""
        lane = Lane.BACKFILL if backfill else Lane.LIVE

        def attempt() -> Accepted:
            with self._producer.tracer.span("enqueue", trace, session=str(session_id)) as own:
                return self._producer.acceptance.enqueue(
                    self._tenant,
                    owner,
                    session_id,
                    turns,
                    started_at=started_at,
                    display_name=display_name,
                    lane=lane,
                    joined=transaction,
                    trace=own,
                )

        accepted = yield from when_there_is_room(attempt, room_timeout_s, time.monotonic)
        return SessionHandle(owner, session_id, accepted, self)

    def append(
        self,
        owner: str,
        session_id: str,
        turn: object,
        *,
        display_name: str | None = None,
        close: bool = False,
        transaction: object | None = None,
        trace: str | None = None,
    ) -> SessionHandle:
        """Add one turn to a running session; it waits up to ``accept.quiet_s`` for the second turn of its cell.

        With ``close`` it is extracted at once: for the last turn, or one that is waited for. Raises as ``enqueue``.
        """
        with self._producer.tracer.span("append", trace, session=str(session_id)) as own:
            accepted = self._producer.acceptance.append(
                self._tenant,
                owner,
                session_id,
                turn,
                display_name=display_name,
                close=close,
                joined=transaction,
                trace=own,
            )
        return SessionHandle(owner, session_id, accepted, self)

    def enqueue_stream(
        self,
        sessions: Iterable[tuple[str, str, Sequence[object]]],
        *,
        backfill: bool = True,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> Iterator[SessionHandle]:
        """Enqueue (owner, session id, turns) as they come, as a backfill unless told otherwise; a handle for each.

        Nothing is kept, so any number of sessions takes the memory of one. When the queue is full it waits for room,
        at most ``room_timeout_s`` seconds for one session, and then raises QuotaExceeded; else raises as ``enqueue``.
        What was handed over before an error is stored, and free to be sent again.
        """
        for owner, session_id, turns in sessions:
            yield self.enqueue(owner, session_id, turns, backfill=backfill, room_timeout_s=room_timeout_s)

    def enqueue_many(
        self,
        sessions: Iterable[tuple[str, str, Sequence[object]]],
        *,
        backfill: bool = True,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> list[SessionHandle]:
        """As ``enqueue_stream``, with all handles at the end; they hold ids and counts, no turns."""
        return list(self.enqueue_stream(sessions, backfill=backfill, room_timeout_s=room_timeout_s))

    def quota(self, tenant: str | None = None) -> Quota:
        """The limits of a tenant (this one by default), and how much of them is used now."""
        return self._producer.acceptance.quota(self._named(tenant))

    def set_limits(self, limits: TenantLimits, tenant: str | None = None) -> None:
        """Give a tenant (this one by default) limits of its own; None takes the settings'. Raises InvalidInput."""
        self._producer.acceptance.set_limits(self._named(tenant), limits)

    def _named(self, tenant: str | None) -> TenantId:
        return self._tenant if tenant is None else TenantId(checked_name(tenant, "tenant"))

    def status(self, owner: str, session_id: str) -> SessionProgress:
        """How far a session has come, and why no further: ``last_error``. Raises NotFound."""
        progress = self._producer.acceptance.progress(self._tenant, owner, session_id)
        if progress.ready:
            return progress
        return replace(progress, last_error=self._producer.acceptance.last_error(self._tenant, owner, session_id))

    def wait(self, owner: str, session_id: str, stage: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> SessionProgress:
        """Wait until a session has reached a stage. Raises WaitTimeout (with ``last_error``), NotFound."""
        return waited(self.wait_steps(owner, session_id, stage, timeout_s))

    def wait_steps(
        self, owner: str, session_id: str, stage: str, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Steps[SessionProgress]:
        """``wait`` in short steps, for callers that sleep in their own way."""
        wanted = stage_named(stage)
        if wanted is None:
            return self.status(owner, session_id)
        acceptance = self._producer.acceptance
        return (
            yield from self._producer.flushing.wait_session(
                self._tenant,
                owner,
                lambda: acceptance.progress(self._tenant, owner, session_id),
                lambda: acceptance.last_error(self._tenant, owner, session_id),
                wanted,
                timeout_s,
            )
        )

    def flush(self, owner: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Backlog:
        """Wait until all that was accepted for the owner is placed, refreshed and indexed."""
        return waited(self.flush_steps(owner, timeout_s))

    def flush_steps(self, owner: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Steps[Backlog]:
        """``flush`` in short steps."""
        return self._producer.flushing.flush(self._tenant, owner, timeout_s)

    def close(self) -> None:
        """Release connections."""
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
