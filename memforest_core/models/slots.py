"""How many calls of a kind one process has under way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from memforest_core.errors import ModelUnavailable

CONCURRENCY = 8
"""Requests of one process to an embedding or rerank model that are under way at once."""


@contextmanager
def slot_of(slots: threading.Semaphore, timeout_s: float, what: str, hint: str = "") -> Iterator[None]:
    """A slot, waited for at most ``timeout_s`` seconds. Raises ModelUnavailable, which says ``what`` was busy."""
    if not slots.acquire(timeout=timeout_s):
        raise ModelUnavailable(f"{what} stayed busy for {timeout_s:g} s{hint}.")
    try:
        yield
    finally:
        slots.release()
