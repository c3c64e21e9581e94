"""A fact to correct, where it was said, and what it says from then on."""

from __future__ import annotations

from dataclasses import dataclass

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId


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
    superseded_by: FactId | None
    busy: bool
    """A cell that says it is being extracted, or was given up: what it says is not settled."""


@dataclass(frozen=True, slots=True)
class Successor:
    """What a fact says from now on, under the id it will have once it is placed."""

    id: FactId
    statement: Statement
