"""What a deletion is about: its target, the rows that are removed with it or lose something, and its receipt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId, TreeId
from memforest_core.domain.pages import plain
from memforest_core.domain.times import from_micros, micros
from memforest_core.errors import InvariantViolated
from memforest_core.work.records import Numbers, OperationTask, TaskId

LEFT = "left."
"""The prefix of a count of references that were left, before the name of their column."""


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
    """A target with what names it, as a task row stores it: ids, digests and microseconds, never text."""

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


RemainingTurns = Sequence[tuple[int, str, str]]
"""The turns of a cell that stay when others are removed: ordinal, name and content, in order."""


@dataclass(frozen=True, slots=True)
class TouchedFact:
    """A fact that lost occurrences. ``stated``: a candidate that it still has states it exactly as it is stored."""

    id: FactId
    routing_hash: bytes
    stated: bool
    others: tuple[ItemKey, ...]
    pinned: bool
    superseded_by: FactId | None
    superseded_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Removed:
    """The ids that one batch removed, for the scan that searches for references to them."""

    turns: Sequence[TurnKey]
    cells: Sequence[CellId]
    items: Sequence[ItemKey]
    facts: Sequence[FactId]
    nodes: Sequence[NodeId]
    masked: Sequence[NodeId]
    """Nodes that stay, whose summaries had to go."""
    rewritten: Sequence[CellId]
    """Cells that stay, with fewer turns."""
    trees: Sequence[TreeId]
    hashes: Sequence[bytes]
    times: Sequence[datetime]
    """When the turns were said, and those that the candidates rested on."""


def _ordinals_in(text: str) -> tuple[int, ...]:
    """Earlier versions wrote runs of ordinals as spans: "0-2,7"."""
    spans = [span.partition("-") for span in text.split(",")]
    return tuple(ordinal for first, _, last in spans for ordinal in range(int(first), int(last or first) + 1))


_ARGUMENTS: Mapping[str, tuple[str, Callable[[Any], str | int], Callable[[Any], object]]] = {
    "target": ("target", str, Target),
    "ordinals": ("turns", lambda given: ",".join(map(str, given)), _ordinals_in),
    "speaker": ("speaker", str, str),
    "session": ("session", str, lambda text: SessionId(UUID(text))),
    "fact": ("fact", str, lambda text: FactId(UUID(text))),
    "since": ("since", micros, from_micros),
    "until": ("until", micros, from_micros),
}
"""A task's argument for each field of a scope, how it is written, and how it is read."""


def arguments_of(scope: Scope) -> Numbers:
    given = {field: getattr(scope, field) for field in _ARGUMENTS}
    return {_ARGUMENTS[field][0]: _ARGUMENTS[field][1](value) for field, value in given.items() if value}


def scope_of(task: OperationTask) -> Scope:
    """The target of a task. Raises InvariantViolated for a row that no version of this wrote."""
    if task.forest_id is None or "target" not in task.arguments:
        raise InvariantViolated(f"The erase task {task.id} does not say what to erase.")
    return scope_in(ForestId(task.forest_id), task.arguments)


def scope_in(forest: ForestId, given: Numbers) -> Scope:
    """The target in a forest that a task's arguments name."""
    read: dict[str, Any] = {field: of(given[name]) for field, (name, _, of) in _ARGUMENTS.items() if name in given}
    return Scope(forest=forest, **read)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a deletion removed, and what a search for it found.

    ``removed`` counts by what it was: turns, cells, facts, leaves, summaries, points and so on; ``left`` counts
    references that were found afterwards, by table.column, and points of the index: all 0 when it is ``clean``.
    """

    task: TaskId
    target: str
    actor: str
    removed: Mapping[str, int]
    left: Mapping[str, int]
    asked_at: datetime
    finished_at: datetime | None
    planned: bool = False
    """It was a dry run: nothing was removed."""
    vacuumed: bool = False
    """Whether Postgres has since removed the deleted rows from its files (VACUUM); no query reads them before."""

    @property
    def clean(self) -> bool:
        """Whether it is done and nothing was left."""
        return self.finished_at is not None and not any(self.left.values())

    def to_dict(self) -> dict[str, Any]:
        """The receipt as JSON values, by the names of the fields, and whether it is ``clean``."""
        return {**plain(self), "clean": self.clean}


_NOT_COUNTS = ("phase", "steps", "at", "after", "mark")


def receipt_of(task: OperationTask) -> Receipt:
    """The receipt that a task's last progress is."""
    counts = {name: int(count) for name, count in task.progress.items() if name not in _NOT_COUNTS}
    return Receipt(
        task=task.id,
        target=str(task.arguments.get("target", "")),
        actor=task.actor,
        removed={name: count for name, count in counts.items() if not name.startswith(LEFT)},
        left={name.removeprefix(LEFT): count for name, count in counts.items() if name.startswith(LEFT)},
        asked_at=task.created_at,
        finished_at=task.finished_at if task.fulfilled else None,
        planned=task.dry_run,
    )
