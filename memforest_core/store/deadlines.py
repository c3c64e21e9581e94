"""How long the code of a block waits for answers; for its thread, not for threads that it starts."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_until: ContextVar[float] = ContextVar("memforest_until", default=math.inf)
_patient: ContextVar[bool] = ContextVar("memforest_patient", default=False)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Wait at most so many seconds for all answers of the block together."""
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


@contextmanager
def patiently() -> Iterator[None]:
    """Wait for each statement of the block as long as Postgres may take for a statement: a worker's may be long."""
    token = _patient.set(True)
    try:
        yield
    finally:
        _patient.reset(token)


def seconds_left() -> float:
    """Seconds that are left to the block, infinite outside of ``within``."""
    return max(0.0, _until.get() - time.monotonic())


def is_patient() -> bool:
    """Whether this is code of a block of ``patiently``."""
    return _patient.get()
