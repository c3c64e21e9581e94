"""``RemoteMemForest``: the methods of ``MemForest`` over HTTP, by a key alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, update_wrapper
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import httpx

from memforest_core.client.handles import Operation, SessionHandle
from memforest_core.client.remote.calls import ROOM_TIMEOUT_S, Calls, LifecycleCalls
from memforest_core.client.remote.exchange import Ask, Exchange, result_of
from memforest_core.client.remote.operations import DeadOperations, WebhookOperations
from memforest_core.client.remote.records import KeyAnswer, Stored
from memforest_core.client.remote.routes import PREFIX
from memforest_core.client.remote.transport import Transport
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.domain.operations import OperationKind
from memforest_core.work.records import OperationTask
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S

P = ParamSpec("P")
C = TypeVar("C", covariant=True)
R = TypeVar("R", bound="Remote[Any]")
S = TypeVar("S")
T = TypeVar("T")


class Remote(Generic[C]):
    """Some calls over a transport."""

    def __init__(self, transport: Transport, calls: C) -> None:
        self._transport = transport
        self._calls = calls


def shown_as(called: Callable[P, T], method: Callable[..., Any]) -> Callable[P, T]:
    """Give a call the documentation and the signature of its exchange."""
    update_wrapper(called, method)
    own = signature(method)
    returned = str(own.return_annotation).removeprefix("Exchange[").removesuffix("]")
    called.__signature__ = own.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return called


def over(method: Callable[Concatenate[C, P], Exchange[T]]) -> Callable[Concatenate[Remote[C], P], T]:
    """A call that waits for its answer."""

    def called(remote: Remote[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return remote._transport.run(method(remote._calls, *args, **kwargs))

    return shown_as(called, method)


def _held(
    hold: Callable[[R, T], S], method: Callable[Concatenate[C, P], Exchange[T]]
) -> Callable[Concatenate[R, P], S]:
    """The same, for an answer that the caller gets something to hold of."""

    def called(remote: R, /, *args: P.args, **kwargs: P.kwargs) -> S:
        return hold(remote, remote._transport.run(method(remote._calls, *args, **kwargs)))

    return shown_as(called, method)


def _operation(lifecycle: RemoteLifecycle, task: OperationTask) -> Operation:
    return Operation(task.id, OperationKind(task.kind), lifecycle)


def _session(memory: RemoteMemForest, stored: Stored) -> SessionHandle:
    return SessionHandle(stored.owner, stored.session_id, stored.accepted, memory, stored.topic, stored.degraded)


class RemoteLifecycle(Remote[LifecycleCalls]):
    """Operations on stored memory, as ``Lifecycle``."""

    forget = _held(_operation, LifecycleCalls.forget)
    correct = _held(_operation, LifecycleCalls.correct)
    pin = _held(_operation, LifecycleCalls.pin)
    unpin = _held(_operation, LifecycleCalls.unpin)
    merge = _held(_operation, LifecycleCalls.merge)
    rematerialize = _held(_operation, LifecycleCalls.rematerialize)
    cancel = _held(_operation, LifecycleCalls.cancel)
    receipt = over(LifecycleCalls.receipt)
    pins = over(LifecycleCalls.pins)
    merge_conflicts = over(LifecycleCalls.merge_conflicts)
    rematerialize_plan = over(LifecycleCalls.rematerialize_plan)
    rematerialize_abandon = over(LifecycleCalls.rematerialize_abandon)
    export = over(LifecycleCalls.export)
    import_ = over(LifecycleCalls.import_)
    set_policy = over(LifecycleCalls.set_policy)
    clear_policy = over(LifecycleCalls.clear_policy)
    policies = over(LifecycleCalls.policies)
    preview_policy = over(LifecycleCalls.preview_policy)
    operation = over(LifecycleCalls.operation)
    operations = over(LifecycleCalls.operations)
    wait = over(LifecycleCalls.wait)
    ended = over(LifecycleCalls.ended)
    audit = over(LifecycleCalls.audit)

    def apply_policy(self, owner: str | None = None, *, actor: str, dry_run: bool = False) -> Sequence[Operation]:
        """As ``Lifecycle.apply_policy``."""
        tasks = self._transport.run(self._calls.apply_policy(owner, actor=actor, dry_run=dry_run))
        return [_operation(self, task) for task in tasks]


class RemoteDeadLetters(Remote[DeadOperations]):
    """Dead letters, as ``DeadLetters``."""

    list = over(DeadOperations.list)
    show = over(DeadOperations.show)
    retry = over(DeadOperations.retry)
    retry_all = over(DeadOperations.retry_all)
    discard = over(DeadOperations.discard)


class RemoteWebhooks(Remote[WebhookOperations]):
    """Webhooks, as ``Webhooks``."""

    create = over(WebhookOperations.create)
    list = over(WebhookOperations.list)
    delete = over(WebhookOperations.delete)
    enable = over(WebhookOperations.enable)
    rotate = over(WebhookOperations.rotate)
    deliveries = over(WebhookOperations.deliveries)
    replay = over(WebhookOperations.replay)


def tenant_of_key() -> Exchange[TenantId]:
    """The tenant that a key belongs to."""
    told = yield Ask("GET", f"{PREFIX}/key", {})
    return TenantId(result_of(told, KeyAnswer).tenant)


class RemoteMemForest(Remote[Calls]):
    """Long-term memory of many owners over HTTP, for the tenant of a key: the methods of ``MemForest``. Thread-safe.

    Nothing but httpx is needed. Errors are those of the library; RetryableError (code ``server_unavailable``) when the
    server can't be reached.
    """

    def __init__(self, address: str, key: str, *, client: httpx.Client | None = None) -> None:
        """``address`` is the server's URL, ``key`` what memforest keys create printed. A ``client`` brings proxies,
        certificates or a transport of its own. Raises InvalidInput."""
        super().__init__(Transport(address, key, client), Calls())

    @cached_property
    def tenant(self) -> TenantId:
        """The tenant that the key belongs to."""
        return self._transport.run(tenant_of_key())

    @property
    def client(self) -> Self:
        """This object, as what accepts sessions."""
        return self

    @cached_property
    def lifecycle(self) -> RemoteLifecycle:
        """Operations on stored memory."""
        return RemoteLifecycle(self._transport, LifecycleCalls())

    @cached_property
    def dead(self) -> RemoteDeadLetters:
        """The tenant's dead letters."""
        return RemoteDeadLetters(self._transport, DeadOperations())

    @cached_property
    def webhooks(self) -> RemoteWebhooks:
        """The tenant's webhooks."""
        return RemoteWebhooks(self._transport, WebhookOperations())

    enqueue = ingest = _held(_session, Calls.enqueue)
    append = _held(_session, Calls.append)
    remember = _held(_session, Calls.remember)
    wait = over(Calls.wait)
    flush = over(Calls.flush)
    status = over(Calls.status)
    quota = over(Calls.quota)
    set_limits = over(Calls.set_limits)
    session_start = over(Calls.session_start)
    session_switch = over(Calls.session_switch)
    session_close = over(Calls.session_close)
    session_current = over(Calls.session_current)
    recall = over(Calls.recall)
    recall_many = over(Calls.recall_many)
    answer = over(Calls.answer)
    timeline = over(Calls.timeline)
    context = over(Calls.context)
    sessions = over(Calls.sessions)
    turns = over(Calls.turns)
    facts = over(Calls.facts)
    trees = over(Calls.trees)
    node = over(Calls.node)
    calls = over(Calls.calls)
    window = over(Calls.window)
    window_put = over(Calls.window_put)
    profile = over(Calls.profile)
    forget = over(Calls.forget)
    intent = over(Calls.intent)
    today = over(Calls.today)
    day = over(Calls.day)
    week = over(Calls.week)
    days = over(Calls.days)
    period = over(Calls.period)
    summarize = over(Calls.summarize)
    topics = over(Calls.topics)
    topic_context = over(Calls.topic_context)
    topic_history = over(Calls.topic_history)
    topic_stats = over(Calls.topic_stats)
    topic_tag = over(Calls.topic_tag)
    topic_merge = over(Calls.topic_merge)

    def enqueue_many(
        self,
        sessions: Iterable[tuple[str, str, Sequence[TurnInput]]],
        *,
        wait: str = "none",
        backfill: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> list[SessionHandle]:
        """As ``MemForest.enqueue_many``."""
        calls = self._calls.enqueue_many(
            sessions, wait=wait, backfill=backfill, timeout_s=timeout_s, room_timeout_s=room_timeout_s
        )
        return [_session(self, stored) for stored in self._transport.run(calls)]

    ingest_many = enqueue_many

    def enqueue_stream(
        self,
        sessions: Iterable[tuple[str, str, Sequence[TurnInput]]],
        *,
        backfill: bool = True,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> Iterator[SessionHandle]:
        """As ``MemForest.enqueue_stream``."""
        for owner, session_id, turns in sessions:
            yield self.enqueue(owner, session_id, turns, backfill=backfill, room_timeout_s=room_timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
