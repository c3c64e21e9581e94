"""Records of the reducer: waiting cells, scopes and their members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from memforest_core.domain.facts import Candidate
from memforest_core.domain.ids import CellId, ForestId, PayloadId, SessionId, TreeId, TreeKind
from memforest_core.memtree import TreeHead
from memforest_core.models.calls import Vectors

if TYPE_CHECKING:
    from memforest_core.store.trees import SceneSpan

Rules = Mapping[str, float]
"""Branching factors and thresholds of one forest, under the names they have in the settings."""

HELD = "held"
"""A key among the rules of a hidden forest: its trees are not refreshed before the rebuild is complete."""


@dataclass(frozen=True, slots=True)
class WaitingCandidate:
    """A candidate with the ordinal of its cell, and the vectors of its text and its routing
    (``models/statement_vectors.py``).

    None for a missing vector: something with the same text was erased while it was extracted. It is embedded again.
    """

    candidate: Candidate
    vector: Vectors | None
    routing_vector: Vectors | None
    cell_ordinal: int


@dataclass(frozen=True, slots=True)
class WaitingCell:
    """An extracted cell that is not in the trees yet."""

    id: CellId
    session_id: SessionId
    session_label: str
    ordinal: int
    first_turn: int
    char_start: int
    time_start: datetime
    time_end: datetime
    candidates: tuple[WaitingCandidate, ...]
    trace: str | None = None
    """The W3C traceparent that its session was accepted under."""
    reopened: bool = False
    """It was in the trees before: its earlier candidates are to be replaced."""
    note: bool = False
    """Its session is a note: its facts are pinned."""


@dataclass(frozen=True, slots=True)
class WaitingForest:
    """A forest with extracted cells, and which."""

    forest_id: ForestId
    owner: str
    cells: tuple[CellId, ...]
    extracted_at: Mapping[CellId, datetime]
    """When each was extracted: another time means that it was extracted again."""


@dataclass(frozen=True, slots=True)
class ReduceBatch:
    """Waiting cells of one forest."""

    forest_id: ForestId
    owner: str
    cells: tuple[WaitingCell, ...]
    rules: Rules = field(default_factory=dict)
    """Where the forest's differ from the settings."""
    held: bool = False
    """The forest is being rebuilt while the live one is in use: its summaries wait until it is whole."""


@dataclass(frozen=True, slots=True)
class ScopeDraft:
    """A scope as it should be stored; ``span`` is that of a scene."""

    id: TreeId
    kind: TreeKind
    key: str
    label: str
    k: int
    session_id: SessionId | None = None
    domain: str = ""
    span: SceneSpan | None = None
    person: bool = False
    """The owner or a human speaker: the label follows the newest name."""


@dataclass(frozen=True, slots=True)
class ScopeHead:
    """A stored scope: its kind, its label and, when it is active, its tree."""

    kind: TreeKind
    label: str
    head: TreeHead | None


@dataclass(frozen=True, slots=True)
class Member:
    """A payload of a scope and the session it came from."""

    tree_id: TreeId
    payload_id: PayloadId
    session_id: SessionId
