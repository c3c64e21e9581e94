"""``AsyncRemoteMemForest``: ``RemoteMemForest`` for asyncio programs. No call takes a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import httpx

from memforest_core.assistant.topics.records import MatchedTopic
from memforest_core.client.remote.calls import ROOM_TIMEOUT_S, Calls, LifecycleCalls
from memforest_core.client.remote.client import shown_as, tenant_of_key
from memforest_core.client.remote.exchange import Exchange
from memforest_core.client.remote.operations import DeadOperations, WebhookOperations
from memforest_core.client.remote.records import Stored
from memforest_core.client.remote.transport import AsyncTransport
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.ingest.accept.records import Accepted, SessionProgress
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S

P = ParamSpec("P")
C = TypeVar("C", covariant=True)
T = TypeVar("T")


class AsyncRemote(Generic[C]):
    """The same for asyncio programs."""

    def __init__(self, transport: AsyncTransport, calls: C) -> None:
        self._transport = transport
        self._calls = calls


def over_async(
    method: Callable[Concatenate[C, P], Exchange[T]],
) -> Callable[Concatenate[AsyncRemote[C], P], Coroutine[Any, Any, T]]:
    """The same without a thread that waits."""

    async def called(remote: AsyncRemote[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await remote._transport.run(method(remote._calls, *args, **kwargs))

    return shown_as(called, method)


@dataclass(frozen=True, slots=True)
class AsyncSessionHandle:
    """An accepted session, as ``SessionHandle``, for asyncio programs."""

    owner: str
    session_id: str
    accepted: Accepted = field(compare=False)
    _memory: AsyncRemoteMemForest = field(compare=False, repr=False)
    topic: MatchedTopic | None = field(default=None, compare=False)
    degraded: str = field(default="", compare=False)

    async def status(self) -> SessionProgress:
        """How far the session has come."""
        return await self._memory.status(self.owner, self.session_id)

    async def wait(self, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S) -> SessionProgress:
        """Wait for a stage, as ``SessionHandle.wait``."""
        return await self._memory.wait(self.owner, self.session_id, stage, timeout_s)


def _session(memory: AsyncRemoteMemForest, stored: Stored) -> AsyncSessionHandle:
    return AsyncSessionHandle(stored.owner, stored.session_id, stored.accepted, memory, stored.topic, stored.degraded)


def _handed_async(
    method: Callable[Concatenate[Calls, P], Exchange[Stored]],
) -> Callable[Concatenate[AsyncRemoteMemForest, P], Coroutine[Any, Any, AsyncSessionHandle]]:
    async def called(remote: AsyncRemoteMemForest, /, *args: P.args, **kwargs: P.kwargs) -> AsyncSessionHandle:
        return _session(remote, await remote._transport.run(method(remote._calls, *args, **kwargs)))

    return shown_as(called, method)


class AsyncRemoteLifecycle(AsyncRemote[LifecycleCalls]):
    """The same for asyncio programs; operations come as they are (``OperationTask``): ``wait`` takes their ids."""

    forget = over_async(LifecycleCalls.forget)
    correct = over_async(LifecycleCalls.correct)
    pin = over_async(LifecycleCalls.pin)
    unpin = over_async(LifecycleCalls.unpin)
    merge = over_async(LifecycleCalls.merge)
    rematerialize = over_async(LifecycleCalls.rematerialize)
    cancel = over_async(LifecycleCalls.cancel)
    receipt = over_async(LifecycleCalls.receipt)
    pins = over_async(LifecycleCalls.pins)
    merge_conflicts = over_async(LifecycleCalls.merge_conflicts)
    rematerialize_plan = over_async(LifecycleCalls.rematerialize_plan)
    rematerialize_abandon = over_async(LifecycleCalls.rematerialize_abandon)
    export = over_async(LifecycleCalls.export)
    import_ = over_async(LifecycleCalls.import_)
    set_policy = over_async(LifecycleCalls.set_policy)
    clear_policy = over_async(LifecycleCalls.clear_policy)
    policies = over_async(LifecycleCalls.policies)
    apply_policy = over_async(LifecycleCalls.apply_policy)
    preview_policy = over_async(LifecycleCalls.preview_policy)
    operation = over_async(LifecycleCalls.operation)
    operations = over_async(LifecycleCalls.operations)
    wait = over_async(LifecycleCalls.wait)
    ended = over_async(LifecycleCalls.ended)
    audit = over_async(LifecycleCalls.audit)


class AsyncRemoteDeadLetters(AsyncRemote[DeadOperations]):
    """The same for asyncio programs."""

    list = over_async(DeadOperations.list)
    show = over_async(DeadOperations.show)
    retry = over_async(DeadOperations.retry)
    retry_all = over_async(DeadOperations.retry_all)
    discard = over_async(DeadOperations.discard)


class AsyncRemoteWebhooks(AsyncRemote[WebhookOperations]):
    """The same for asyncio programs."""

    create = over_async(WebhookOperations.create)
    list = over_async(WebhookOperations.list)
    delete = over_async(WebhookOperations.delete)
    enable = over_async(WebhookOperations.enable)
    rotate = over_async(WebhookOperations.rotate)
    deliveries = over_async(WebhookOperations.deliveries)
    replay = over_async(WebhookOperations.replay)


class AsyncRemoteMemForest(AsyncRemote[Calls]):
    """``RemoteMemForest`` for asyncio programs: the same methods; no call takes a thread."""

    def __init__(self, address: str, key: str, *, client: httpx.AsyncClient | None = None) -> None:
        """As ``RemoteMemForest``."""
        super().__init__(AsyncTransport(address, key, client), Calls())

    @property
    def client(self) -> Self:
        """This object, as what accepts sessions."""
        return self

    async def tenant(self) -> TenantId:
        """The tenant that the key belongs to."""
        return await self._transport.run(tenant_of_key())

    @cached_property
    def lifecycle(self) -> AsyncRemoteLifecycle:
        """Operations on stored memory."""
        return AsyncRemoteLifecycle(self._transport, LifecycleCalls())

    @cached_property
    def dead(self) -> AsyncRemoteDeadLetters:
        """The tenant's dead letters."""
        return AsyncRemoteDeadLetters(self._transport, DeadOperations())

    @cached_property
    def webhooks(self) -> AsyncRemoteWebhooks:
        """The tenant's webhooks."""
        return AsyncRemoteWebhooks(self._transport, WebhookOperations())

    enqueue = ingest = _handed_async(Calls.enqueue)
    append = _handed_async(Calls.append)
    remember = _handed_async(Calls.remember)
    wait = over_async(Calls.wait)
    flush = over_async(Calls.flush)
    status = over_async(Calls.status)
    quota = over_async(Calls.quota)
    set_limits = over_async(Calls.set_limits)
    session_start = over_async(Calls.session_start)
    session_switch = over_async(Calls.session_switch)
    session_close = over_async(Calls.session_close)
    session_current = over_async(Calls.session_current)
    recall = over_async(Calls.recall)
    recall_many = over_async(Calls.recall_many)
    answer = over_async(Calls.answer)
    timeline = over_async(Calls.timeline)
    context = over_async(Calls.context)
    sessions = over_async(Calls.sessions)
    turns = over_async(Calls.turns)
    facts = over_async(Calls.facts)
    trees = over_async(Calls.trees)
    node = over_async(Calls.node)
    calls = over_async(Calls.calls)
    window = over_async(Calls.window)
    window_put = over_async(Calls.window_put)
    profile = over_async(Calls.profile)
    forget = over_async(Calls.forget)
    intent = over_async(Calls.intent)
    today = over_async(Calls.today)
    day = over_async(Calls.day)
    week = over_async(Calls.week)
    days = over_async(Calls.days)
    period = over_async(Calls.period)
    summarize = over_async(Calls.summarize)
    topics = over_async(Calls.topics)
    topic_context = over_async(Calls.topic_context)
    topic_history = over_async(Calls.topic_history)
    topic_stats = over_async(Calls.topic_stats)
    topic_tag = over_async(Calls.topic_tag)
    topic_merge = over_async(Calls.topic_merge)

    async def enqueue_many(
        self,
        sessions: Iterable[tuple[str, str, Sequence[TurnInput]]],
        *,
        wait: str = "none",
        backfill: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> list[AsyncSessionHandle]:
        """As ``MemForest.enqueue_many``."""
        calls = self._calls.enqueue_many(
            sessions, wait=wait, backfill=backfill, timeout_s=timeout_s, room_timeout_s=room_timeout_s
        )
        return [_session(self, stored) for stored in await self._transport.run(calls)]

    ingest_many = enqueue_many

    async def enqueue_stream(
        self,
        sessions: Iterable[tuple[str, str, Sequence[TurnInput]]],
        *,
        backfill: bool = True,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> AsyncIterator[AsyncSessionHandle]:
        """As ``MemForest.enqueue_stream``."""
        for owner, session_id, turns in sessions:
            yield await self.enqueue(owner, session_id, turns, backfill=backfill, room_timeout_s=room_timeout_s)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
