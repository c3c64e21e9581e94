"""What an app server imports to hand over conversations: light, and safe inside its own transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial, update_wrapper
from inspect import getattr_static, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, get_type_hints

from memforest_core.assistant.profile.persons import note_id, note_turn
from memforest_core.assistant.topics.records import Match
from memforest_core.client.handles import Operation, SessionHandle
from memforest_core.client.route_table import ROUTES
from memforest_core.client.services.producer_services import Producer, open_producer
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput
from memforest_core.ingest.accept.quotas import when_there_is_room
from memforest_core.ingest.accept.records import Accepted, Backlog, Quota, SessionProgress, Stage, TenantLimits
from memforest_core.ingest.accept.service import Acceptance
from memforest_core.observe.webhooks.service import Webhooks
from memforest_core.settings import Settings, load_settings
from memforest_core.store.deadlines import within
from memforest_core.store.engine import Connection
from memforest_core.work.dead import DeadLetters
from memforest_core.work.jobs import Lane
from memforest_core.work.messages import MAX_WAKEUPS
from memforest_core.work.rows.dead_rows import DeadRows
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S, Steps, steps_of, waited, waiting

if TYPE_CHECKING:
    from memforest_core.assistant.topics.matching import Matching

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F")

SessionInput: TypeAlias = tuple[str, str, Sequence[TurnInput]]
"""A session of a bulk import: the owner's id, the session's id, its turns."""

WAIT_STAGES = {"none": None, "raw": Stage.RAW, "facts": Stage.FACTS, "summaries": Stage.SUMMARIES}
LEAST_STORING_S = 5.0
"""What a call that waits for a stage may take to store, however short the wait."""
ROOM_TIMEOUT_S = 3_600.0
"""How long a bulk import waits for room in the queue, for one session."""


def stage_named(name: str) -> Stage | None:
    """The stage to wait for: "none" (no waiting), "raw", "facts" or "summaries". Raises InvalidInput."""
    if name not in WAIT_STAGES:
        raise InvalidInput(f"Set wait to none, raw, facts or summaries, not {name!r:.40}.", code="invalid_wait")
    return WAIT_STAGES[name]


def _timely(wait: str, timeout_s: float) -> AbstractContextManager[None]:
    """A block that stores what is then waited for: that ends with the wait too, but may take LEAST_STORING_S."""
    return nullcontext() if wait == "none" else within(max(LEAST_STORING_S, timeout_s))


def completed(services: type, prefix: str) -> Callable[[type[F]], type[F]]:
    """Complete a face's class with the methods of the routes below a ``prefix`` whose services it has."""

    def made(face: type[F]) -> type[F]:
        for route in ROUTES.values():
            holder, _, name = route.name.rpartition(".")
            part, _, method = route.service.partition(".")
            if part and holder == prefix:
                setattr(face, name, _served(part, getattr(_kind_of(services, part), method or name), route.starts))
        return face

    return made


def _kind_of(services: type, part: str) -> type:
    """The class of a service, as its maker says."""
    member = getattr_static(services, part)
    kind: type = get_type_hints(member.func if isinstance(member, cached_property) else member.fget)["return"]
    return kind


def _served(part: str, method: Callable[..., Any], starts: OperationKind | None) -> Callable[..., Any]:
    """A method of a face that is the method of a service, for its tenant: documented where it is done."""

    def called(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        found = method(getattr(self._parts, part), self._tenant, *args, **kwargs)
        return found if starts is None else self._started(found, starts)

    without_tenant(called, method, None if starts is None else Operation)
    return waiting(called) if str(signature(called).return_annotation).startswith("Steps[") else called


def served(
    part: Callable[[Any], S], method: Callable[Concatenate[S, TenantId, P], T]
) -> Callable[Concatenate[Any, P], T]:
    """A method of a face that is the method of a service, its ``part``, for its tenant: documented where it is done."""

    def called(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(part(self), self._tenant, *args, **kwargs)

    without_tenant(called, method)
    return called


def without_tenant(called: Callable[..., Any], method: Callable[..., Any], returned: type | None = None) -> None:
    """Give a method the documentation and the signature of another one that it calls for its tenant.

    ``returned`` is what it returns instead. ``part_of`` names an operation that only services know.
    """
    update_wrapper(called, method)
    own = signature(method)
    called.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[each for name, each in own.parameters.items() if name not in ("tenant", "part_of")],
        return_annotation=own.return_annotation if returned is None else returned.__name__,
    )
    if returned is not None:
        called.__annotations__ = {**called.__annotations__, "return": returned}


def _acceptance(client: MemForestClient) -> Acceptance:
    return client._producer.acceptance


class MemForestClient:
    """Accepts sessions for one tenant. Thread-safe; opens connections on first use.

    In all methods ``owner`` and ``session_id`` are the caller's ids, at most 512 characters each.
    """

    def __init__(
        self, settings: Settings | None = None, *, producer: Producer | None = None, tenant: TenantId | None = None
    ) -> None:
        """``settings`` are read from the environment unless given; a ``producer`` that is open already is shared.
        ``tenant`` is that of the settings unless given."""
        self._settings = settings or load_settings()
        self._tenant = tenant or TenantId(checked_name(self._settings.tenant, "tenant"))
        self._opened = producer or open_producer(self._settings)
        self._written = set[str]()
        """Owners that this object stored turns of."""

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._settings

    @property
    def tenant(self) -> TenantId:
        """The tenant that everything here belongs to."""
        return self._tenant

    @property
    def _producer(self) -> Producer:
        """The accepting side, for each call."""
        return self._opened

    @cached_property
    def dead(self) -> DeadLetters:
        """The tenant's dead letters: list them, look at one, retry or discard it."""
        rows, most = partial(DeadRows.opened, self._producer.engine), MAX_WAKEUPS
        return DeadLetters(rows, self._producer.wakeups, self._tenant, most)

    @cached_property
    def webhooks(self) -> Webhooks:
        """The tenant's webhooks: which addresses get events, and what was delivered."""
        return Webhooks(self._producer.engine, self.settings.webhooks, self._tenant)

    @waiting
    def enqueue(
        self,
        owner: str,
        session_id: str,
        turns: Sequence[TurnInput],
        *,
        wait: str = "none",
        started_at: object | None = None,
        display_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        channel: str | None = None,
        time_zone: str | None = None,
        backfill: bool = False,
        transaction: Connection | None = None,
        trace: str | None = None,
        room_timeout_s: float = 0.0,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Steps[SessionHandle]:
        """Store a session and wake the workers; returns as soon as it is durable.

        ``turns`` are mappings as TurnInput; messages of chat APIs are taken as they are (docs/input.md).
        ``wait`` is "none", "raw", "facts" or "summaries": the stage to wait for, at most ``timeout_s`` seconds.
        ``started_at`` is the time of turns without one (ISO 8601, unix seconds or a datetime; now unless given).
        ``display_name`` is what an owner is called whose id is no name; it stays until another is given. ``metadata``
        are the session's own fields (JSON values), by which recall can filter, ``channel`` is where it takes place (at
        most 200 characters), to which recall can be bounded; given again, they replace the former. So does
        ``time_zone`` (an IANA name): where the session's speakers are, and a new owner; otherwise the owner's zone.
        ``backfill`` puts the session behind live ones. ``transaction`` is an open SQLAlchemy connection (or ORM
        session) whose commit then stores the session together with the app's own data; it can't be waited for.
        ``trace`` is the W3C traceparent to follow a new session under. A full queue refuses; with ``room_timeout_s``
        the call first waits that many seconds for room.

        Raises InvalidInput, SessionConflict, StoreUnavailable, and QuotaExceeded, whose ``retry_after`` says in how
        many seconds to come back; nothing is stored then. Raises WaitTimeout when the stage is not reached in time;
        the session is stored.
        """
        _check_wait(wait, transaction)
        producer, lane = self._producer, Lane.BACKFILL if backfill else Lane.LIVE

        def attempt() -> Accepted:
            with _timely(wait, timeout_s), producer.tracer.span("enqueue", trace, session=str(session_id)) as own:
                return producer.acceptance.enqueue(
                    self._tenant,
                    owner,
                    session_id,
                    turns,
                    started_at=started_at,
                    display_name=display_name,
                    metadata=metadata,
                    channel=channel,
                    time_zone=time_zone,
                    lane=lane,
                    joined=transaction,
                    trace=own,
                )

        accepted = yield from when_there_is_room(attempt, room_timeout_s, time.monotonic)
        self._written.add(owner)
        yield from self._reached(owner, session_id, wait, timeout_s)
        return SessionHandle(owner, session_id, accepted, self)

    ingest = enqueue

    @waiting
    def append(
        self,
        owner: str,
        session_id: str | None,
        turn: TurnInput,
        *,
        wait: str = "none",
        display_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        channel: str | None = None,
        time_zone: str | None = None,
        close: bool = False,
        transaction: Connection | None = None,
        trace: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Steps[SessionHandle]:
        """Add one turn to a running session; without a ``session_id`` (None) to the one that runs, which the handle
        names. A turn that comes more than ``accept.session_gap_h`` hours after the last one begins the next session.

        It waits up to ``accept.quiet_s`` seconds for the second turn of its cell, and is searchable meanwhile. With
        ``close``, or ``wait`` "facts" or "summaries", the cell is closed instead and extracted at once; the next turn
        begins a new cell. The other arguments, and what is raised, are those of ``enqueue``.

        The handle of a ``MemForest`` names the ``topic`` of the turn, which is stored with it (the setting
        topics.match_on_append). A turn that a ``transaction`` carries, or a ``MemForestClient`` appends, is not
        compared: workers find its topic.
        """
        _check_wait(wait, transaction)
        matching = self._matching(turn) if transaction is None else None
        closes = close or WAIT_STAGES[wait] in (Stage.FACTS, Stage.SUMMARIES)
        with _timely(wait, timeout_s), self._producer.tracer.span("append", trace, session=str(session_id)) as own:
            accepted = self._producer.acceptance.enqueue(
                self._tenant,
                owner,
                session_id,
                [turn],
                display_name=display_name,
                metadata=metadata,
                channel=channel,
                time_zone=time_zone,
                appends=True,
                close=closes,
                joined=transaction,
                trace=own,
                placing=None if matching is None else matching.place,
            )
        self._written.add(owner)
        found = Match() if matching is None else matching.ended()
        yield from self._reached(owner, accepted.session, wait, timeout_s)
        return SessionHandle(owner, accepted.session, accepted, self, found.topic, found.degraded)

    def _matching(self, turn: TurnInput) -> Matching | None:
        """What finds the topic of a turn: nothing does without models."""
        return None

    @waiting
    def remember(
        self,
        owner: str,
        text: str,
        about: str | None = None,
        *,
        alias: str | None = None,
        at: object | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        wait: str = "none",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Steps[SessionHandle]:
        """Keep a note: a statement such as "I moved to Miami", as a session of one turn whose facts are pinned.

        ``about`` is whom it is about, and "I" in it (a speaker's id or name, or another name); the owner unless
        given. ``alias`` is another name of theirs, which finds them while the note is stored; a text such as "gruzilkin
        is Sergey" gives one itself when either is a speaker. A name of another speaker is refused (InvalidInput); in a
        text it is no alias, and ``degraded`` of the handle says so. ``at`` is its time (ISO 8601, unix seconds or a
        datetime; now unless given): of two notes that contradict each other the later one is current; the timeline has
        both. ``session_id`` is the note's own id; the same note again under it changes nothing. ``metadata``, ``wait``
        and what is raised are as in ``enqueue``.
        """
        stage_named(wait)
        name = note_id() if session_id is None else checked_name(session_id, "session_id")
        producer = self._producer
        with _timely(wait, timeout_s), producer.tracer.span("remember", None, session=name) as own:
            given = (text, about, at, alias, producer.acceptance.redactor, name)
            turn, degraded = note_turn(producer.engine, self._tenant, owner, *given)
            accepted = producer.acceptance.enqueue(
                self._tenant, owner, name, [turn], metadata=metadata, trace=own, note=True
            )
        self._written.add(owner)
        yield from self._reached(owner, name, wait, timeout_s)
        return SessionHandle(owner, name, accepted, self, degraded=degraded)

    def enqueue_stream(
        self, sessions: Iterable[SessionInput], *, backfill: bool = True, room_timeout_s: float = ROOM_TIMEOUT_S
    ) -> Iterator[SessionHandle]:
        """Enqueue (owner, session id, turns) as they come, as a ``backfill`` unless that is False; a handle for each.

        Any number of sessions takes the memory of one. When the queue is full it waits for room,
        at most ``room_timeout_s`` seconds for one session, and then raises QuotaExceeded; else raises as ``enqueue``.
        What was handed over before an error is stored, and may be sent again.
        """
        for owner, session_id, turns in sessions:
            yield self.enqueue(owner, session_id, turns, backfill=backfill, room_timeout_s=room_timeout_s)

    @waiting
    def enqueue_many(
        self,
        sessions: Iterable[SessionInput],
        *,
        wait: str = "none",
        backfill: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> Steps[list[SessionHandle]]:
        """As ``enqueue_stream``, with all handles at the end; then wait for all of them, as ``enqueue`` does.

        The handles hold ids and counts, no turns. ``timeout_s`` are the seconds to wait for one session.
        """
        stage_named(wait)
        handles = []
        for owner, session_id, turns in sessions:
            stored = steps_of(MemForestClient.enqueue)(
                self, owner, session_id, turns, backfill=backfill, room_timeout_s=room_timeout_s
            )
            handles.append((yield from stored))
        for handle in handles:
            yield from self._reached(handle.owner, handle.session_id, wait, timeout_s)
        return handles

    ingest_many = enqueue_many

    session_start = served(_acceptance, Acceptance.session_start)
    session_switch = served(_acceptance, Acceptance.session_switch)
    session_close = served(_acceptance, Acceptance.session_close)
    session_current = served(_acceptance, Acceptance.session_current)

    status = served(_acceptance, Acceptance.status)

    def quota(self, tenant: str | None = None) -> Quota:
        """The limits of a ``tenant`` (this one by default), and how much of them is used now."""
        return self._producer.acceptance.quota(self._named(tenant))

    def set_limits(self, limits: TenantLimits, tenant: str | None = None) -> None:
        """Give a ``tenant`` (this one by default) limits of its own; None takes the settings'. Raises InvalidInput."""
        self._producer.acceptance.set_limits(self._named(tenant), limits)

    def _named(self, tenant: str | None) -> TenantId:
        return self._tenant if tenant is None else TenantId(checked_name(tenant, "tenant"))

    @waiting
    def wait(
        self, owner: str, session_id: str, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Steps[SessionProgress]:
        """Wait, at most ``timeout_s`` seconds, until a session's "raw" cells, "facts" or "summaries" can be recalled.

        Raises NotFound, and WaitTimeout whose ``last_error`` says why it goes no further.
        """
        reached = yield from self._reached(owner, session_id, stage, timeout_s)
        return self.status(owner, session_id) if reached is None else reached

    def _reached(self, owner: str, session_id: str, stage: str, timeout_s: float) -> Steps[SessionProgress | None]:
        """Wait for a stage; None for "none"."""
        wanted = stage_named(stage)
        if wanted is None:
            return None
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

    @waiting
    def flush(self, owner: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Steps[Backlog]:
        """Wait, at most ``timeout_s`` seconds, until all that was accepted for the owner is durable, placed, refreshed
        and indexed. Raises NotFound, WaitTimeout."""
        return self._producer.flushing.flush(self._tenant, owner, timeout_s)

    def close(self, *, summarize: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Release connections, and stop the embedded node, if there is one.

        With ``summarize`` it first does for every owner that this object stored turns of what ``flush`` does: open
        cells are extracted, and summaries of their sessions made. It waits at most ``timeout_s`` seconds in all; then
        everything is closed all the same, and WaitTimeout says what the first has left: workers, or the next start of
        an embedded node, go on with it.
        """
        try:
            if summarize:
                waited(self._producer.flushing.flush_all(self._tenant, sorted(self._written), timeout_s))
        finally:
            self._release()

    def _release(self) -> None:
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_wait(wait: str, transaction: object | None) -> None:
    if stage_named(wait) is not None and transaction is not None:
        raise InvalidInput("Commit the transaction before you wait for its session.", code="invalid_wait")
