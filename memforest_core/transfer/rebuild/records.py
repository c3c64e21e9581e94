"""What building a forest anew beside the live one needs from the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from memforest_core.domain.ids import CellId, ForestId, SessionId, TenantId, TreeId
from memforest_core.domain.scopes import TreeKind
from memforest_core.extract.records import ClaimedWindow
from memforest_core.models.calls import Step
from memforest_core.reduce.records import Rules
from memforest_core.store.removal import RemovalRows


@dataclass(frozen=True, slots=True)
class SourceForest:
    """The forest that is built anew, as stored."""

    id: ForestId
    owner: str
    state: str
    rules: Rules


@dataclass(frozen=True, slots=True)
class Pair:
    """A live forest and the hidden one that will take its place."""

    source: ForestId
    copy: ForestId
    extract: bool
    """Cells of the copy are extracted anew; else their candidates are copied."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied: sessions, cells and candidates that the copy did not have."""

    sessions: int = 0
    cells: int = 0
    candidates: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """A session that is not the same in both forests; None where there is none."""

    source: SessionId | None
    copy: SessionId | None


@dataclass(frozen=True, slots=True)
class Remaining:
    """What the copy still has to do, and its cells that can't be done."""

    extracting: int
    placing: int
    trees: int
    points: int
    dead: int

    @property
    def placed(self) -> bool:
        """Whether every cell is in the trees."""
        return self.extracting + self.placing == 0

    @property
    def done(self) -> bool:
        """Whether the copy is placed, refreshed and indexed."""
        return self.placed and self.trees + self.points == 0


@dataclass(frozen=True, slots=True)
class PlannedTree:
    """An active tree as it is now: its leaves' texts in key order."""

    id: TreeId
    kind: TreeKind
    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of one step and model have cost a tenant so far."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a forest holds."""

    sessions: int
    turns: int
    cells: int
    candidates: int
    facts: int
    candidate_chars: int
    """Of their statements and quotes as JSON, which is about what a model writes to say them."""
    text_chars: int
    """Of their sentences alone."""
    unembedded: int
    """Texts of cells, facts and candidates that have no vector of the model."""
    unembedded_chars: int


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a few sessions, and the last session among them."""

    windows: tuple[ClaimedWindow, ...]
    last: SessionId | None


class CopyRows(RemovalRows, Protocol):
    """Rows of one transaction of a tenant that builds a forest anew."""

    def find(self, owner: str) -> SourceForest | None:
        """The owner's forest."""
        ...

    def forest(self, forest: ForestId) -> SourceForest | None:
        """A forest in whatever state."""
        ...

    def hidden(self, owner: str) -> Sequence[ForestId]:
        """Forests of the owner that are built beside the live one, or were."""
        ...

    def begin(self, pair: Pair, rules: Rules, *, forget_summaries: bool) -> bool:
        """Make the hidden forest, unless it is there; ``forget_summaries``: none of the source's is used again.

        False while a deletion is at the source.
        """
        ...

    def kept(self, copy: ForestId) -> bool:
        """Whether the copy is hidden still, and stays so until this transaction ends: no deletion has taken it."""
        ...

    def sessions_after(self, source: ForestId, after: SessionId | None, turns: int) -> Sequence[SessionId]:
        """The next sessions in the order of ids, of about so many turns together; at least one while there is one."""
        ...

    def differing(self, pair: Pair, limit: int, session: SessionId | None = None) -> Sequence[Difference]:
        """Sessions (or that one of the source) whose turns, cells, or candidates are not the same in both."""
        ...

    def copy_session(self, pair: Pair, session: SessionId) -> Copied:
        """Copy what the copy of a session lacks; cells that wait for extraction get a place that nobody works on."""
        ...

    def lock(self, forest: ForestId) -> None:
        """Become the forest's only writer, waiting for whoever is."""
        ...

    def set_aside(self, session: SessionId) -> Sequence[CellId]:
        """Mark all that a session said as superseded; its cells."""
        ...

    def drop_session(self, forest: ForestId, session: SessionId) -> None:
        """Delete a session of which no fact is left: its tree, cells and turns; their points get tombstones."""
        ...

    def remaining(self, copy: ForestId) -> Remaining:
        """What the copy still has to do."""
        ...

    def make_due(self, copy: ForestId) -> None:
        """The copy is placed: its trees may be refreshed now."""
        ...

    def carry_candidates(self, pair: Pair) -> int:
        """Give the copy what people have said explicitly and a new extraction left out; how many are to be placed."""
        ...

    def carry_states(self, pair: Pair) -> int:
        """Give facts of the copy their pins and successors; how many facts changed."""
        ...

    def busy(self, source: ForestId) -> bool:
        """Whether a deletion or a correction of the forest is not done, or a cell is being extracted."""
        ...

    def switch(self, pair: Pair) -> bool:
        """Make the copy the owner's forest and the source gone; False when they are not the same, and nothing is done.

        Holds both forests, and waits for sessions that are being accepted.
        """
        ...

    def attribute(self, pair: Pair) -> None:
        """What was paid for the source's words is the copy's now: cached answers, and calls in the accounts."""
        ...

    def set_gone(self, forest: ForestId) -> None:
        """The forest is nobody's."""
        ...


class PlanRows(Protocol):
    """Rows that say what it would cost."""

    def counts(self, source: ForestId, model: str) -> Counts:
        """How much the forest holds; ``model`` is the embedding model."""
        ...

    def windows_after(self, source: ForestId, after: SessionId | None, turns: int) -> Windows:
        """Windows that would be extracted anew, session by session."""
        ...

    def cached_answers(self, hashes: Sequence[bytes]) -> frozenset[bytes]:
        """Which extractions were paid for before."""
        ...

    def trees_after(self, source: ForestId, after: TreeId | None, limit: int) -> Sequence[PlannedTree]:
        """The next active trees in the order of ids."""
        ...

    def paid_summaries(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        """Summaries that were paid for before."""
        ...

    def spent(self, step: Step, model: str) -> Spent:
        """What the tenant's successful calls of a step and model have cost."""
        ...


class CopyStore(Protocol):
    """Opens transactions."""

    def copying(self, tenant: TenantId) -> AbstractContextManager[CopyRows]:
        """One transaction of a tenant that builds a forest anew."""
        ...

    def planning(self, tenant: TenantId) -> AbstractContextManager[PlanRows]:
        """One transaction of a tenant that only reads."""
        ...


class Prices(Protocol):
    """What a model's tokens cost when nobody has paid for them yet."""

    def cost_usd(self, step: Step, model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Dollars, or None when nobody knows."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be other than it is. Rules that are not named stay as the forest has them."""

    rules: Rules = field(default_factory=dict)
    extract: bool = False
    """Read every cell again, with today's prompt and model; answers that were paid for before are used."""
    summaries: bool = False
    """Write every summary again, with today's prompt and model; otherwise equal inputs have their summary already."""
