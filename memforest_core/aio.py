"""The async facade, made from the sync one: calls run in threads of their own, waits hold none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from memforest_core.api import MemForest
from memforest_core.bootstrap.service import Services
from memforest_core.client import ROOM_TIMEOUT_S, MemForestClient, SessionHandle, SessionInput, steps_of
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput
from memforest_core.lifecycle import Lifecycle
from memforest_core.settings import Settings
from memforest_core.work.dead import DeadLetters
from memforest_core.work.waiting import Steps

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", covariant=True)

THREADS = 16
"""Calls at once; more of them queue. A call that waits for work of others is none."""
LOOKS = 2
"""Threads that waiting calls take together, each for a few milliseconds."""


class Threads:
    """Where the calls of one facade run."""

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise InvalidInput("Set threads to a whole number above 0.", code="invalid_threads")
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="memforest-async")
        self._looks = asyncio.Semaphore(max(1, min(LOOKS, threads - 1)))
        self._closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A call's result."""
        if self._closed:
            raise InvalidInput("This memory is closed: open it again.", code="closed")
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(call, *args, **kwargs))

    async def finish(self, steps: Steps[T]) -> T:
        """A wait's result: a thread is held while it looks, none between."""
        pause, done = await self.run(_advanced, steps)
        while done is None:
            await asyncio.sleep(pause)
            async with self._looks:
                pause, done = await self.run(_advanced, steps)
        return done[0]

    async def close(self, last: Callable[[], None]) -> None:
        """Take no more calls, wait for those under way, and end with ``last``; waits end with an error."""
        self._closed = True
        await _apart(self._executor.shutdown)
        await _apart(last)


async def _apart(call: Callable[[], T]) -> T:
    """A call's result, from a thread for it alone: an executor can't wait for itself, and the loop's may be full."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="memforest-apart")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, call)
    finally:
        executor.shutdown(wait=False)


def _advanced(steps: Steps[T]) -> tuple[float, tuple[T] | None]:
    """The seconds until the next look, or the result."""
    try:
        return next(steps), None
    except StopIteration as ended:
        return 0.0, (ended.value,)


class Face(Generic[S]):
    """An async facade over ``sync``."""

    def __init__(self, sync: S, threads: Threads) -> None:
        self.sync = sync
        self.threads = threads


def on_thread(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Face[S], P], Coroutine[Any, Any, T]]:
    """The same call, in one of the facade's threads."""

    @wraps(method)
    async def called(face: Face[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await face.threads.run(method, face.sync, *args, **kwargs)

    return called


def waiting(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Face[S], P], Coroutine[Any, Any, T]]:
    """The same wait, without a thread between its steps."""

    @wraps(method)
    async def called(face: Face[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await face.threads.finish(steps_of(method)(face.sync, *args, **kwargs))

    return called


class AsyncLifecycle(Face[Lifecycle]):
    """``Lifecycle`` for asyncio programs: the same methods. Wait for an operation with ``wait``, by its id."""

    forget = on_thread(Lifecycle.forget)
    receipt = on_thread(Lifecycle.receipt)
    correct = on_thread(Lifecycle.correct)
    pin = on_thread(Lifecycle.pin)
    unpin = on_thread(Lifecycle.unpin)
    merge = on_thread(Lifecycle.merge)
    merge_conflicts = on_thread(Lifecycle.merge_conflicts)
    export = on_thread(Lifecycle.export)
    import_ = on_thread(Lifecycle.import_)
    rematerialize_plan = on_thread(Lifecycle.rematerialize_plan)
    rematerialize = on_thread(Lifecycle.rematerialize)
    rematerialize_abandon = on_thread(Lifecycle.rematerialize_abandon)
    set_policy = on_thread(Lifecycle.set_policy)
    clear_policy = on_thread(Lifecycle.clear_policy)
    policies = on_thread(Lifecycle.policies)
    apply_policy = on_thread(Lifecycle.apply_policy)
    preview_policy = on_thread(Lifecycle.preview_policy)
    operation = on_thread(Lifecycle.operation)
    operations = on_thread(Lifecycle.operations)
    cancel = on_thread(Lifecycle.cancel)
    wait = waiting(Lifecycle.wait)
    ended = waiting(Lifecycle.ended)
    audit = on_thread(Lifecycle.audit)


class AsyncDeadLetters(Face[DeadLetters]):
    """``DeadLetters`` for asyncio programs: the same methods."""

    list = on_thread(DeadLetters.list)
    show = on_thread(DeadLetters.show)
    retry = on_thread(DeadLetters.retry)
    retry_all = on_thread(DeadLetters.retry_all)
    discard = on_thread(DeadLetters.discard)


class AsyncMemForest(Face[MemForest]):
    """``MemForest`` for asyncio programs: the same methods, in ``threads`` threads of its own.

    A call that waits for the work of others (``wait=``, ``flush``, ``wait``) holds no thread meanwhile, so any number
    of them leaves recall as fast as it is.
    """

    def __init__(self, memory: MemForest, *, threads: int = THREADS) -> None:
        super().__init__(memory, Threads(threads))

    @classmethod
    async def connect(cls, settings: Settings | None = None, *, threads: int = THREADS) -> Self:
        """As ``MemForest.connect``."""
        return cls(await _apart(partial(MemForest.connect, settings)), threads=threads)

    @classmethod
    async def embedded(
        cls, path: str | Path, settings: Settings | None = None, *, concurrency: int = 8, threads: int = THREADS
    ) -> Self:
        """As ``MemForest.embedded``."""
        opened = await _apart(partial(MemForest.embedded, path, settings, concurrency=concurrency))
        return cls(opened, threads=threads)

    @property
    def settings(self) -> Settings:
        """As ``MemForest.settings``."""
        return self.sync.settings

    @property
    def services(self) -> Services:
        """As ``MemForest.services``."""
        return self.sync.services

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

    @property
    def tenant(self) -> TenantId:
        """As ``MemForest.tenant``."""
        return self.sync.tenant

    enqueue = ingest = waiting(MemForest.enqueue)
    append = waiting(MemForest.append)
    enqueue_many = ingest_many = waiting(MemForest.enqueue_many)
    wait = waiting(MemForest.wait)
    flush = waiting(MemForest.flush)
    recall = on_thread(MemForest.recall)
    recall_many = on_thread(MemForest.recall_many)
    answer = on_thread(MemForest.answer)
    timeline = on_thread(MemForest.timeline)
    sessions = on_thread(MemForest.sessions)
    turns = on_thread(MemForest.turns)
    facts = on_thread(MemForest.facts)
    trees = on_thread(MemForest.trees)
    node = on_thread(MemForest.node)
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
