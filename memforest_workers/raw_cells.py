"""Vectors of raw cells: one thread of a process makes them, and no cell waits because that thread queried too early."""

from __future__ import annotations

import threading
from collections.abc import Callable

from memforest_core.domain.ids import TenantId


class RawCells:
    """Indexes raw cells in one thread at a time. Thread-safe.

    That thread fills the processors with the embedding model, while the others go on to ask the chat model. A cell may
    be committed after the query of the thread that is at it, and its window be taken by any thread: so each task
    queries once more before it ends. When another thread is at it then, that one sends a wake-up after its batch.
    """

    def __init__(self, index: Callable[[TenantId], int], batch: int, wake: Callable[[TenantId], None]) -> None:
        """``index`` indexes at most ``batch`` of a tenant's cells and says how many there were; ``wake`` sends a
        wake-up for the tenant's extraction."""
        self._index = index
        self._batch = batch
        self._wake = wake
        self._lock = threading.Lock()
        self._busy = False
        self._late: set[TenantId] = set()

    def index(self, tenant: TenantId) -> int | None:
        """How many of a batch were indexed; None when another thread is at it."""
        return self._indexed(tenant, last=False)

    def index_rest(self, tenant: TenantId) -> bool:
        """See that what is committed by now is indexed by some thread; whether this thread did a part of it.

        A full batch hands over to a wake-up, so that windows have their turn.
        """
        done = self._indexed(tenant, last=True)
        if done is not None and done >= self._batch:
            self._wake(tenant)
        return bool(done)

    def _indexed(self, tenant: TenantId, *, last: bool) -> int | None:
        with self._lock:
            if self._busy:
                if last:
                    self._late.add(tenant)
                return None
            self._busy = True
        try:
            return self._index(tenant)
        finally:
            with self._lock:
                late, self._late = self._late, set()
                self._busy = False
            for each in late:
                self._wake(each)
