"""Async faces over sync objects: calls run in threads of their own, waits hold none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import InvalidInput
from memforest_core.work.waiting import Steps, steps_of

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", covariant=True)

THREADS = 16
"""Calls at once; more of them queue. A call that waits for work of others is none."""
LOOKS = 2
"""Threads that waiting calls take together, each for a few milliseconds."""


@renewed_in_child
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
        await apart(self._executor.shutdown)
        await apart(last)


async def apart(call: Callable[[], T]) -> T:
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


def awaiting(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Face[S], P], Coroutine[Any, Any, T]]:
    """The same wait, without a thread between its steps."""

    @wraps(method)
    async def called(face: Face[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await face.threads.finish(steps_of(method)(face.sync, *args, **kwargs))

    return called
