"""The phases of a run: what each takes, what is too old in it, and how its progress says how much is to remain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.domain.times import from_micros, micros
from memforest_core.lifecycle.erase.clearing import ForestEraser
from memforest_core.lifecycle.retain.records import Leaf, Order, When
from memforest_core.lifecycle.retain.rows import RetentionRows
from memforest_core.work.records import Numbers


class Phase(StrEnum):
    """Where a run stands."""

    LOOKING = "looking"
    DIGESTS = "digests"
    WINDOWS = "windows"
    WINDOW_ITEMS = "window_items"
    AGED = "aged"
    AGED_FACTS = "aged_facts"
    PLANNING = "planning"
    WORDS = "words"
    FACTS = "facts"
    LEAVING = "leaving"
    DONE = "done"
    PLANNED = "planned"


def _erase_cells(eraser: ForestEraser, tenant: TenantId, forest: ForestId, cells: Sequence[UUID]) -> int:
    return eraser.erase_cells(tenant, forest, [CellId(cell) for cell in cells]).cells


def _erase_facts(eraser: ForestEraser, tenant: TenantId, forest: ForestId, facts: Sequence[UUID]) -> int:
    return eraser.erase_facts(tenant, forest, [FactId(fact) for fact in facts]).facts


@dataclass(frozen=True, slots=True)
class LeafKind:
    """A kind of leaf: the name it is counted under, how many are left, which go first, and how they are erased."""

    name: str
    left: Callable[[RetentionRows, ForestId, When], int]
    first: Callable[[RetentionRows, ForestId, When, int], Sequence[Leaf]]
    erase: Callable[[ForestEraser, TenantId, ForestId, Sequence[UUID]], int]


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of rows that can be made again: how many are left, and how they are deleted, under the forest's lock."""

    name: str
    left: Callable[[RetentionRows, ForestId, When], int]
    drop: Callable[[RetentionRows, ForestId, When, int], int]


ROWS: Mapping[Phase, RowKind] = {
    Phase.DIGESTS: RowKind("digests", RetentionRows.digests_left, RetentionRows.drop_digests),
    Phase.WINDOWS: RowKind("windows", RetentionRows.windows_left, RetentionRows.drop_windows),
    Phase.WINDOW_ITEMS: RowKind("window_items", RetentionRows.items_left, RetentionRows.drop_items),
}
LEAVES: Mapping[Phase, LeafKind] = {
    Phase.AGED: LeafKind("aged", RetentionRows.aged_left, RetentionRows.aged_cells, _erase_cells),
    Phase.AGED_FACTS: LeafKind("aged_facts", RetentionRows.aged_facts_left, RetentionRows.aged_facts, _erase_facts),
    Phase.WORDS: LeafKind("words", RetentionRows.bare_cells_left, RetentionRows.least_cells, _erase_cells),
    Phase.FACTS: LeafKind("forgotten", RetentionRows.facts_left, RetentionRows.least_facts, _erase_facts),
}
AFTER: Mapping[Phase, Phase] = {Phase.WORDS: Phase.FACTS, Phase.FACTS: Phase.LEAVING}
"""What follows a phase that is no age."""

_AGES: Mapping[Phase, str] = {
    Phase.DIGESTS: "digests",
    Phase.WINDOWS: "windows",
    Phase.WINDOW_ITEMS: "windows",
    Phase.AGED: "cutoff",
    Phase.AGED_FACTS: "facts",
}
"""What goes by its age, in this order, with the field of ``When`` that says what is too old. Digests and windows first:
erasing takes those of its words uncounted."""

_GOALS = ("leave_", "upto_", "cutoff")


def entered(rows: RetentionRows, progress: Numbers, when: When, done: Phase | None = None) -> Numbers:
    """The progress of a forest that goes on, after the age that is ``done``, with the next kind of which something is
    too old, or with its budget."""
    ages = list(_AGES)
    spent = {name: value for name, value in progress.items() if not name.startswith(_GOALS)}
    for phase in ages if done is None else ages[ages.index(done) + 1 :]:
        cutoff: datetime | None = getattr(when, _AGES[phase])
        if cutoff is None:
            continue
        of, only = forest_of(progress), _only(when.at, phase, cutoff)
        kind: LeafKind | RowKind = ROWS[phase] if phase in ROWS else LEAVES[phase]
        there = kind.left(rows, of, only)
        if there:
            # Now, because a kill loses what a batch was.
            first = kind.first(rows, of, only, 1) if isinstance(kind, LeafKind) else ()
            begun = oldest(spent, first) | {"phase": phase.value, "cutoff": micros(cutoff)}
            return begun | goal(progress, kind.name, there, there)
    return spent | {"phase": Phase.PLANNING.value}


def oldest(progress: Numbers, aged: Sequence[Leaf]) -> dict[str, str | int]:
    """Add when the oldest leaf was said that is too old."""
    if not aged:
        return dict(progress)
    first = micros(aged[0].said_at)
    return dict(progress) | {"oldest_at": min(first, int(progress.get("oldest_at", first)))}


def left_behind(progress: Numbers, done: Phase) -> Numbers:
    """The phase after one that is no age, without what only that one needed."""
    name = LEAVES[done].name
    spent = {f"leave_{name}", f"upto_{name}"}
    kept = {each: value for each, value in progress.items() if each not in spent}
    return kept | {"phase": AFTER[done].value}


def goal(progress: Numbers, name: str, there: int, going: int) -> dict[str, str | int]:
    """How many of a kind are to remain in a forest, and what will have been counted by then."""
    return {f"leave_{name}": there - going, f"upto_{name}": int(progress.get(name, 0)) + going}


def when_of(progress: Numbers) -> When:
    """What the phase of a run holds to: one kind's age, or an order."""
    phase, at = Phase(str(progress["phase"])), at_of(progress)
    if phase in _AGES:
        return _only(at, phase, from_micros(int(progress["cutoff"])))
    return When(at, None, order=Order(str(progress.get("order", Order.AGE.value))))


def _only(at: datetime, phase: Phase, cutoff: datetime) -> When:
    """As if nothing but one kind were limited by age."""
    match _AGES[phase]:
        case "digests":
            return When(at, None, digests=cutoff)
        case "windows":
            return When(at, None, windows=cutoff)
        case "facts":
            return When(at, None, facts=cutoff)
        case _:
            return When(at, cutoff)


def at_of(progress: Numbers) -> datetime:
    """When the run began."""
    return from_micros(int(progress["at"]))


def forest_of(progress: Numbers) -> ForestId:
    """The forest that a run is at."""
    return ForestId(UUID(str(progress["forest"])))
