"""Children of tree nodes that were read before: a tree that has not changed is browsed without reading it again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from uuid import UUID

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import TenantId
from memforest_core.recall.records import Below

KEPT_CHILDREN = 200_000
"""Of one process, at some 500 bytes each; 2,700 are read at most by a question to a forest of 100,000 facts."""


@renewed_in_child
class KeptTrees:
    """Children by node and the node's version, the least recently used dropped first. Thread-safe.

    Whatever changes below a node raises its version, so that children of the right version are those of now. Nothing
    here has texts: ids, times and versions only.
    """

    def __init__(self) -> None:
        self._nodes: OrderedDict[tuple[TenantId, UUID], Below] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    def known(self, tenant: TenantId, versions: Mapping[UUID, int]) -> dict[UUID, Below]:
        """What is kept of these nodes at these versions."""
        found: dict[UUID, Below] = {}
        with self._lock:
            for node, version in versions.items():
                below = self._nodes.get((tenant, node))
                if below is not None and below.version == version:
                    found[node] = below
                    self._nodes.move_to_end((tenant, node))
        return found

    def lacking(self, tenant: TenantId, nodes: Iterable[UUID]) -> list[UUID]:
        """Those of these nodes of which nothing is kept, at no version."""
        with self._lock:
            return [node for node in nodes if (tenant, node) not in self._nodes]

    def keep(self, tenant: TenantId, read: Iterable[Below]) -> None:
        """Keep what was read, each in place of another version of it."""
        with self._lock:
            for below in read:
                former = self._nodes.pop((tenant, below.parent), None)
                self._count += len(below.children) - (0 if former is None else len(former.children))
                self._nodes[tenant, below.parent] = below
            while self._count > KEPT_CHILDREN:
                self._count -= len(self._nodes.popitem(last=False)[1].children)
