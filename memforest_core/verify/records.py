"""What verification needs from the store: counts and violations in one snapshot, and repairs of derived artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from memforest_core.domain.ids import ForestId, NodeId, TenantId
from memforest_core.index.records import PointRow
from memforest_core.refresh.records import SummarySource


class Check(StrEnum):
    """One promise each; the order is that of the report."""

    TURNS = "turns"
    CELLS = "cells"
    SESSION_COUNTERS = "session_counters"
    WINDOWS = "windows"
    OUTCOMES = "outcomes"
    CANDIDATES = "candidates"
    OCCURRENCES = "occurrences"
    FACTS = "facts"
    TREE_HEADS = "tree_heads"
    TREE_NODES = "tree_nodes"
    TREE_COUNTERS = "tree_counters"
    PLACEMENTS = "placements"
    LEAVES = "leaves"
    PLACED_CELLS = "placed_cells"
    CHANGES = "changes"
    LEASES = "leases"
    TASKS = "tasks"
    FORESTS = "forests"
    DUE_TREES = "due_trees"
    DIRTY_PATHS = "dirty_paths"
    SUMMARIES = "summaries"
    INDEX_ROWS = "index_rows"
    UNINDEXED = "unindexed"
    ORPHAN_VECTORS = "orphan_vectors"
    INDEX_POINTS = "index_points"
    ORPHAN_POINTS = "orphan_points"


@dataclass(frozen=True, slots=True)
class Found:
    """A violation: the id of the row that breaks a promise, of vectors their forest's, and a stable word for how."""

    id: UUID
    what: str


@dataclass(frozen=True, slots=True)
class SummaryState:
    """A clean internal node: the summary it has, and its children's texts now, in key order.

    The ``stored_`` fields are None when it has none. ``in_flight`` says that a child's text has changed and its way
    into the tree has not been walked yet.
    """

    node_id: NodeId
    version: int
    stored_version: int | None
    stored_source: SummarySource | None
    stored_model: str | None
    stored_hash: bytes | None
    stored_text: str | None
    children: tuple[str, ...]
    in_flight: bool


class SnapshotRows(Protocol):
    """Rows of one forest or several, all as they were at one moment. Everything streams."""

    def checked(self, check: Check) -> int:
        """How many items a check looks at."""
        ...

    def violations(self, check: Check) -> Iterator[Found]:
        """The violations of a check that rows alone decide; an item may break a promise in several ways."""
        ...

    def summaries(self, page: int) -> Iterator[Sequence[SummaryState]]:
        """The clean internal nodes, ``page`` at a time."""
        ...

    def buried(self) -> Mapping[str, int]:
        """How many cells, nodes and index rows are dead: known, and for a person to look at."""
        ...


class RepairRows(Protocol):
    """Repairs in one transaction, each guarded: what is sound by now is left alone."""

    def repair(self, check: Check, found: Sequence[Found]) -> int:
        """Mend what these violations broke, as far as it is derived; how many rows were changed."""
        ...


class VerifyStore(Protocol):
    """Opens snapshots and repairs."""

    def tenants(self) -> Sequence[TenantId]:
        """All tenants, in order."""
        ...

    def forest(self, tenant: TenantId, owner: str) -> ForestId | None:
        """The forest of an owner."""
        ...

    def forests(self, tenant: TenantId, after: ForestId | None, limit: int) -> Sequence[ForestId]:
        """The next forests in the order of ids."""
        ...

    def snapshot(self, tenant: TenantId, forests: Sequence[ForestId]) -> AbstractContextManager[SnapshotRows]:
        """One read-only view of these forests, at one moment; without forests, of what belongs to none."""
        ...

    def repairing(self, tenant: TenantId) -> AbstractContextManager[RepairRows]:
        """One repairing transaction."""
        ...

    def written_rows(
        self, tenant: TenantId, forest: ForestId | None, after: UUID | None, limit: int
    ) -> Sequence[PointRow]:
        """The next index rows in the order of ids that say that the index has their point, as they are now."""
        ...

    def point_ids(self, tenant: TenantId, forest: ForestId, after: UUID | None, limit: int) -> Sequence[UUID]:
        """The points that the next index rows of a forest stand for, in order, as things are now."""
        ...
