"""Vectors of points that were asked for by id, kept in memory: a product takes a tenth of what a search by ids does."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.vector_index import DenseVector, PointKey, PointKind

Group = tuple[TenantId, ForestId, PointKind]
"""Whose points they are and of which kind: an id of a row means one point in it."""

KEPT_BYTES = 128_000_000
"""Of one index: at 384 numbers a vector 74,000 vectors, what browsing reads of some hundred large forests."""
OVERHEAD = 192
"""Bytes of a kept vector besides its numbers: array, id, entry (measured: 181)."""


class KeptVectors:
    """Vectors as the index has them, those of the least recently used forests dropped first. Thread-safe.

    Who writes to the index calls ``forget`` after each write and before it is acknowledged. What was read while
    somebody wrote is not kept: ``keep`` is told when the reading began.
    """

    def __init__(self, dimension: int) -> None:
        self._most = KEPT_BYTES // (4 * dimension + OVERHEAD)
        self._groups: OrderedDict[Group, dict[UUID, DenseVector]] = OrderedDict()
        self._count = 0
        self._forgotten = 0
        self._lock = threading.Lock()

    def of(self, group: Group, rows: Sequence[UUID]) -> tuple[list[DenseVector | None], int]:
        """The vector of each of these rows that is kept, and the moment, for ``keep``."""
        with self._lock:
            known = self._groups.get(group)
            if known is None:
                return [None] * len(rows), self._forgotten
            self._groups.move_to_end(group)
            return list(map(known.get, rows)), self._forgotten

    def keep(self, group: Group, vectors: Mapping[UUID, DenseVector], moment: int) -> None:
        """Keep vectors that were read since ``moment``, unless something was written since."""
        with self._lock:
            if moment != self._forgotten:
                return
            known = self._groups.setdefault(group, {})
            self._groups.move_to_end(group)
            self._count -= len(known)
            known.update(vectors)
            self._count += len(known)
            while self._count > self._most and len(self._groups) > 1:
                self._count -= len(self._groups.popitem(last=False)[1])
            if self._count > self._most:
                # The oldest go, a part at once: the best roots come back with the next question.
                for row in list(islice(known, len(known) - self._most * 3 // 4)):
                    del known[row]
                self._count = len(known)

    def forget(self, keys: Iterable[PointKey]) -> None:
        """Drop what was written or deleted."""
        with self._lock:
            self._forgotten += 1
            for key in keys:
                for kind in PointKind:
                    known = self._groups.get((key.tenant, key.forest_id, kind))
                    if known is not None and known.pop(key.id, None) is not None:
                        self._count -= 1
