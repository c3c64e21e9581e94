"""What visits and retention need from the store, and from whoever erases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.erase.records import Erased
from memforest_core.work.records import AuditEntry, TaskId

DEFAULT_FRACTION = 0.1
"""The share of a forest's facts that one run may forget at most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a forest may hold; None leaves something unlimited.

    ``max_age_days`` is counted from when something was said. ``max_bytes`` is the UTF-8 length of all turns and facts
    together. ``fraction`` of its facts, and of its cells, is what one run may forget at most to get below the others.
    """

    max_age_days: float | None = None
    max_facts: int | None = None
    max_bytes: int | None = None
    fraction: float = DEFAULT_FRACTION

    def cutoff(self, now: datetime) -> datetime | None:
        """What was said before this moment is too old."""
        return None if self.max_age_days is None else now - timedelta(days=self.max_age_days)


@dataclass(frozen=True, slots=True)
class Policy(Limits):
    """The limits of one forest, or (``owner`` None) of all forests of the tenant that have none of their own."""

    owner: str | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HeldForest:
    """What a live forest holds of what its policy limits (None: not looked at), and whether anything is too old."""

    id: ForestId
    limits: Limits | None
    facts: int | None
    bytes: int | None
    aged: bool

    @property
    def over(self) -> bool:
        """Whether something has to go."""
        if self.limits is None:
            return False
        too_many = self.limits.max_facts is not None and (self.facts or 0) > self.limits.max_facts
        too_much = self.limits.max_bytes is not None and (self.bytes or 0) > self.limits.max_bytes
        return self.aged or too_many or too_much


@dataclass(frozen=True, slots=True)
class When:
    """The moment of a run, on the database's clock, and (or None) before which what was said is too old.

    Nothing that came after ``at`` is forgotten by that run.
    """

    at: datetime
    cutoff: datetime | None


@dataclass(frozen=True, slots=True)
class Totals:
    """What a forest holds besides what is too old: facts, pinned ones among them, cells with words, cells without a
    fact among them, and bytes of turns and facts (0 unless asked for)."""

    facts: int
    pinned: int
    cells: int
    bare_cells: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """A fact or cell that may be forgotten: its UTF-8 length, and when it was said last."""

    id: UUID
    size: int
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Preview:
    """What applying its policy to a forest would take now, in the order in which it would go."""

    aged: tuple[CellId, ...]
    """Cells that are too old."""
    words: tuple[CellId, ...]
    """Cells of which no fact tells, taken for their bytes."""
    facts: tuple[FactId, ...]
    over_facts: int
    over_bytes: int
    """How far the forest is over its budget once what is too old is gone."""
    kept_pinned: int


class RetentionRows(Protocol):
    """Policies, and what they are about, in one transaction of a tenant."""

    def now(self) -> datetime:
        """The database's clock."""
        ...

    def join(self, task: TaskId, forest: ForestId) -> bool:
        """Take a forest for a run over many; False while an operation is at it that a policy does not run beside."""
        ...

    def part(self, task: TaskId, forest: ForestId) -> None:
        """Let a forest go."""
        ...

    def note(self, entry: AuditEntry) -> None:
        """Add a row to the audit."""
        ...

    def put_policy(self, forest: ForestId | None, limits: Limits) -> None:
        """Set the limits of a forest, or (None) of the tenant's others."""
        ...

    def drop_policy(self, forest: ForestId | None) -> bool:
        """Take a policy away; whether there was one."""
        ...

    def limits_of(self, forest: ForestId | None) -> Limits | None:
        """A forest's own limits, or (None) those of the others."""
        ...

    def policies(self) -> Sequence[Policy]:
        """All policies, the tenant's first, then by owner."""
        ...

    def forests_after(self, after: ForestId | None, limit: int, at: datetime) -> Sequence[HeldForest]:
        """The next live forests in order of ids, measured against the policy that holds for each."""
        ...

    def held(self, forest: ForestId, at: datetime) -> HeldForest | None:
        """One forest; None unless it is live."""
        ...

    def aged_cells(self, forest: ForestId, when: When, limit: int | None = None) -> Sequence[Leaf]:
        """Cells whose turns are all too old, the oldest first; those in work, or with a pinned fact, are left out."""
        ...

    def aged_left(self, forest: ForestId, when: When) -> int:
        """How many cells are too old."""
        ...

    def totals(self, forest: ForestId, when: When, *, bytes_too: bool) -> Totals:
        """What the forest holds, as if what is too old were gone already."""
        ...

    def facts_left(self, forest: ForestId, when: When) -> int:
        """Facts of the forest that were there at that moment, too old or not."""
        ...

    def bare_cells_left(self, forest: ForestId, when: When) -> int:
        """Cells of the forest that were there at that moment, too old or not, and on which no fact rests."""
        ...

    def least_cells(self, forest: ForestId, when: When, limit: int) -> Sequence[Leaf]:
        """Cells on which no fact rests, those least worth keeping first, ties by id."""
        ...

    def least_facts(self, forest: ForestId, when: When, limit: int) -> Sequence[Leaf]:
        """Unpinned facts, superseded ones first, then those least worth keeping, ties by key."""
        ...

    def drop_stray_visits(self, forest: ForestId, limit: int) -> int:
        """Drop visits of what is no more; how many."""
        ...

    def ask_sweep(self, subject: str, every_s: float) -> bool:
        """Ask for a run over all forests if there is a policy and none was asked for this long; whether it was."""
        ...


class RetentionStore(Protocol):
    """Opens transactions on policies."""

    def retaining(self, tenant: TenantId) -> AbstractContextManager[RetentionRows]:
        """One transaction of a tenant."""
        ...

    def tenants(self) -> Sequence[TenantId]:
        """All tenants, in order."""
        ...


class LeafEraser(Protocol):
    """Takes facts and words out of a forest, with everything that is derived from them. What is gone already is no
    error and not counted. Raises RetryableError when the forest is being written for too long."""

    def erase_facts(self, tenant: TenantId, forest: ForestId, facts: Sequence[FactId]) -> Erased:
        """Take these facts out; the turns that told them stay."""
        ...

    def erase_cells(self, tenant: TenantId, forest: ForestId, cells: Sequence[CellId]) -> Erased:
        """Take the words of these cells out, and the facts that rest on nothing else."""
        ...
