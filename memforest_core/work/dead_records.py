"""What looking after work that was given up needs from the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class DeadKind(StrEnum):
    """What kinds of work can be given up."""

    CELL = "cell"
    NODE = "node"
    TASK = "task"
    """A maintenance task."""


@dataclass(frozen=True, slots=True)
class DeadRef:
    """One unit of dead work."""

    kind: DeadKind
    id: UUID


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead work is meant; nothing set means all of the tenant's."""

    owner: str | None = None
    code: str | None = None
    kinds: tuple[DeadKind, ...] = tuple(DeadKind)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A unit of work that was given up, and why; never conversation text."""

    kind: DeadKind
    id: UUID
    step: str
    """extract, reduce or refresh; of a maintenance task its kind."""
    owner: str | None
    session: str | None
    """The caller's session id, for cells and for nodes of a session's tree."""
    code: str
    text: str
    attempts: int
    lost_leases: int
    since: datetime | None
    """When it was last ready to be worked on, as far as its row tells."""


@dataclass(frozen=True, slots=True)
class DeadDetail:
    """Everything about one: where it is (``about``: ids and numbers), and its texts if they were asked for.

    The texts of a cell are what was said in it, those of a node are its children's, as their summary would read them.
    """

    letter: DeadLetter
    about: Mapping[str, str | int]
    texts: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Acted:
    """What a decision changed, and how much work of each queue came of it."""

    changed: tuple[DeadRef, ...] = ()
    windows: int = 0
    """To extract."""
    forests: int = 0
    """With cells to reduce."""
    trees: int = 0
    """To refresh."""
    tasks: int = 0
    """Of maintenance."""
