"""The async facade, made from the sync one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from memforest_core.client.api import MemForest
from memforest_core.client.async_calls import THREADS, Face, Threads, apart, awaiting, on_thread
from memforest_core.client.handles import SessionHandle
from memforest_core.client.lifecycle import AsyncLifecycle
from memforest_core.client.producer import ROOM_TIMEOUT_S, MemForestClient, SessionInput
from memforest_core.client.services.service import Services
from memforest_core.domain.ids import TenantId
from memforest_core.observe.webhooks.service import Webhooks
from memforest_core.settings import Settings
from memforest_core.work.dead import DeadLetters

if TYPE_CHECKING:
    from memforest_core.client.embedded.node import EmbeddedNode


class AsyncDeadLetters(Face[DeadLetters]):
    """``DeadLetters`` for asyncio programs: the same methods."""

    list = on_thread(DeadLetters.list)
    show = on_thread(DeadLetters.show)
    retry = on_thread(DeadLetters.retry)
    retry_all = on_thread(DeadLetters.retry_all)
    discard = on_thread(DeadLetters.discard)


class AsyncWebhooks(Face[Webhooks]):
    """``Webhooks`` for asyncio programs: the same methods."""

    create = on_thread(Webhooks.create)
    list = on_thread(Webhooks.list)
    delete = on_thread(Webhooks.delete)
    enable = on_thread(Webhooks.enable)
    rotate = on_thread(Webhooks.rotate)
    deliveries = on_thread(Webhooks.deliveries)
    replay = on_thread(Webhooks.replay)


class AsyncMemForest(Face[MemForest]):
    """``MemForest`` for asyncio programs: the same methods, in ``threads`` threads of its own.

    A call that waits for the work of others (``wait=``, ``flush``, ``wait``) holds no thread meanwhile, so any number
    of them leaves recall as fast as it is.
    """

    def __init__(self, memory: MemForest, *, threads: int | Threads = THREADS) -> None:
        """``threads`` is how many, or those of another facade, which are shared then."""
        super().__init__(memory, threads if isinstance(threads, Threads) else Threads(threads))

    @classmethod
    async def connect(cls, settings: Settings | None = None, *, threads: int = THREADS) -> Self:
        """As ``MemForest.connect``."""
        return cls(await apart(partial(MemForest.connect, settings)), threads=threads)

    @classmethod
    async def embedded(
        cls, path: str | Path, settings: Settings | None = None, *, concurrency: int = 8, threads: int = THREADS
    ) -> Self:
        """As ``MemForest.embedded``."""
        opened = await apart(partial(MemForest.embedded, path, settings, concurrency=concurrency))
        return cls(opened, threads=threads)

    @property
    def settings(self) -> Settings:
        """As ``MemForest.settings``."""
        return self.sync.settings

    def for_tenant(self, tenant: str) -> AsyncMemForest:
        """As ``MemForest.for_tenant``, over the same threads."""
        return AsyncMemForest(self.sync.for_tenant(tenant), threads=self.threads)

    @property
    def services(self) -> Services:
        """As ``MemForest.services``."""
        return self.sync.services

    @property
    def embedded_node(self) -> EmbeddedNode | None:
        """As ``MemForest.embedded_node``."""
        return self.sync.embedded_node

    @property
    def client(self) -> MemForestClient:
        """As ``MemForest.client``; its calls block."""
        return self.sync.client

    @cached_property
    def lifecycle(self) -> AsyncLifecycle:
        """As ``MemForest.lifecycle``."""
        return AsyncLifecycle(self.sync.lifecycle, self.threads)

    @cached_property
    def dead(self) -> AsyncDeadLetters:
        """As ``MemForest.dead``."""
        return AsyncDeadLetters(self.sync.dead, self.threads)

    @cached_property
    def webhooks(self) -> AsyncWebhooks:
        """As ``MemForest.webhooks``."""
        return AsyncWebhooks(self.sync.webhooks, self.threads)

    @property
    def tenant(self) -> TenantId:
        """As ``MemForest.tenant``."""
        return self.sync.tenant

    enqueue = ingest = awaiting(MemForest.enqueue)
    append = awaiting(MemForest.append)
    enqueue_many = ingest_many = awaiting(MemForest.enqueue_many)
    wait = awaiting(MemForest.wait)
    flush = awaiting(MemForest.flush)
    recall = on_thread(MemForest.recall)
    recall_many = on_thread(MemForest.recall_many)
    answer = on_thread(MemForest.answer)
    timeline = on_thread(MemForest.timeline)
    sessions = on_thread(MemForest.sessions)
    turns = on_thread(MemForest.turns)
    facts = on_thread(MemForest.facts)
    trees = on_thread(MemForest.trees)
    node = on_thread(MemForest.node)
    calls = on_thread(MemForest.calls)
    session_start = on_thread(MemForest.session_start)
    session_switch = on_thread(MemForest.session_switch)
    session_close = on_thread(MemForest.session_close)
    session_current = on_thread(MemForest.session_current)
    window = on_thread(MemForest.window)
    window_put = on_thread(MemForest.window_put)
    today = on_thread(MemForest.today)
    day = on_thread(MemForest.day)
    week = on_thread(MemForest.week)
    days = on_thread(MemForest.days)
    period = on_thread(MemForest.period)
    summarize = on_thread(MemForest.summarize)
    topics = on_thread(MemForest.topics)
    topic_context = on_thread(MemForest.topic_context)
    topic_history = on_thread(MemForest.topic_history)
    topic_stats = on_thread(MemForest.topic_stats)
    topic_tag = on_thread(MemForest.topic_tag)
    topic_merge = on_thread(MemForest.topic_merge)
    remember = awaiting(MemForest.remember)
    forget = awaiting(MemForest.forget)
    profile = on_thread(MemForest.profile)
    intent = on_thread(MemForest.intent)
    context = on_thread(MemForest.context)
    status = on_thread(MemForest.status)
    quota = on_thread(MemForest.quota)
    set_limits = on_thread(MemForest.set_limits)

    async def enqueue_stream(
        self, sessions: Iterable[SessionInput], *, backfill: bool = True, room_timeout_s: float = ROOM_TIMEOUT_S
    ) -> AsyncIterator[SessionHandle]:
        """As ``MemForest.enqueue_stream``."""
        for owner, session_id, turns in sessions:
            yield await self.enqueue(owner, session_id, turns, backfill=backfill, room_timeout_s=room_timeout_s)

    async def close(self) -> None:
        """As ``MemForest.close``, after the calls under way; waits end with InvalidInput (code "closed")."""
        await self.threads.close(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
