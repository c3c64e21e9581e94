"""What correcting and pinning facts needs from the store: the fact, what rests on it, and one transaction for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.models.calls import CallRecord, OwnText, Vectors
from memforest_core.store.owners import ForestRef
from memforest_core.work.records import MaintenanceRows


@dataclass(frozen=True, slots=True)
class Source:
    """One time that a fact was said: the cell, the turns in it, the quote."""

    cell_id: CellId
    turn_ordinals: tuple[int, ...]
    quote: str


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact to correct, with where it was said."""

    id: FactId
    statement: Statement
    sources: tuple[Source, ...]
    pinned: bool
    superseded_by: FactId | None
    superseded_at: datetime | None
    busy: bool
    """A cell that says it is being extracted, or was given up: what it says is not settled."""


@dataclass(frozen=True, slots=True)
class Successor:
    """What a fact says from now on, under the id it will have once it is placed."""

    id: FactId
    statement: Statement
    routing_text: str


@dataclass(frozen=True, slots=True)
class Reach:
    """How much a correction touches: rows that rest on the fact, and nodes to summarize anew."""

    occurrences: int
    cells: int
    trees: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Corrected candidates that no fact has yet, and whether a cell of theirs was given up."""

    candidates: int
    dead: bool


class CorrectionRows(Protocol):
    """Rows of one transaction."""

    @property
    def tasks(self) -> MaintenanceRows:
        """Task rows and the audit in the same transaction."""
        ...

    def forest(self, owner: str) -> ForestRef | None:
        """The owner's forest, if it exists."""
        ...

    def owner(self, forest: ForestId) -> str | None:
        """Whose forest it is; None when it is gone."""
        ...

    def hold(self, forest: ForestId) -> str | None:
        """Become the forest's only writer; its state, None when it is gone. Raises StoreUnavailable past the time-out
        of locks."""
        ...

    def fact(self, forest: ForestId, fact: FactId) -> StoredFact | None:
        """One fact of a forest. Whoever holds the forest has its cells too until the transaction ends."""
        ...

    def reach(self, fact: FactId) -> Reach:
        """What a correction of the fact would touch."""
        ...

    def put_vectors(self, model: str, vectors: Mapping[OwnText, Vectors]) -> None:
        """Store vectors by text; one that is there already stays."""
        ...

    def record_call(self, call: CallRecord, forest: ForestId) -> None:
        """Account for a model call."""
        ...

    def supersede(self, fact: FactId, by: Successor, sources: Sequence[Source]) -> None:
        """Put the successor beside each source for the reducer to place, and supersede the fact from now on.

        Summaries above it are to be made anew, and what is kept word by word of these cells is not extracted again. A
        successor that was itself superseded before is so no longer. The caller holds the forest.
        """
        ...

    def set_pinned(self, fact: FactId, pinned: bool) -> None:
        """Pin or unpin a fact."""
        ...

    def waiting(self, facts: Sequence[FactId]) -> Waiting:
        """What is still to be placed in the cells that say these facts."""
        ...

    def move_pin(self, fact: FactId, to: FactId) -> None:
        """Whoever was pinned in the fact's old words is in its new ones."""
        ...


class CorrectionStore(Protocol):
    """Opens transactions."""

    def correcting(self, tenant: TenantId) -> AbstractContextManager[CorrectionRows]:
        """One transaction of a tenant. Raises StoreUnavailable."""
        ...
