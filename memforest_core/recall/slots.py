"""Recalls of one process compute a few at a time: Python runs one thread at once, and more of them only hinder each
other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from memforest_core.domain.forks import renewed_in_child

PATIENCE_S = 5.0
"""Who has waited so long goes on without a slot: a store that hangs delays what others ask for by no more."""


@renewed_in_child
class Slots:
    """``at_once`` slots. Thread-safe."""

    def __init__(self, at_once: int, patience_s: float = PATIENCE_S) -> None:
        self._free = threading.Semaphore(at_once)
        self._patience_s = patience_s

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a slot for the block; none after ``patience_s`` seconds in which none became free."""
        taken = self._free.acquire(timeout=self._patience_s)
        try:
            yield
        finally:
            if taken:
                self._free.release()
