"""What a timeline reads from the store; nothing here writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memforest_core.domain.holding import Mention, StoredState
from memforest_core.domain.ids import FactId, ForestId, SessionId, TenantId, TreeId
from memforest_core.store.owners import ForestRef

TurnKey = tuple[SessionId, int]
"""A turn by its session and its ordinal in it."""


@dataclass(frozen=True, slots=True)
class KnownChain:
    """That states of one subject and attribute are stored, and how many facts they rest on."""

    subject_key: str
    subject: str
    attribute: str
    facts: int


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """A turn that says a state, under the caller's ids, with the beginning of its text."""

    session_id: str
    turn_id: str
    speaker: str
    said_at: datetime
    text: str


class TimelineRows(Protocol):
    """Rows of one read transaction. Facts come latest first, at most ``limit``."""

    def forest(self, owner: str) -> ForestRef | None:
        """The owner's forest, if it exists."""
        ...

    def speakers(self, forest: ForestId) -> list[tuple[str, str]]:
        """The id and each display name of everybody who has spoken."""
        ...

    def of_subjects(
        self, forest: ForestId, subjects: Collection[str], attributes: Collection[str] | None, limit: int
    ) -> list[StoredState]:
        """The facts that set any of these attributes (None: any at all) of these subjects (normalized names)."""
        ...

    def of_attributes(self, forest: ForestId, attributes: Collection[str] | None, limit: int) -> list[StoredState]:
        """The facts that set any of these attributes (None: any at all) of anybody."""
        ...

    def of_trees(self, trees: Collection[TreeId], limit: int) -> list[StoredState]:
        """The facts in these trees, each once, with or without an attribute."""
        ...

    def scenes(self, forest: ForestId) -> list[tuple[TreeId, str]]:
        """The live scenes with their labels, largest first."""
        ...

    def chains(self, forest: ForestId) -> list[KnownChain]:
        """All chains of subject and attribute, longest first."""
        ...

    def mentions(self, facts: Sequence[FactId], until: datetime | None, limit: int) -> list[Mention]:
        """For each fact when it was said, at or before ``until``: ``limit`` times, the first and the last ones. What
        was corrected after ``until`` was not said yet."""
        ...

    def turns(self, keys: Collection[TurnKey], chars: int) -> Mapping[TurnKey, SourceTurn]:
        """Those of the turns that exist, with at most ``chars`` of their text."""
        ...


class TimelineStore(Protocol):
    """Opens read transactions."""

    def reading(self, tenant: TenantId) -> AbstractContextManager[TimelineRows]:
        """One read transaction of a tenant. Raises StoreUnavailable."""
        ...
