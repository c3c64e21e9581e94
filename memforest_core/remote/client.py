"""``RemoteMemForest`` and ``AsyncRemoteMemForest``: the methods of ``MemForest`` over HTTP, by a key alone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, update_wrapper
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar
from uuid import uuid4

import httpx

from memforest_core.accept.records import Accepted, SessionProgress
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput, RetryableError
from memforest_core.remote.exchange import Ask, Exchange, Told, result_of
from memforest_core.remote.operations import DeadOperations
from memforest_core.remote.records import KeyAnswer, Stored
from memforest_core.remote.routes import PREFIX
from memforest_core.remote.waits import ROOM_TIMEOUT_S, Calls, LifecycleCalls
from memforest_core.topics.records import MatchedTopic
from memforest_core.work.records import Numbers, OperationTask, TaskId
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S

P = ParamSpec("P")
C = TypeVar("C", covariant=True)
T = TypeVar("T")

TIMEOUT_S = 60.0
"""For one answer, beside what the call itself waits."""
CONNECT_S = 5.0
CONNECTIONS = 64
CHUNK = 1 << 16


def _request(ask: Ask) -> dict[str, Any]:
    """The arguments of httpx for a request."""
    timeout = httpx.Timeout(TIMEOUT_S + ask.timeout_s, connect=CONNECT_S)
    return {
        "method": ask.verb,
        "url": ask.path,
        "params": ask.query,
        "json": ask.body,
        "headers": ask.headers,
        "timeout": timeout,
    }


def _away(error: httpx.TransportError, address: str) -> RetryableError:
    return RetryableError(
        f"The MemForest server at {address} can't be reached ({type(error).__name__}).", code="server_unavailable"
    )


def _headers(key: str) -> dict[str, str]:
    if not key or not key.isascii() or not key.isprintable():
        raise InvalidInput("Give the key that memforest keys create printed.", code="invalid_key")
    return {"Authorization": f"Bearer {key}"}


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise InvalidInput("Give the server's address as http:// or https://.", code="invalid_address")
    return url.rstrip("/")


class Transport:
    """Sends requests and waits for their answers. Thread-safe."""

    def __init__(self, address: str, key: str, client: httpx.Client | None = None) -> None:
        self.address = _address(address)
        self._headers = _headers(key)
        self._client = client or httpx.Client(limits=httpx.Limits(max_connections=CONNECTIONS))

    def run(self, exchange: Exchange[T]) -> T:
        """The result of a call."""
        try:
            ask = next(exchange)
            while True:
                ask = exchange.send(self._told(ask))
        except StopIteration as ended:
            result: T = ended.value
            return result

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _told(self, ask: Ask) -> Told:
        given = _request(ask)
        given["url"] = self.address + ask.path
        given["headers"] = {**self._headers, **ask.headers}
        try:
            if ask.send is not None:
                with ask.send.open("rb") as file:
                    del given["json"]
                    answer = self._client.request(**given, content=file)
            elif ask.keep is not None:
                return self._kept(ask.keep, given)
            else:
                answer = self._client.request(**given)
        except httpx.TransportError as error:
            raise _away(error, self.address) from error
        return Told(answer.status_code, answer.content, dict(answer.headers))

    def _kept(self, target: Path, given: dict[str, Any]) -> Told:
        """Keep the answer's file under ``target`` once it is whole."""
        with self._client.stream(**given) as answer:
            if answer.status_code >= 400:
                return Told(answer.status_code, answer.read(), dict(answer.headers))
            with _beside(target) as part, part.open("wb") as file:
                for chunk in answer.iter_bytes(CHUNK):
                    file.write(chunk)
            return Told(answer.status_code, b"", dict(answer.headers))


class AsyncTransport:
    """The same for asyncio programs: no thread waits."""

    def __init__(self, address: str, key: str, client: httpx.AsyncClient | None = None) -> None:
        self.address = _address(address)
        self._headers = _headers(key)
        self._client = client or httpx.AsyncClient(limits=httpx.Limits(max_connections=CONNECTIONS))

    async def run(self, exchange: Exchange[T]) -> T:
        """The result of a call."""
        try:
            ask = next(exchange)
            while True:
                ask = exchange.send(await self._told(ask))
        except StopIteration as ended:
            result: T = ended.value
            return result

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _told(self, ask: Ask) -> Told:
        given = _request(ask)
        given["url"] = self.address + ask.path
        given["headers"] = {**self._headers, **ask.headers}
        try:
            if ask.send is not None:
                del given["json"]
                answer = await self._client.request(**given, content=_chunks(ask.send))
            elif ask.keep is not None:
                return await self._kept(ask.keep, given)
            else:
                answer = await self._client.request(**given)
        except httpx.TransportError as error:
            raise _away(error, self.address) from error
        return Told(answer.status_code, answer.content, dict(answer.headers))

    async def _kept(self, target: Path, given: dict[str, Any]) -> Told:
        async with self._client.stream(**given) as answer:
            if answer.status_code >= 400:
                return Told(answer.status_code, await answer.aread(), dict(answer.headers))
            with _beside(target) as part, part.open("wb") as file:
                async for chunk in answer.aiter_bytes(CHUNK):
                    file.write(chunk)
            return Told(answer.status_code, b"", dict(answer.headers))


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A file beside the target that takes its place at the end, or is gone."""
    part = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


class Remote(Generic[C]):
    """Some calls over a transport."""

    def __init__(self, transport: Transport, calls: C) -> None:
        self._transport = transport
        self._calls = calls


class AsyncRemote(Generic[C]):
    """The same for asyncio programs."""

    def __init__(self, transport: AsyncTransport, calls: C) -> None:
        self._transport = transport
        self._calls = calls


def _shown_as(called: Callable[P, T], method: Callable[..., Any]) -> Callable[P, T]:
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

    return _shown_as(called, method)


def over_async(
    method: Callable[Concatenate[C, P], Exchange[T]],
) -> Callable[Concatenate[AsyncRemote[C], P], Coroutine[Any, Any, T]]:
    """The same without a thread that waits."""

    async def called(remote: AsyncRemote[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await remote._transport.run(method(remote._calls, *args, **kwargs))

    return _shown_as(called, method)


@dataclass(frozen=True, slots=True)
class RemoteSession:
    """An accepted session, as ``SessionHandle``."""

    owner: str
    session_id: str
    accepted: Accepted = field(compare=False)
    _memory: RemoteMemForest = field(compare=False, repr=False)
    topic: MatchedTopic | None = field(default=None, compare=False)
    degraded: str = field(default="", compare=False)

    def status(self) -> SessionProgress:
        """How far the session has come."""
        return self._memory.status(self.owner, self.session_id)

    def wait(self, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S) -> SessionProgress:
        """Wait for a stage, as ``SessionHandle.wait``."""
        return self._memory.wait(self.owner, self.session_id, stage, timeout_s)


@dataclass(frozen=True, slots=True)
class AsyncRemoteSession:
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


@dataclass(frozen=True, slots=True)
class RemoteOperation:
    """An operation that was asked for, as ``Operation``."""

    id: TaskId
    kind: str
    _lifecycle: RemoteLifecycle = field(compare=False, repr=False)

    def state(self) -> OperationTask:
        """How far it has come."""
        return self._lifecycle.operation(self.id)

    def wait(
        self, timeout_s: float = DEFAULT_TIMEOUT_S, watch: Callable[[OperationTask], None] = lambda _: None
    ) -> Numbers:
        """Wait until it is done, as ``Operation.wait``."""
        return self._lifecycle.wait(self.id, timeout_s, watch).progress

    def wait_cancelled(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> OperationTask:
        """Wait until it has ended in any way, as ``Operation.wait_cancelled``."""
        return self._lifecycle.ended(self.id, timeout_s)


def _handed(
    method: Callable[Concatenate[Calls, P], Exchange[Stored]],
) -> Callable[Concatenate[RemoteMemForest, P], RemoteSession]:
    """A call that hands a session over."""

    def called(remote: RemoteMemForest, /, *args: P.args, **kwargs: P.kwargs) -> RemoteSession:
        return remote._session(remote._transport.run(method(remote._calls, *args, **kwargs)))

    return _shown_as(called, method)


def _handed_async(
    method: Callable[Concatenate[Calls, P], Exchange[Stored]],
) -> Callable[Concatenate[AsyncRemoteMemForest, P], Coroutine[Any, Any, AsyncRemoteSession]]:
    async def called(remote: AsyncRemoteMemForest, /, *args: P.args, **kwargs: P.kwargs) -> AsyncRemoteSession:
        return remote._session(await remote._transport.run(method(remote._calls, *args, **kwargs)))

    return _shown_as(called, method)


def _asked(
    method: Callable[Concatenate[LifecycleCalls, P], Exchange[OperationTask]],
) -> Callable[Concatenate[RemoteLifecycle, P], RemoteOperation]:
    """A call that asks for an operation."""

    def called(remote: RemoteLifecycle, /, *args: P.args, **kwargs: P.kwargs) -> RemoteOperation:
        return remote._operation(remote._transport.run(method(remote._calls, *args, **kwargs)))

    return _shown_as(called, method)


class RemoteLifecycle(Remote[LifecycleCalls]):
    """Operations on stored memory, as ``Lifecycle``."""

    forget = _asked(LifecycleCalls.forget)
    correct = _asked(LifecycleCalls.correct)
    pin = _asked(LifecycleCalls.pin)
    unpin = _asked(LifecycleCalls.unpin)
    merge = _asked(LifecycleCalls.merge)
    rematerialize = _asked(LifecycleCalls.rematerialize)
    cancel = _asked(LifecycleCalls.cancel)
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

    def apply_policy(self, owner: str | None = None, *, actor: str, dry_run: bool = False) -> Sequence[RemoteOperation]:
        """As ``Lifecycle.apply_policy``."""
        tasks = self._transport.run(self._calls.apply_policy(owner, actor=actor, dry_run=dry_run))
        return [self._operation(task) for task in tasks]

    def _operation(self, task: OperationTask) -> RemoteOperation:
        return RemoteOperation(task.id, task.kind, self)


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


class RemoteDeadLetters(Remote[DeadOperations]):
    """Dead letters, as ``DeadLetters``."""

    list = over(DeadOperations.list)
    show = over(DeadOperations.show)
    retry = over(DeadOperations.retry)
    retry_all = over(DeadOperations.retry_all)
    discard = over(DeadOperations.discard)


class AsyncRemoteDeadLetters(AsyncRemote[DeadOperations]):
    """The same for asyncio programs."""

    list = over_async(DeadOperations.list)
    show = over_async(DeadOperations.show)
    retry = over_async(DeadOperations.retry)
    retry_all = over_async(DeadOperations.retry_all)
    discard = over_async(DeadOperations.discard)


def _tenant() -> Exchange[TenantId]:
    told = yield Ask("GET", f"{PREFIX}/key", {}, None, {})
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
        return self._transport.run(_tenant())

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

    enqueue = ingest = _handed(Calls.enqueue)
    append = _handed(Calls.append)
    remember = _handed(Calls.remember)
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
    ) -> list[RemoteSession]:
        """As ``MemForest.enqueue_many``."""
        calls = self._calls.enqueue_many(
            sessions, wait=wait, backfill=backfill, timeout_s=timeout_s, room_timeout_s=room_timeout_s
        )
        return [self._session(stored) for stored in self._transport.run(calls)]

    ingest_many = enqueue_many

    def enqueue_stream(
        self,
        sessions: Iterable[tuple[str, str, Sequence[TurnInput]]],
        *,
        backfill: bool = True,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> Iterator[RemoteSession]:
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

    def _session(self, stored: Stored) -> RemoteSession:
        return RemoteSession(stored.owner, stored.session_id, stored.accepted, self, stored.topic, stored.degraded)


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
        return await self._transport.run(_tenant())

    @cached_property
    def lifecycle(self) -> AsyncRemoteLifecycle:
        """Operations on stored memory."""
        return AsyncRemoteLifecycle(self._transport, LifecycleCalls())

    @cached_property
    def dead(self) -> AsyncRemoteDeadLetters:
        """The tenant's dead letters."""
        return AsyncRemoteDeadLetters(self._transport, DeadOperations())

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
    ) -> list[AsyncRemoteSession]:
        """As ``MemForest.enqueue_many``."""
        calls = self._calls.enqueue_many(
            sessions, wait=wait, backfill=backfill, timeout_s=timeout_s, room_timeout_s=room_timeout_s
        )
        return [self._session(stored) for stored in await self._transport.run(calls)]

    ingest_many = enqueue_many

    async def enqueue_stream(
        self,
        sessions: Iterable[tuple[str, str, Sequence[TurnInput]]],
        *,
        backfill: bool = True,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> AsyncIterator[AsyncRemoteSession]:
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

    def _session(self, stored: Stored) -> AsyncRemoteSession:
        return AsyncRemoteSession(stored.owner, stored.session_id, stored.accepted, self, stored.topic, stored.degraded)
