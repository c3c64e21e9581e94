"""What extraction needs from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from memforest_core.domain.facts import Candidate, Outcome
from memforest_core.domain.ids import CellId, ForestId, LeaseToken, SessionId, TenantId, WorkerId
from memforest_core.domain.turns import Turn
from memforest_core.models.calls import CallRecord, Vectors
from memforest_core.store.vectors import VectorRows


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
    forest_id: ForestId
    session_id: SessionId
    owner: str
    time_zone: str
    attempts: int
    """Tries so far, this one included."""
    live: bool
    """Of the live lane: somebody may be waiting for it."""
    trace: str | None
    """The W3C traceparent that its session was accepted under."""
    again: bool
    """Its cells are kept word by word already: this try can only make them better."""
    cells: tuple[ClaimedCell, ...]
    turns: tuple[Turn, ...]
    context: tuple[Turn, ...]
    display_name: str | None = None
    """What the owner is called."""


@dataclass(frozen=True, slots=True)
class Again:
    """When cells kept word by word are extracted again: the first delay and the longest, in seconds."""

    first_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class NewCandidate:
    """A candidate and the texts whose vectors the reducer will need."""

    candidate: Candidate
    routing_text: str


@dataclass(frozen=True, slots=True)
class CellResult:
    """What extraction made of one cell."""

    cell_id: CellId
    outcome: Outcome
    summary: str
    candidates: tuple[NewCandidate, ...]


@dataclass(frozen=True, slots=True)
class WindowResult:
    """What extraction made of a window: results per cell, vectors by text.

    ``answer`` is the validated answer to keep under ``input_hash``, or None when it came from there.
    """

    cells: tuple[CellResult, ...]
    vectors: Mapping[str, Vectors]
    input_hash: bytes | None = None
    answer: Mapping[str, object] | None = None


class ExtractRows(VectorRows, Protocol):
    """Rows of one extraction transaction."""

    def claim_window(self, worker: WorkerId, lease_s: float) -> ClaimedWindow | None:
        """Take the next ready window under a new lease: live lane first, oldest first."""
        ...

    def cached_answer(self, input_hash: bytes) -> Mapping[str, object] | None:
        """An answer already paid for."""
        ...

    def known_attributes(self, forest: ForestId, limit: int) -> list[str]:
        """Names of attributes that the forest's latest facts use, the most frequent first; no facts."""
        ...

    def finish_window(self, window: ClaimedWindow, model: str, result: WindowResult, again: Again) -> bool:
        """Store a window's candidates and end its lease; False when the lease was lost meanwhile.

        Cells kept word by word are to be extracted again, after a delay that doubles. Candidates that are in the trees
        already are moved aside, to items below zero, until the reducer has taken them out.
        """
        ...

    def keep_window(self, window: ClaimedWindow, again: Again, code: str, text: str) -> None:
        """End the lease of a window whose cells stay as they are, to be extracted again later still."""
        ...

    def retry_window(self, window: ClaimedWindow, delay_s: float, counts: bool, code: str, text: str) -> None:
        """Give the window back for a later try."""
        ...

    def split_window(self, window: ClaimedWindow, code: str, text: str) -> None:
        """Give the cells back as windows of their own."""
        ...

    def bury_window(self, window: ClaimedWindow, code: str, text: str) -> None:
        """Dead-letter the window's cells with the error."""
        ...

    def record_calls(self, calls: Sequence[CallRecord], forest: ForestId | None, session: SessionId | None) -> None:
        """Account for model calls."""
        ...


class ExtractStore(Protocol):
    """Opens extraction transactions."""

    def extracting(self, tenant: TenantId) -> AbstractContextManager[ExtractRows]:
        """One transaction of a tenant."""
        ...
