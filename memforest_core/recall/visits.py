"""Counts in memory what recall returns, and writes the counts in batches: a recall does not cause a write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

import structlog

from memforest_core.domain.evidence import Evidence
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import StoreUnavailable
from memforest_core.recall.records import CellRef, TurnHead, TurnKey, Visited
from memforest_core.recall.rows.visits import VisitStore

log = structlog.get_logger(__name__)

FLUSH_ITEMS = 1_000
"""Different facts and cells that are counted before they are written: a recall returns some 30."""
FLUSH_S = 60.0
"""The first recall after this long writes what was counted, however little."""
KEPT_ITEMS = 20_000
"""Counted at most while the store is away (a few megabytes); more are left out until it is back."""


def returned(cells: Iterable[CellRef], turns: Mapping[TurnKey, TurnHead], evidence: Iterable[Evidence]) -> list[UUID]:
    """The facts that evidence tells and, among the candidates, the cells in which it was said; each once."""
    pieces = list(evidence)
    said = {(piece.session_id, piece.ordinal) for piece in pieces}
    keys = {key for key, head in turns.items() if (head.session_external_id, head.ordinal) in said}
    items: dict[UUID, None] = {fact: None for piece in pieces for fact in piece.fact_ids}
    for cell in cells:
        if any((cell.session_id, ordinal) in keys for ordinal in range(cell.first_turn, cell.last_turn + 1)):
            items[cell.id] = None
    return list(items)


@dataclass(slots=True)
class _Count:
    visits: int
    last: float


class VisitCounter:
    """The counts of one process. Thread-safe.

    The call that fills a batch, or that finds it old enough, writes it: there is no thread for this. A process that is
    killed loses at most one batch.
    """

    def __init__(
        self,
        store: VisitStore,
        *,
        items: int = FLUSH_ITEMS,
        every_s: float = FLUSH_S,
        kept: int = KEPT_ITEMS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``items`` and ``every_s`` are when a batch is written, ``kept`` how many items are remembered at most."""
        self._store = store
        self._items = items
        self._every_s = every_s
        self._kept = kept
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._counts: dict[tuple[TenantId, ForestId, UUID], _Count] = {}
        self._due_at: float | None = None
        self._failed = False

    def note(self, tenant: TenantId, forest: ForestId, items: Iterable[UUID]) -> None:
        """Recall has returned these facts and cells. Writes if a batch is due; a store that is away is no error."""
        now = self._clock()
        with self._lock:
            for item in items:
                self._add((tenant, forest, item), 1, now)
            # While the store is away a full batch is no reason to ask it with every recall.
            full = len(self._counts) >= self._items and not self._failed
            due = full or (self._due_at is not None and now >= self._due_at)
        if due:
            self.flush()

    def flush(self) -> bool:
        """Write what was counted, one statement per tenant; False when some of it could not be and is kept.

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
                self._store.add(tenant, self._told(visited))
            except StoreUnavailable as error:
                log.warning("visits_kept", items=len(visited), code=error.code)
                self._keep(tenant, visited)
                failed = True
        with self._lock:
            self._failed = failed
        return not failed

    def _told(self, visited: dict[tuple[ForestId, UUID], _Count]) -> list[Visited]:
        now = self._clock()
        return [
            Visited(forest, item, count.visits, max(0.0, now - count.last)) for (forest, item), count in visited.items()
        ]

    def _keep(self, tenant: TenantId, visited: dict[tuple[ForestId, UUID], _Count]) -> None:
        """Put counts back, to be tried again after the usual time."""
        with self._lock:
            for (forest, item), count in visited.items():
                self._add((tenant, forest, item), count.visits, count.last)
            self._due_at = self._clock() + self._every_s

    def _add(self, key: tuple[TenantId, ForestId, UUID], visits: int, moment: float) -> None:
        """Count visits; the caller holds the lock."""
        count = self._counts.get(key)
        if count is not None:
            count.visits += visits
            count.last = max(count.last, moment)
        elif len(self._counts) < self._kept:
            self._counts[key] = _Count(visits, moment)
            if self._due_at is None:
                self._due_at = moment + self._every_s
