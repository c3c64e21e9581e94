"""Counts in memory what recall returns, and writes the counts in batches: a recall does not cause a write."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from uuid import UUID

import structlog

from memforest_core.domain.evidence import Evidence
from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import StoreUnavailable
from memforest_core.recall.records import CellRef, TurnHead, TurnKey, Visited

log = structlog.get_logger(__name__)

FLUSH_ITEMS = 1_000
"""Different facts and cells that are counted before they are written: a recall returns some 30."""
FLUSH_S = 60.0
"""The first recall after this long writes what was counted, however little."""


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


@renewed_in_child
@dataclass(slots=True, weakref_slot=True)
class VisitCounter:
    """The counts of one process. Thread-safe.

    The call that fills a batch, or that finds it old enough, writes it: there is no thread for this. A process that is
    killed, and a store that is unavailable, cost at most one batch.
    """

    add: Callable[[TenantId, Sequence[Visited]], None]
    _: KW_ONLY
    items: int = FLUSH_ITEMS
    every_s: float = FLUSH_S
    """A batch is written when it has so many items, or is so many seconds old."""
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counts: dict[tuple[TenantId, ForestId, UUID], tuple[int, float]] = field(default_factory=dict)
    """How often, and when last."""
    _due_at: float | None = None

    def note(self, tenant: TenantId, forest: ForestId, items: Iterable[UUID]) -> None:
        """Recall has returned these facts and cells. Writes if a batch is due; a store that is unavailable is no
        error."""
        now = self.clock()
        with self._lock:
            for item in items:
                key = (tenant, forest, item)
                self._counts[key] = self._counts.get(key, (0, now))[0] + 1, now
                self._due_at = self._due_at or now + self.every_s
            due = len(self._counts) >= self.items or (self._due_at is not None and now >= self._due_at)
        if due:
            self.flush()

    def flush(self) -> None:
        """Write what was counted, one statement per tenant."""
        with self._lock:
            counts, self._counts, self._due_at = self._counts, {}, None
        now, by_tenant = self.clock(), defaultdict(list)
        for (tenant, forest, item), (visits, last) in counts.items():
            by_tenant[tenant].append(Visited(forest, item, visits, max(0.0, now - last)))
        for tenant, visited in by_tenant.items():
            try:
                self.add(tenant, visited)
            except StoreUnavailable as error:
                log.warning("visits_lost", items=len(visited), code=error.code)
