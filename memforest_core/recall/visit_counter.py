"""Counts in memory what recall returns, and writes the counts in batches: a recall does not cause a write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from uuid import UUID

import structlog

from memforest_core.domain.evidence import Evidence
from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import StoreUnavailable
from memforest_core.recall.records import CellRef, TurnHead, TurnKey, Visited
from memforest_core.recall.rows.visit_rows import VisitStore

log = structlog.get_logger(__name__)

FLUSH_ITEMS = 1_000
"""Different facts and cells that are counted before they are written: a recall returns some 30."""
FLUSH_S = 60.0
"""The first recall after this long writes what was counted, however little."""
RETAINED_ITEMS = 20_000
"""Counted at most while the store is unavailable (a few megabytes); more are left out until it is back."""


def returned(cells: Iterable[CellRef], turns: Mapping[TurnKey, TurnHead], evidence: Iterable[Evidence]) -> list[UUID]:
    """The facts of evidence and, among the candidates, the cells that contain it; each once."""
    items_found = list(evidence)
    said = {(piece.session_id, piece.ordinal) for piece in items_found}
    keys = {key for key, head in turns.items() if (head.session_external_id, head.ordinal) in said}
    items: dict[UUID, None] = {fact: None for piece in items_found for fact in piece.fact_ids}
    for cell in cells:
        if any((cell.session_id, ordinal) in keys for ordinal in range(cell.first_turn, cell.last_turn + 1)):
            items[cell.id] = None
    return list(items)


@dataclass(slots=True)
class _Count:
    visits: int
    last: float


@renewed_in_child
@dataclass(slots=True, weakref_slot=True)
class VisitCounter:
    """The counts of one process. Thread-safe.

    The call that fills a batch, or that finds it old enough, writes it: there is no thread for this. A process that is
    killed loses at most one batch.
    """

    store: VisitStore
    _: KW_ONLY
    items: int = FLUSH_ITEMS
    every_s: float = FLUSH_S
    """A batch is written when it has so many items, or is so many seconds old."""
    retained: int = RETAINED_ITEMS
    """Items that are remembered at most."""
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _counts: dict[tuple[TenantId, ForestId, UUID], _Count] = field(default_factory=dict)
    _due_at: float | None = None
    _failed: bool = False

    def note(self, tenant: TenantId, forest: ForestId, items: Iterable[UUID]) -> None:
        """Recall has returned these facts and cells. Writes if a batch is due; a store that is unavailable is no
        error."""
        now = self.clock()
        with self._lock:
            for item in items:
                self._add((tenant, forest, item), 1, now)
            # While the store is unavailable a full batch is no reason to ask it with every recall.
            full = len(self._counts) >= self.items and not self._failed
            due = full or (self._due_at is not None and now >= self._due_at)
        if due:
            self.flush()

    def flush(self) -> bool:
        """Write what was counted, one statement per tenant; False when some of it could not be and is retained.

        While another thread writes, this returns at once.
        """
        if not self._writing.acquire(blocking=False):
            return False
        try:
            return self._write()
        finally:
            self._writing.release()

    def close(self) -> None:
        """Write the rest, once no other thread writes; what can't be written now is lost."""
        with self._writing:
            if not self._write():
                log.warning("visits_lost", items=len(self._counts))

    def _write(self) -> bool:
        with self._lock:
            counts, self._counts, self._due_at = self._counts, {}, None
        by_tenant: dict[TenantId, dict[tuple[ForestId, UUID], _Count]] = {}
        for (tenant, forest, item), count in counts.items():
            by_tenant.setdefault(tenant, {})[forest, item] = count
        failed = False
        for tenant, visited in by_tenant.items():
            try:
                now = self.clock()
                visits = [
                    Visited(forest, item, count.visits, max(0.0, now - count.last))
                    for (forest, item), count in visited.items()
                ]
                self.store.add(tenant, visits)
            except StoreUnavailable as error:
                log.warning("visits_retained", items=len(visited), code=error.code)
                self._retain(tenant, visited)
                failed = True
        with self._lock:
            self._failed = failed
        return not failed

    def _retain(self, tenant: TenantId, visited: dict[tuple[ForestId, UUID], _Count]) -> None:
        """Put counts back, to be tried again after the usual time."""
        with self._lock:
            for (forest, item), count in visited.items():
                self._add((tenant, forest, item), count.visits, count.last)
            self._due_at = self.clock() + self.every_s

    def _add(self, key: tuple[TenantId, ForestId, UUID], visits: int, moment: float) -> None:
        """Count visits; the caller holds the lock."""
        count = self._counts.get(key)
        if count is not None:
            count.visits += visits
            count.last = max(count.last, moment)
        elif len(self._counts) < self.retained:
            self._counts[key] = _Count(visits, moment)
            if self._due_at is None:
                self._due_at = moment + self.every_s
