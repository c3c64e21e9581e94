"""Waits in short steps: a thread sleeps between them, an event loop does something else."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from memforest_core.errors import RetryableError
from memforest_core.work.jobs import WorkError

T = TypeVar("T")

Steps: TypeAlias = Generator[float, None, T]
"""A wait: each step looks once and says after how many seconds to look again; its value is the result."""


def waited(steps: Steps[T], sleep: Callable[[float], None] = time.sleep) -> T:
    """What a wait ends with, waited for in this thread."""
    while True:
        try:
            pause = next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result
        sleep(pause)


class WaitTimeout(RetryableError):
    """The stage was not reached in time; the work goes on. ``last_error`` is what its last failed try ended with."""

    code = "wait_timeout"

    def __init__(self, message: str, *, retry_after: float | None = None, last_error: WorkError | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.last_error = last_error
