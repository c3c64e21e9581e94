"""What looking after work that was given up needs from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from memforest_core.domain.ids import TenantId


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


class DeadRows(Protocol):
    """Dead work of one transaction of a tenant. Whatever somebody else has revived meanwhile is left alone."""

    def known_owner(self, owner: str) -> bool:
        """Whether the tenant has a forest of this owner."""
        ...

    def letters(self, which: DeadFilter, limit: int) -> Sequence[DeadLetter]:
        """Dead work by kind, owner and session, ``limit`` at most."""
        ...

    def find(self, which: DeadFilter) -> Sequence[DeadRef]:
        """All dead work that is meant."""
        ...

    def starting(self, prefixes: Sequence[str]) -> Sequence[DeadRef]:
        """Dead work whose id begins with one of these hex digits (without dashes)."""
        ...

    def detail(self, ref: DeadRef, *, text: bool) -> DeadDetail | None:
        """Everything about one; None when it is not dead anymore."""
        ...

    def retry(self, refs: Sequence[DeadRef]) -> Acted:
        """Make it ready again, as if it had never been tried; its last error stays until it succeeds.

        A cell that the reducer gave up is ready for the reducer again. A maintenance task whose like is under way
        already stays as it is.
        """
        ...

    def discard(self, refs: Sequence[DeadRef]) -> Acted:
        """Go on without it.

        A cell gives up the facts that are not in the trees yet, and its turns go into its session's tree. A node
        keeps the summary it has until something below changes. A maintenance task is over.
        """
        ...


class DeadStore(Protocol):
    """Opens transactions on dead work."""

    def looking_after(self, tenant: TenantId) -> AbstractContextManager[DeadRows]:
        """One transaction of a tenant."""
        ...
