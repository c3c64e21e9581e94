"""A fact to correct, where it was said, and what it says from then on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memforest_core.domain.documents import plain
from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, SessionId


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


@dataclass(frozen=True, slots=True)
class PinnedTurn:
    """A turn that no policy takes, by the caller's ids."""

    session_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class Pins:
    """What no policy takes from an owner's memory: sessions by the caller's ids, turns, and facts."""

    sessions: tuple[str, ...]
    turns: tuple[PinnedTurn, ...]
    facts: tuple[FactId, ...]

    def to_dict(self) -> dict[str, Any]:
        """The pins as JSON values, by the names of the fields."""
        made: dict[str, Any] = plain(self)
        return made


@dataclass(frozen=True, slots=True)
class Words:
    """A session, or (``ordinal``) one turn of it."""

    session: SessionId
    ordinal: int | None
