"""Claimed windows, and the results of their extraction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from memforest_core.domain.facts import Candidate, Outcome
from memforest_core.domain.ids import CellId, ForestId, LeaseToken, SessionId
from memforest_core.domain.people import People
from memforest_core.domain.turns import Turn
from memforest_core.models.calls import Vectors

CONTEXT_TURNS = 2
"""Turns before a window that are shown, not extracted."""


@dataclass(frozen=True, slots=True)
class ClaimedCell:
    """A cell of a claimed window."""

    id: CellId
    ordinal: int
    first_turn: int
    last_turn: int
    char_start: int | None
    char_end: int | None


@dataclass(frozen=True, slots=True)
class ClaimedWindow:
    """A window under lease, with everything that its extraction reads."""

    token: LeaseToken
    lease_until: datetime
    forest_id: ForestId
    session_id: SessionId
    owner: str
    time_zone: str
    attempts: int
    """Tries so far, this one included."""
    live: bool
    """Of the live lane: a caller may be waiting for it."""
    trace: str | None
    """The W3C traceparent that its session was accepted under."""
    retries_verbatim: bool
    """Its cells are stored word by word already: this try replaces them if it succeeds."""
    cells: tuple[ClaimedCell, ...]
    turns: tuple[Turn, ...]
    context: tuple[Turn, ...]
    display_name: str | None = None
    """What the owner is called."""
    people: People | None = None
    """Everybody who speaks in the forest."""
    note: bool = False
    """Its session is a note: what it says is stored, whatever a reader finds in it."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """What extraction made of one cell."""

    cell_id: CellId
    outcome: Outcome
    summary: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class WindowResult:
    """What extraction made of a window: results per cell, vectors by text. ``answer`` is the validated answer to keep
    under ``input_hash``, or None when it came from there."""

    cells: tuple[CellResult, ...]
    vectors: Mapping[str, Vectors]
    input_hash: bytes | None = None
    answer: Mapping[str, object] | None = None
    left_out: str = ""
    """What of the answer could not be used, in words without its content."""
