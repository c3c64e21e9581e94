"""What verification checks and finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from memforest_core.domain.ids import NodeId
from memforest_core.refresh.records import SummarySource


class Check(StrEnum):
    """One check each, in the order of the report, with the promise that it checks and whether it can be repaired.

    Repairable are derived artifacts, and who works on what. Persistent state is never changed.
    """

    promise: str
    repairable: bool

    def __new__(cls, value: str, promise: str, repairable: bool = False) -> Check:
        check = str.__new__(cls, value)
        check._value_, check.promise, check.repairable = value, promise, repairable
        return check

    TURNS = "turns", "the turns of a session are numbered from 0 without gaps, and are in cells"
    CELLS = "cells", "cells cover all turns of their session once, in order"
    SESSION_COUNTERS = "session_counters", "sessions count their turns and cells", True
    WINDOWS = "windows", "a cell that waits for extraction can be claimed", True
    OUTCOMES = "outcomes", "an extracted cell says how that ended"
    CANDIDATES = "candidates", "a placed cell's candidates are attached to one fact each; none is superseded"
    OCCURRENCES = "occurrences", "occurrences name turns that exist, of their cell's session and their fact's forest"
    FACTS = "facts", "every fact has an occurrence and is in a scope"
    TREE_HEADS = "tree_heads", "active trees have one root, other scopes none"
    TREE_NODES = "tree_nodes", "nodes are linked, filled, ordered and bounded as a tree of their branching is", True
    TREE_COUNTERS = "tree_counters", "trees know their leaves, members and height", True
    PLACEMENTS = "placements", "every placement of an active tree has its leaf"
    LEAVES = "leaves", "every leaf has its placement and its payload, under the payload's key and interval"
    PLACED_CELLS = "placed_cells", "every placed cell has its leaf in its session's tree"
    CHANGES = "changes", "a deleted turn has no words left, and a corrected fact has its successor"
    LEASES = "leases", "work is running exactly when somebody holds a lease on it", True
    TASKS = "tasks", "maintenance is running exactly when somebody holds a lease on it", True
    FORESTS = "forests", "no forest is frozen, hidden or going without an operation that is at it"
    DUE_TREES = "due_trees", "a tree is due exactly when it has a dirty node", True
    DIRTY_PATHS = "dirty_paths", "what is above a dirty node is dirty", True
    SUMMARIES = "summaries", "a clean node's summary was made from its children's texts as they are", True
    INDEX_ROWS = "index_rows", "index rows stand for something, and are done when the index has their version", True
    UNINDEXED = "unindexed", "every cell, fact and summary has an index row", True
    ORPHAN_VECTORS = "orphan_vectors", "every vector is of a text that its forest still has", True
    INDEX_POINTS = "index_points", "the index has the point of every row that says so", True
    ORPHAN_POINTS = "orphan_points", "every point of the index has its row, and is not newer than it", True


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
