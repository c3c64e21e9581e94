"""What erasing needs from the store: what is doomed, what goes with it, what has to be made anew; under one lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId, TenantId, TreeId
from memforest_core.reduce.records import ReduceRows
from memforest_core.store.owners import ForestRef
from memforest_core.work.records import MaintenanceRows, MaintenanceTask, Numbers, TaskId


class Target(StrEnum):
    """What is to be deleted."""

    TURNS = "turns"
    FACT = "fact"
    SESSION = "session"
    RANGE = "range"
    SPEAKER = "speaker"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Scope:
    """A target with what names it, as a task row keeps it: ids, digests and microseconds, never text."""

    target: Target
    forest: ForestId
    session: SessionId | None = None
    ordinals: tuple[int, ...] = ()
    fact: FactId | None = None
    speaker: str = ""
    """Digest of the speaker's id."""
    since: datetime | None = None
    until: datetime | None = None


class TurnKey(NamedTuple):
    """A turn of a forest."""

    session_id: SessionId
    ordinal: int


class ItemKey(NamedTuple):
    """A candidate."""

    cell_id: CellId
    item: int


@dataclass(frozen=True, slots=True)
class HeldCell:
    """A cell that held doomed turns; ``kept`` are its other turns: ordinal, name and content, in order."""

    id: CellId
    session_id: SessionId
    ordinal: int
    kept: tuple[tuple[int, str, str], ...]

    @property
    def gone(self) -> bool:
        """Whether no words are left in it."""
        return not self.kept


@dataclass(frozen=True, slots=True)
class TouchedFact:
    """A fact that lost occurrences. ``told`` says that a candidate it still has states it exactly as it is stored."""

    id: FactId
    routing_hash: bytes
    told: bool
    others: tuple[ItemKey, ...]
    pinned: bool
    superseded_by: FactId | None
    superseded_at: datetime | None


@dataclass(frozen=True, slots=True)
class Path:
    """What lies above touched leaves: nodes up to the roots, and their trees."""

    nodes: tuple[NodeId, ...]
    trees: tuple[TreeId, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    """The ids that one batch removed, for the scan that looks for references to them."""

    turns: tuple[TurnKey, ...]
    cells: tuple[CellId, ...]
    items: tuple[ItemKey, ...]
    facts: tuple[FactId, ...]
    nodes: tuple[NodeId, ...]
    masked: tuple[NodeId, ...]
    """Nodes that stay, whose summaries had to go."""
    trees: tuple[TreeId, ...]
    hashes: tuple[bytes, ...]


class ErasureRows(ReduceRows, Protocol):
    """Rows of one erasing transaction."""

    def hold_forest(self, forest: ForestId) -> str | None:
        """Become the forest's only writer, waiting for whoever is; its state, None when it is not there.

        Raises StoreUnavailable when that takes too long.
        """
        ...

    def ahead(self, task: TaskId, progress: Numbers) -> Numbers:
        """The progress that a step of this task has committed with its rows, if it is further than ``progress``."""
        ...

    def keep(self, task: TaskId, progress: Numbers) -> None:
        """Commit progress together with what this transaction removes."""
        ...

    def doomed_turns(self, scope: Scope, after: SessionId | None, cells: int) -> list[TurnKey]:
        """The next turns of a target that still have words, in order, about ``cells`` cells of them; from the session
        ``after`` on."""
        ...

    def tail_turns(self, session: SessionId, cells: int) -> list[TurnKey] | None:
        """The last turns of a session, those of its last ``cells`` cells; None when the session is not there."""
        ...

    def turns_of(self, cells: Sequence[CellId]) -> list[TurnKey]:
        """The turns of these cells that have words."""
        ...

    def hold_cells(self, turns: Sequence[TurnKey]) -> list[HeldCell]:
        """Hold the sessions of these turns against writers, then all cells that hold any of them."""
        ...

    def doomed_items(self, turns: Sequence[TurnKey], gone: Sequence[CellId]) -> list[ItemKey]:
        """Candidates that rest on any of these turns, and all of cells that are gone."""
        ...

    def items_of(self, facts: Sequence[FactId]) -> list[ItemKey]:
        """The candidates that these facts rest on."""
        ...

    def hashes_of(self, cells: Sequence[CellId], items: Sequence[ItemKey], facts: Sequence[FactId]) -> frozenset[bytes]:
        """Under which hashes the vectors of the texts of these rows are kept."""
        ...

    def path(self, payloads: Sequence[UUID]) -> Path:
        """All internal nodes above the leaves of these cells and facts."""
        ...

    def hold_path(self, nodes: Sequence[NodeId], payloads: Sequence[UUID]) -> int:
        """Hold nodes, then the index rows of nodes and payloads, in the one order; how many points there are.

        An indexer that is writing one of them now keeps its lease, and takes away what it wrote.
        """
        ...

    def owner_of(self, forest: ForestId) -> str:
        """Whose forest it is."""
        ...

    def sessions_of(self, cells: Sequence[CellId]) -> list[SessionId]:
        """The sessions of these cells."""
        ...

    def detach(self, items: Sequence[ItemKey]) -> tuple[int, list[TouchedFact]]:
        """Drop the occurrences of these candidates; how many, and the facts that lost them."""
        ...

    def free(self, facts: Sequence[FactId]) -> None:
        """Drop all occurrences of these facts: their candidates are to be attached anew."""
        ...

    def take_out(self, facts: Mapping[FactId, bytes], model: str) -> dict[TreeId, list[NodeId]]:
        """Drop facts without occurrences, their placements and points; the leaves they leave behind, by tree."""
        ...

    def attest(self, facts: Sequence[FactId]) -> None:
        """Facts that lost occurrences speak for a session that still has one."""
        ...

    def drop_items(self, items: Sequence[ItemKey]) -> int:
        """Drop candidates; how many. A reducer that has read them finds that their cells say something else now."""
        ...

    def quiet(self, cells: Sequence[CellId]) -> None:
        """Cells that were kept word by word are not extracted again by themselves."""
        ...

    def drop_cells(self, cells: Sequence[CellId]) -> dict[TreeId, list[NodeId]]:
        """Drop cells, their placements and points; the leaves they leave behind, by tree."""
        ...

    def rewrite_cells(self, forest: ForestId, cells: Sequence[HeldCell]) -> None:
        """Cells say less now, from the first turn they keep to the last: no summary, a new point; a tail that waits
        for a turn is closed."""
        ...

    def fence(self, turns: Sequence[TurnKey]) -> int:
        """End the leases of extractions that read any of these turns; how many cells they held."""
        ...

    def rehead(self, sessions: Sequence[SessionId]) -> None:
        """See that every window of these sessions has a first cell that it can be claimed by."""
        ...

    def blank_turns(self, forest: ForestId, turns: Sequence[TurnKey]) -> int:
        """Leave place-holders of turns, and drop speakers that no turn backs any more; how many turns had words."""
        ...

    def cut_tail(self, forest: ForestId, turns: Sequence[TurnKey]) -> int:
        """Drop the last turns of a session, count anew, and drop speakers as ``blank_turns``; how many turns."""
        ...

    def drop_session(self, session: SessionId) -> int:
        """Drop a session that has no turn left; whether it had none."""
        ...

    def carry_over(self, forest: ForestId, facts: Sequence[TouchedFact]) -> None:
        """Pins and supersessions of facts that were made anew go to the facts that their candidates have now."""
        ...

    def unpoint(self, forest: ForestId, facts: Sequence[FactId]) -> None:
        """Facts that were superseded by ones that are gone are not superseded any more."""
        ...

    def drop_scopes(self, trees: Sequence[TreeId]) -> int:
        """Drop scopes that hold nothing any more; how many."""
        ...

    def mask(self, nodes: Sequence[NodeId]) -> list[bytes]:
        """Take the summaries and points of these nodes; the hashes of the texts that went, one for each summary."""
        ...

    def mark(self, path: Path) -> list[NodeId]:
        """Make those of the nodes dirty that are still there, and their trees due; which nodes.

        No summary that was read before can be saved any more.
        """
        ...

    def forget_visits(self, ids: Sequence[UUID]) -> int:
        """Drop the visits of what is gone."""
        ...

    def drop_caches(self, forest: ForestId, sessions: Sequence[SessionId], trees: Sequence[TreeId]) -> int:
        """Drop answers and summaries that were paid for in these sessions and trees, and in merged scenes."""
        ...

    def drop_vectors(self, forest: ForestId, hashes: Sequence[bytes]) -> int:
        """Drop a forest's vectors of those texts that no cell, candidate or fact of it has any more."""
        ...

    def drop_orphans(self, forest: ForestId) -> int:
        """Drop every vector of a forest whose text it has no more; how many."""
        ...

    def left(self, forest: ForestId, removed: Removed) -> Mapping[str, int]:
        """References to what was removed, by table.column: all 0 unless something is wrong."""
        ...

    def left_of(self, scope: Scope, task: TaskId) -> Mapping[str, int]:
        """What of a target and of the copies of its forest is still there, by table.column, derived from what names
        them: all 0."""
        ...

    def point_mark(self) -> int:
        """A version that is newer than that of every point erased so far, and older than of any erased from now on."""
        ...

    def erased_points(self, forest: ForestId, mark: int, after: UUID | None, limit: int) -> dict[UUID, int]:
        """The next points of a forest, in the order of ids, that may hold what was erased before the mark and that no
        indexer is writing now, with the versions of their rows."""
        ...

    def still_erased(self, forest: ForestId, mark: int) -> bool:
        """Whether a point may hold what was erased before the mark."""
        ...

    def still_written(self, forest: ForestId, mark: int) -> bool:
        """Whether an indexer that began before such an erasure may still write what was erased."""
        ...

    def confirm(self, points: Mapping[UUID, int], mark: int) -> frozenset[UUID]:
        """The index has dropped these points: forget the rows of tombstones. Which of the others live, and are written
        again."""
        ...

    def clear(self, forest: ForestId, limit: int) -> Mapping[str, int] | None:
        """Drop the next rows of a forest that is going, children first; how many of what, None when only its points'
        rows and its own are left."""
        ...

    def points_of(self, forest: ForestId, limit: int) -> list[UUID]:
        """The next points that a forest has rows of and that no indexer is writing now."""
        ...

    def leased(self, forest: ForestId) -> bool:
        """Whether an indexer is writing points of a forest."""
        ...

    def drop_points(self, points: Sequence[UUID]) -> int:
        """Drop the rows of points."""
        ...

    def drop_forest(self, forest: ForestId) -> int:
        """Drop a forest's row. What was asked of it stays on record, as ids and counts."""
        ...

    def touched(self, task: TaskId) -> Sequence[ForestId]:
        """The forests of a deletion: those that were meant, and copies of them."""
        ...

    def going(self, task: TaskId, kept: ForestId | None = None) -> ForestId | None:
        """The next forest of a deletion to clear: copies first, all but the one that is ``kept``."""
        ...

    @property
    def tasks(self) -> MaintenanceRows:
        """Task rows of the same transaction."""
        ...

    def forests_of(self, owner: str) -> Sequence[ForestId]:
        """An owner's forest, and those that are hidden."""
        ...

    def cancel_imports(self, forests: Sequence[ForestId], actor: str) -> None:
        """Have the imports undone that fill these forests."""
        ...

    def drop_copies(self, task: TaskId, forest: ForestId) -> None:
        """Give up what is being built anew of a forest; that, and what older ones have left, is the deletion's."""
        ...

    def all_asked_for(self, forest: ForestId) -> bool:
        """Whether the deletion of the whole forest was asked for."""
        ...

    def counts_of(self, forest: ForestId) -> Mapping[str, int]:
        """How much a forest holds, under the names that clearing counts under."""
        ...


class ErasureStore(Protocol):
    """Opens erasing transactions, and resolves what callers name."""

    def erasing(self, tenant: TenantId) -> AbstractContextManager[ErasureRows]:
        """One transaction of a tenant."""
        ...

    def rehearsing(self, tenant: TenantId) -> AbstractContextManager[ErasureRows]:
        """One transaction of a tenant that leaves no trace."""
        ...

    def hide(self, tenant: TenantId, task: TaskId) -> None:
        """Make the forests of a deletion, and copies that are being built of them, nobody's; their work stops.

        Does nothing while a merge that was asked for before is at one of them.
        """
        ...

    def let_go(self, tenant: TenantId, forest: ForestId) -> None:
        """Make one forest nobody's."""
        ...

    def owner(self, tenant: TenantId, owner: str) -> ForestRef | None:
        """The owner's forest."""
        ...

    def session(self, tenant: TenantId, forest: ForestId, external_id: str) -> SessionId | None:
        """A session by the caller's id."""
        ...

    def ordinals(self, tenant: TenantId, session: SessionId, turn_ids: Sequence[str]) -> Mapping[str, int]:
        """The ordinals of turns by the caller's ids."""
        ...

    def speaks(self, tenant: TenantId, forest: ForestId, speaker_id: str) -> bool:
        """Whether a forest has words of a speaker."""
        ...

    def speaker_digest(self, forest: ForestId, speaker_id: str) -> str:
        """What a task row keeps of a speaker's id: it can be compared with, and not be read back."""
        ...

    def has_fact(self, tenant: TenantId, forest: ForestId, fact: FactId) -> bool:
        """Whether a fact is in a forest."""
        ...

    def task(self, tenant: TenantId, task: TaskId) -> MaintenanceTask | None:
        """One task."""
        ...


@dataclass(frozen=True, slots=True)
class Erased:
    """What went: cells whose words are gone, and facts."""

    cells: int
    facts: int
