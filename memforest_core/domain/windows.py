"""Windows: what one extraction call reads, as plain data that renders to the same bytes each time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from memforest_core.domain.pasted import Pasted
from memforest_core.domain.people import People
from memforest_core.domain.turns import Role


@dataclass(frozen=True, slots=True)
class WindowTurn:
    """A turn, or the part of a long turn that a cell has, as an extraction call sees it."""

    number: int
    """1-based number in the prompt; context turns count down from 0 (0, -1) and are never extracted."""
    cell: int
    """1-based number of its cell in the window; 0 for context turns."""
    ordinal: int
    """The turn's ordinal in its session."""
    role: Role
    speaker: str
    """Display name of the speaker."""
    text: str
    occurred_at: datetime
    """Aware, by the sender's clock."""
    pasted: tuple[Pasted, ...] = ()
    """The parts of ``text`` that say nothing of the speaker."""


@dataclass(frozen=True, slots=True)
class Window:
    """The consecutive cells of one extraction call, with up to two preceding turns as context."""

    owner: str
    """Display name of the owner of the memory."""
    time_zone: str
    """The owner's: an IANA name, for when days begin."""
    context: tuple[WindowTurn, ...]
    turns: tuple[WindowTurn, ...]
    cells: int
    people: People | None = None
    """Everybody who speaks in the memory, if that is known: whom mentions and nicknames mean."""
