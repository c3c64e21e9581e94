"""What accepting a session needs from the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from memforest_core.domain.cells import CellCut
from memforest_core.domain.documents import plain
from memforest_core.domain.ids import ForestId, SessionId, TenantId
from memforest_core.domain.turns import Turn
from memforest_core.store.owners import ForestRef
from memforest_core.work.jobs import Lane, WorkError


class Stage(StrEnum):
    """How far a session has come; each stage includes the ones before it."""

    ACCEPTED = "accepted"
    RAW = "raw"
    FACTS = "facts"
    SUMMARIES = "summaries"


@dataclass(frozen=True, slots=True)
class SessionHead:
    """A session's row, locked: where the next turn goes."""

    id: SessionId
    started_at: datetime
    time_zone: str
    turn_count: int
    cell_count: int
    lane: Lane
    created: bool


@dataclass(frozen=True, slots=True)
class SessionProgress:
    """A session's state, derived from its cells: never stored, so never wrong.

    Every cell counts once among ``ok``, ``empty`` (the model said that there is nothing to keep), ``repaired``,
    ``verbatim`` (kept word by word until the model behaves), ``failed`` (its last try failed, the next one comes),
    ``dead`` (given up: its facts are missing until somebody acts, its turns are not) and ``waiting``.
    """

    session_id: SessionId
    stage: Stage
    turns: int
    cells: int
    indexed: int
    extracted: int
    placed: int
    ok: int
    empty: int
    repaired: int
    verbatim: int
    failed: int
    dead: int
    waiting: int
    covered: int
    """Cells that a model has read as it should, and whose facts are in the trees."""
    facts: int
    dirty_trees: int
    last_error: WorkError | None = None
    """Why it goes no further: what the last failed try of its unfinished work ended with. None when nothing failed."""

    @property
    def coverage(self) -> float:
        """The share of cells whose facts a model found and the trees hold, in [0, 1]."""
        return self.covered / self.cells if self.cells else 1.0

    @property
    def ready(self) -> bool:
        """Whether nothing is left to do: each cell is in the trees or dead, and all summaries are up to date."""
        return self.stage is Stage.SUMMARIES

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON values, by the names of the fields, with ``coverage`` and ``ready``."""
        return {**plain(self), "coverage": self.coverage, "ready": self.ready}


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What a tenant may do that differs from the deployment's settings; None takes those."""

    max_waiting_cells: int | None = None
    max_turns_per_day: int | None = None


@dataclass(frozen=True, slots=True)
class WaitingCells:
    """How many cells wait for extraction; when counting was ended early, at least so many."""

    cells: int
    complete: bool


@dataclass(frozen=True, slots=True)
class StoredTurns:
    """Turns stored within a span of time, and how many seconds ago the oldest of them came (0 without any)."""

    turns: int
    oldest_s: float


class AcceptRows(Protocol):
    """Rows of one accepting transaction."""

    def forest(self, owner: str) -> ForestRef | None:
        """The owner's forest, if there is one."""
        ...

    def ensure_forest(self, owner: str, forest_id: ForestId, time_zone: str) -> ForestRef:
        """The owner's forest, created with this id and zone when missing."""
        ...

    def set_display_name(self, forest: ForestRef, name: str) -> None:
        """Change what the owner is called; the name is one of the owner's from now on."""
        ...

    def lock_session(
        self, forest: ForestRef, external_id: str, started_at: datetime, lane: Lane, trace: str | None
    ) -> SessionHead:
        """The session's row, created when missing (with this lane and trace), locked until the transaction ends."""
        ...

    def turns(self, session: SessionId, first: int = 0) -> list[Turn]:
        """Stored turns in order, from ordinal ``first``."""
        ...

    def turn_named(self, session: SessionId, turn_id: str) -> Turn | None:
        """The stored turn with this id."""
        ...

    def held_tail(self, session: SessionId) -> tuple[int, int] | None:
        """(ordinal, first turn) of the session's open last cell, locked; None when it is closed."""
        ...

    def add_turns(self, forest: ForestId, session: SessionId, turns: Sequence[Turn]) -> None:
        """Store new turns, and note their human speakers."""
        ...

    def put_cells(
        self,
        forest: ForestId,
        session: SessionId,
        cells: Sequence[CellCut],
        lane: Lane,
        held_for_s: float | None,
    ) -> None:
        """Store cells, ready for extraction, and mark them for indexing.

        With ``held_for_s``, a last cell that is not full stays open for that many seconds.
        """
        ...

    def set_counts(self, session: SessionId, turns: int, cells: int) -> None:
        """Update the session's counters."""
        ...

    def progress(self, forest: ForestId, session: SessionId) -> SessionProgress | None:
        """How far a session has come; None when it does not exist."""
        ...

    def last_error(self, session: SessionId) -> WorkError | None:
        """What the last failed try of the session's unfinished work ended with; else of any other waiting cell."""
        ...

    def limits(self) -> TenantLimits:
        """The tenant's own limits."""
        ...

    def set_limits(self, limits: TenantLimits) -> None:
        """Change the tenant's own limits; a tenant that is not known yet gets its row."""
        ...

    def waiting_cells(self, most: int) -> WaitingCells:
        """How many of the tenant's cells wait for extraction, from at most ``most`` windows.

        Exact up to two hundred windows; beyond, their number times what the next two hundred hold on average.
        """
        ...

    def stored_turns(self, span_s: float) -> StoredTurns:
        """Turns that the tenant stored within the last ``span_s`` seconds.

        The second turn of an appended cell counts at the time of the first.
        """
        ...


class AcceptStore(Protocol):
    """Opens accepting transactions."""

    def accepting(self, tenant: TenantId, joined: object | None = None) -> AbstractContextManager[AcceptRows]:
        """One transaction; with ``joined`` (the caller's SQLAlchemy connection or session) it neither
        commits nor closes, and leaves the transaction's settings as it found them."""
        ...
