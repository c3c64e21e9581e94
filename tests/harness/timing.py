"""Waiting for a condition, and bounds of time that hold on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, action: Callable[[], object], *, tries: int = 5) -> bool:
    """Whether the action takes less than that, once in so many tries: a busy machine delays one of them, not all."""
    for _ in range(tries):
        started = time.monotonic()
        action()
        if time.monotonic() - started < seconds:
            return True
    return False


def until(reached: Callable[[], T], timeout_s: float = 40.0, failure: Callable[[], object] | None = None) -> T:
    """The condition's first true value, polled; a failed test with what ``failure`` says when there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (found := reached()):
        assert time.monotonic() < deadline, failure() if failure else f"not reached in {timeout_s:g} s"
        time.sleep(0.02)
    return found
