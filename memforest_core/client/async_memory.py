"""``AsyncMemForest``: ``MemForest`` for asyncio programs. Its stub is written by ``.ci/stubs.py``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path
from typing import Self

from memforest_core.client.api import MemForest
from memforest_core.client.async_calls import THREADS, Face, Threads, face_of, on_new_thread
from memforest_core.client.handles import SessionHandle
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.client.producer import ROOM_TIMEOUT_S, SessionInput
from memforest_core.observe.webhooks.service import Webhooks
from memforest_core.settings import Settings
from memforest_core.work.dead import DeadLetters
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S


@face_of(DeadLetters)
class AsyncDeadLetters(Face[DeadLetters]):
    """``DeadLetters`` for asyncio programs: the same methods."""


@face_of(Webhooks)
class AsyncWebhooks(Face[Webhooks]):
    """``Webhooks`` for asyncio programs: the same methods."""


@face_of(Lifecycle)
class AsyncLifecycle(Face[Lifecycle]):
    """``Lifecycle`` for asyncio programs: the same methods. Wait for an operation with ``wait``, by its id."""


@face_of(MemForest, lifecycle=AsyncLifecycle, dead=AsyncDeadLetters, webhooks=AsyncWebhooks)
class AsyncMemForest(Face[MemForest]):
    """``MemForest`` for asyncio programs: the same methods, in ``threads`` threads of its own.

    A call that waits for workers (``wait=``, ``flush``, ``wait``) occupies no thread meanwhile, so any number of
    them leaves recall as fast as it is.
    """

    def __init__(self, memory: MemForest, *, threads: int | Threads = THREADS) -> None:
        """``threads`` is how many, or those of another facade, which are shared then."""
        super().__init__(memory, threads if isinstance(threads, Threads) else Threads(threads))

    @classmethod
    async def connect(cls, settings: Settings | None = None, *, threads: int = THREADS) -> Self:
        """As ``MemForest.connect``."""
        return cls(await on_new_thread(partial(MemForest.connect, settings)), threads=threads)

    @classmethod
    async def embedded(
        cls, path: str | Path, settings: Settings | None = None, *, concurrency: int = 8, threads: int = THREADS
    ) -> Self:
        """As ``MemForest.embedded``."""
        opened = await on_new_thread(partial(MemForest.embedded, path, settings, concurrency=concurrency))
        return cls(opened, threads=threads)

    def for_tenant(self, tenant: str) -> AsyncMemForest:
        """As ``MemForest.for_tenant``, over the same threads."""
        return AsyncMemForest(self.sync.for_tenant(tenant), threads=self.threads)

    async def enqueue_stream(
        self, sessions: Iterable[SessionInput], *, backfill: bool = True, room_timeout_s: float = ROOM_TIMEOUT_S
    ) -> AsyncIterator[SessionHandle]:
        """As ``MemForest.enqueue_stream``."""
        for owner, session_id, turns in sessions:
            yield await self.enqueue(owner, session_id, turns, backfill=backfill, room_timeout_s=room_timeout_s)

    async def close(self, *, summarize: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """As ``MemForest.close``, after the calls under way; waits end with InvalidInput (code "closed")."""
        await self.threads.close(partial(self.sync.close, summarize=summarize, timeout_s=timeout_s))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
