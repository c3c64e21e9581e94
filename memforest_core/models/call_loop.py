"""One event loop per process for all provider calls: cheap to wait in, possible to cut off.

A read timeout is not a deadline (a server that dribbles one byte at a time never reaches it), and
a thread cannot be stopped. A task on a loop can be left at any moment, and forty waiting calls
cost one thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import ModelUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

CONCURRENCY = 8
"""Requests of one process to an embedding or rerank model that are under way at once."""
_GRACE_S = 1.0
"""A loop that is itself blocked (synchronous code inside litellm) is left after this much more."""


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    """How a call ended: its value, or its error (TimeoutError at the deadline)."""

    value: T | None
    error: BaseException | None


def _retrieve(task: asyncio.Future[Any]) -> None:
    # An exception that nobody retrieves is logged by asyncio, with its text.
    if not task.cancelled():
        task.exception()


def report_by_class(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A loop's exception handler that logs no text of an exception."""
    # In place of asyncio's own report, which prints the exceptions of litellm's background tasks
    # with their texts; without an exception it only says that a connection was open at exit.
    error = context.get("exception")
    if error is not None:
        log.warning("model_call_loop_error", extra={"error_class": type(error).__name__})


async def finished(start: Callable[[], Awaitable[T]], deadline_s: float) -> Finished[T]:
    """How a call ended that may take so many seconds, on the loop that runs."""
    # asyncio.wait returns at the deadline even if the task resists its cancellation.
    task = asyncio.ensure_future(start())
    try:
        await asyncio.wait({task}, timeout=deadline_s)
    finally:
        if not task.done():
            task.add_done_callback(_retrieve)
            task.cancel()
    if not task.done():
        return Finished(None, TimeoutError())
    if task.cancelled():
        return Finished(None, ConnectionAbortedError())
    error = task.exception()
    return Finished(None, error) if error is not None else Finished(task.result(), None)


class CallLoop:
    """A daemon thread with an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(report_by_class)
        threading.Thread(target=self._loop.run_forever, name="memforest-model-calls", daemon=True).start()

    def run(self, start: Callable[[], Awaitable[T]], deadline_s: float) -> Finished[T]:
        """Runs ``start()`` on the loop for at most ``deadline_s`` seconds. Errors are returned: one raised later then
        carries no context, whose text may quote a conversation."""
        future = asyncio.run_coroutine_threadsafe(finished(start, deadline_s), self._loop)
        try:
            return future.result(timeout=deadline_s + _GRACE_S)
        except concurrent.futures.TimeoutError:
            return Finished(None, TimeoutError())
        finally:
            if not future.done():
                future.cancel()


@renewed_in_child
class _PerProcess:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: CallLoop | None = None


_process = _PerProcess()


def call_loop() -> CallLoop:
    """The loop of this process, started at the first use."""
    with _process.lock:
        if _process.loop is None:
            _process.loop = CallLoop()
        return _process.loop


@contextmanager
def slot_of(slots: threading.Semaphore, timeout_s: float, what: str, hint: str = "") -> Iterator[None]:
    """A slot, waited for at most ``timeout_s`` seconds. Raises ModelUnavailable, which says ``what`` was busy."""
    if not slots.acquire(timeout=timeout_s):
        raise ModelUnavailable(f"{what} stayed busy for {timeout_s:g} s{hint}.")
    try:
        yield
    finally:
        slots.release()
