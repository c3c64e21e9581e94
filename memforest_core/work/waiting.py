"""Waiting in short steps: between two polls a thread sleeps, and an event loop does other work."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator
from functools import wraps
from typing import ParamSpec, TypeAlias, TypeVar

from memforest_core.errors import PermanentError, RetryableError
from memforest_core.store.deadlines import within
from memforest_core.work.jobs import WorkError

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_TIMEOUT_S = 300.0

NUDGE_S = 5.0

SOON_S = 0.01
SOON_POLLS = 50
"""Half a second: where it takes longer, more is waiting than what the caller waits for."""

LEAST_POLL_S = 1.0
"""A poll may take so many seconds, however short the wait: one that has begun should end."""

Steps: TypeAlias = Generator[float, None, T]
"""A wait: each step polls once and says after how many seconds to poll next; its value is the result."""


def waited(steps: Steps[T], sleep: Callable[[float], None] = time.sleep) -> T:
    """What a wait ends with, waited for in this thread."""
    while True:
        try:
            pause = next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result
        sleep(pause)


def waiting(steps: Callable[P, Steps[T]]) -> Callable[P, T]:
    """Make a method that waits in the caller's thread from one that is written in steps."""

    @wraps(steps)
    def method(*args: P.args, **kwargs: P.kwargs) -> T:
        return waited(steps(*args, **kwargs))

    signature = inspect.signature(steps)
    returned = signature.return_annotation.removeprefix("Steps[").removesuffix("]")
    method.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    method.steps = steps  # type: ignore[attr-defined]
    return method


def is_waiting(method: Callable[..., object]) -> bool:
    """Whether ``waiting`` made a method."""
    return hasattr(method, "steps")


def steps_of(method: Callable[P, T]) -> Callable[P, Steps[T]]:
    """The steps of a method that ``waiting`` made, for callers that sleep in their own way; it is not bound."""
    steps: Callable[P, Steps[T]] = method.steps  # type: ignore[attr-defined]
    return steps


def timely(poll: Callable[[], T], left_s: float) -> T:
    """What one poll returns, of a wait with so many seconds left: a store that hangs does not prolong the wait."""
    with within(max(LEAST_POLL_S, left_s)):
        return poll()


def polled(
    poll: Callable[[], T | None],
    timeout_s: float,
    pause_s: float,
    *,
    longest_s: float | None = None,
    nudge: Callable[[], None] = lambda: None,
    nudge_s: float = NUDGE_S,
    first_nudge_s: float | None = None,
    soon: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> Steps[T | None]:
    """Poll until there is something; None after ``timeout_s`` seconds.

    The pause between two polls starts at ``pause_s`` seconds and grows up to ``longest_s``. After polls that found it
    to come ``soon`` it is SOON_S, SOON_POLLS times at most. ``nudge`` is called every ``nudge_s`` seconds, first after
    ``first_nudge_s``: it wakes workers again, in case a message was lost.
    """
    deadline, hasty = clock() + timeout_s, SOON_POLLS
    next_nudge = clock() + (nudge_s if first_nudge_s is None else first_nudge_s)
    while (found := timely(poll, deadline - clock())) is None:
        now = clock()
        if now >= deadline:
            return None
        if now >= next_nudge:
            timely(nudge, deadline - now)
            next_nudge = now + nudge_s
        if hasty and soon():
            hasty -= 1
            yield min(SOON_S, max(0.0, deadline - now))
            continue
        yield min(pause_s, max(0.0, deadline - now))
        pause_s = min(longest_s or pause_s, pause_s * 1.5)
    return found


class WaitTimeout(RetryableError):
    """The stage was not reached in time; the work goes on. ``last_error`` is what its last failed try ended with."""

    code = "wait_timeout"

    def __init__(self, message: str, *, retry_after: float | None = None, last_error: WorkError | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.last_error = last_error


class OperationFailed(PermanentError):
    """An operation was given up; ``memforest dead`` shows why and can try it again."""

    code = "operation_failed"
