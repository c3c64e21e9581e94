"""Bounds of time that hold on a machine where something else runs as well."""

from __future__ import annotations

import time
from collections.abc import Callable


def within(seconds: float, action: Callable[[], object], *, tries: int = 5) -> bool:
    """Whether the action takes less than that, once in so many tries: a busy machine delays one of them, not all."""
    for _ in range(tries):
        started = time.monotonic()
        action()
        if time.monotonic() - started < seconds:
            return True
    return False
