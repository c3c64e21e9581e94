"""What verification needs from the store: counts and violations in one snapshot, and repairs of derived artifacts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from memforest_core.domain.ids import NodeId
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
