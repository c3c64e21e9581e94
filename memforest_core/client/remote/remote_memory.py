"""``RemoteMemForest``: the methods of ``MemForest`` over HTTP, by a key alone (stub: ``.ci/stubs.py``)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import httpx

from memforest_core.assistant.topics.records import MatchedTopic
from memforest_core.client.handles import Operation, SessionHandle
from memforest_core.client.remote.exchange import Exchange, HttpRequest, result_of
from memforest_core.client.remote.records import KeyAnswer, Stored
from memforest_core.client.remote.remote_calls import Remote, over_http
from memforest_core.client.remote.transport import AsyncTransport, Transport
from memforest_core.client.route_table import PREFIX
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.errors import NotFound
from memforest_core.ingest.accept.records import Accepted, SessionProgress
from memforest_core.work.records import OperationTask
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S

ROOM_TIMEOUT_S = 3_600.0
"""How long a bulk import waits for room in the queue, for one session."""


def _tenant_of_key() -> Exchange[TenantId]:
    answer = yield HttpRequest("GET", f"{PREFIX}/key", {})
    return TenantId(result_of(answer, KeyAnswer).tenant)


@over_http("lifecycle", waits=True)
class RemoteLifecycle(Remote):
    """Operations on stored memory, as ``Lifecycle``."""

    def _handle(self, value: OperationTask) -> Operation:
        return Operation(value.id, OperationKind(value.kind), self)


@over_http("dead", waits=True)
class RemoteDeadLetters(Remote):
    """Dead letters, as ``DeadLetters``."""


@over_http("webhooks", waits=True)
class RemoteWebhooks(Remote):
    """Webhooks, as ``Webhooks``."""


@over_http(waits=True, lifecycle=RemoteLifecycle, dead=RemoteDeadLetters, webhooks=RemoteWebhooks)
class RemoteMemForest(Remote):
    """Long-term memory of many owners over HTTP, for the tenant of a key: the methods of ``MemForest``. Thread-safe.

    Nothing but httpx is needed. Errors are those of the library; RetryableError (code ``server_unavailable``) when the
    server can't be reached.
    """

    def __init__(self, address: str, key: str, *, client: httpx.Client | None = None) -> None:
        """``address`` is the server's URL, ``key`` what memforest keys create printed. A ``client`` brings proxies,
        certificates or a transport of its own. Raises InvalidInput."""
        super().__init__(Transport(address, key, client))
        self._written = set[str]()

    @cached_property
    def tenant(self) -> TenantId:
        """The tenant that the key belongs to."""
        return self._transport.run(_tenant_of_key())

    @property
    def client(self) -> Self:
        """This object, as what accepts sessions."""
        return self

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

    def _handle(self, value: Stored) -> SessionHandle:
        self._written.add(value.owner)
        return SessionHandle(value.owner, value.session_id, value.accepted, self, value.topic, value.degraded)

    def close(self, *, summarize: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Close the connections; with ``summarize`` first ``flush`` each owner that this object stored turns of, all in
        ``timeout_s`` seconds. Raises WaitTimeout of the first one that is not done, when all is closed."""
        deadline = time.monotonic() + timeout_s
        try:
            for owner in sorted(self._written) if summarize else ():
                with suppress(NotFound):
                    self.flush(owner, max(0.0, deadline - time.monotonic()))
        finally:
            self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


@over_http("lifecycle", waits=False)
class AsyncRemoteLifecycle(Remote):
    """``RemoteLifecycle`` for asyncio programs; operations come as ``OperationTask``: ``wait`` takes their ids."""


@over_http("dead", waits=False)
class AsyncRemoteDeadLetters(Remote):
    """``RemoteDeadLetters`` for asyncio programs."""


@over_http("webhooks", waits=False)
class AsyncRemoteWebhooks(Remote):
    """``RemoteWebhooks`` for asyncio programs."""


@over_http(waits=False, lifecycle=AsyncRemoteLifecycle, dead=AsyncRemoteDeadLetters, webhooks=AsyncRemoteWebhooks)
class AsyncRemoteMemForest(Remote):
    """``RemoteMemForest`` for asyncio programs: the same methods; no call takes a thread."""

    def __init__(self, address: str, key: str, *, client: httpx.AsyncClient | None = None) -> None:
        """As ``RemoteMemForest``."""
        super().__init__(AsyncTransport(address, key, client))
        self._written = set[str]()

    @property
    def client(self) -> Self:
        """This object, as what accepts sessions."""
        return self

    async def tenant(self) -> TenantId:
        """The tenant that the key belongs to."""
        return await self._transport.run(_tenant_of_key())

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

    def _handle(self, value: Stored) -> AsyncSessionHandle:
        self._written.add(value.owner)
        return AsyncSessionHandle(value.owner, value.session_id, value.accepted, self, value.topic, value.degraded)

    async def close(self, *, summarize: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """As ``RemoteMemForest.close``."""
        deadline = time.monotonic() + timeout_s
        try:
            for owner in sorted(self._written) if summarize else ():
                with suppress(NotFound):
                    await self.flush(owner, max(0.0, deadline - time.monotonic()))
        finally:
            await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
