"""Waits in short steps: a thread sleeps between them, an event loop does something else."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

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
