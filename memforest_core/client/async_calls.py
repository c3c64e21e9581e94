"""Async facades over sync objects: calls run in threads of their own, waits occupy none."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import InvalidInput
from memforest_core.work.waiting import Steps, is_waiting, steps_of

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", covariant=True)
F = TypeVar("F", bound="Face[Any]")

THREADS = 16
"""Calls at once; more of them queue. A call that waits for workers does not count."""
POLLS = 2
"""Threads that waiting calls take together, each for a few milliseconds."""


@renewed_in_child
class Threads:
    """Where the calls of one facade run."""

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise InvalidInput("Set threads to a whole number above 0.", code="invalid_threads")
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="memforest-async")
        self._polls = asyncio.Semaphore(max(1, min(POLLS, threads - 1)))
        self._closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A call's result."""
        if self._closed:
            raise InvalidInput("This memory is closed: open it again.", code="closed")
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(call, *args, **kwargs))

    async def finish(self, steps: Steps[T]) -> T:
        """A wait's result: a thread is occupied during each poll, none between."""
        pause, done = await self.run(_advanced, steps)
        while done is None:
            await asyncio.sleep(pause)
            async with self._polls:
                pause, done = await self.run(_advanced, steps)
        return done[0]

    async def close(self, last: Callable[[], None]) -> None:
        """Take no more calls, wait for those under way, and end with ``last``; waits end with an error."""
        self._closed = True
        await on_new_thread(self._executor.shutdown)
        await on_new_thread(last)


async def on_new_thread(call: Callable[[], T]) -> T:
    """A call's result, from a thread for it alone: an executor can't wait for itself, and the loop's may be full."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="memforest-async-single")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, call)
    finally:
        executor.shutdown(wait=False)


def _advanced(steps: Steps[T]) -> tuple[float, tuple[T] | None]:
    """The seconds until the next poll, or the result."""
    try:
        return next(steps), None
    except StopIteration as ended:
        return 0.0, (ended.value,)


class Face(Generic[S]):
    """An async facade over ``sync``."""

    def __init__(self, sync: S, threads: Threads) -> None:
        self.sync = sync
        self.threads = threads


def face_of(sync: type, **parts: type[Face[Any]]) -> Callable[[type[F]], type[F]]:
    """Complete a facade's class with the methods and properties of ``sync`` that it does not define itself.

    ``parts`` are facades of what ``sync`` has under their names.
    """

    def completed(face: type[F]) -> type[F]:
        for name in dir(sync):
            member = inspect.getattr_static(sync, name)
            if name in parts:
                set_part(face, name, parts[name], lambda own, name, kind: kind(getattr(own.sync, name), own.threads))
            elif name.startswith("_") or name in vars(face):
                continue
            elif isinstance(member, property) and member.fget is not None:
                setattr(face, name, _shared(member.fget))
            elif inspect.isfunction(member):
                setattr(face, name, _async(member))
        return face

    return completed


def set_part(owner: type, name: str, kind: type, make: Callable[[Any, str, Any], Any]) -> None:
    """Give a class a cached property with an object of another ``kind``."""

    def opened(self: Any) -> Any:
        return make(self, name, kind)

    opened.__doc__ = kind.__doc__
    opened.__annotations__ = {"return": kind.__name__}
    part = cached_property(opened)
    part.__set_name__(owner, name)
    setattr(owner, name, part)


def _shared(fget: Callable[[Any], T]) -> property:
    @wraps(fget)
    def shared(face: Face[Any]) -> T:
        return fget(face.sync)

    return property(shared)


def _async(method: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The same call in one of the facade's threads; a method that waits occupies none between its steps."""

    @wraps(method)
    async def called(face: Face[Any], /, *args: Any, **kwargs: Any) -> Any:
        if is_waiting(method):
            return await face.threads.finish(steps_of(method)(face.sync, *args, **kwargs))
        return await face.threads.run(method, face.sync, *args, **kwargs)

    return called
