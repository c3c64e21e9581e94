"""Applying policies, step by step: what is too old goes, then what is least worth keeping, forest by forest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.domain.operations import Role
from memforest_core.domain.times import from_micros, micros
from memforest_core.erase.clearing import ForestEraser
from memforest_core.retain.choice import Plan, plan_of
from memforest_core.retain.records import HeldForest, Leaf, When
from memforest_core.retain.rows import RetentionRows, retaining
from memforest_core.store.engine import Engine
from memforest_core.work.records import AuditEntry, Numbers, OperationTask

SERVICE = "memforest"
"""The actor of what policies do by themselves."""
FORGETS = "forgets"
"""The outcome under which the audit keeps what is about to go."""
BATCH = 200
"""Leaves erased in one step."""
PART = 20
"""Leaves erased in one transaction: the forest is held for some tens of milliseconds."""
PAGE = 50
"""Forests that are looked at in one step."""
STRAY_VISITS = 10_000

COUNTS = ("forests", "aged", "over_facts", "over_bytes", "words", "forgotten", "kept_pinned")
"""What a receipt says: forests that were over, cells that were too old, facts and bytes over the budget, cells taken
for their bytes, facts forgotten, and pinned facts, which no policy takes."""


class Phase(StrEnum):
    """Where a run stands."""

    LOOKING = "looking"
    AGED = "aged"
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
class _LeafKind:
    """A kind of leaf: the name it is counted under, how many are left, which go first, and how they are erased."""

    name: str
    left: Callable[[RetentionRows, ForestId, When], int]
    first: Callable[[RetentionRows, ForestId, When, int], Sequence[Leaf]]
    erase: Callable[[ForestEraser, TenantId, ForestId, Sequence[UUID]], int]


_AGED = _LeafKind("aged", RetentionRows.aged_left, RetentionRows.aged_cells, _erase_cells)
_WORDS = _LeafKind("words", RetentionRows.bare_cells_left, RetentionRows.least_cells, _erase_cells)
_FACTS = _LeafKind("forgotten", RetentionRows.facts_left, RetentionRows.least_facts, _erase_facts)


@dataclass(frozen=True, slots=True)
class Applying:
    """The steps of a run. Each erases one batch, chosen anew from what is there: repeating one takes no more.

    How many leaves are to remain is fixed once per forest, among those that were there when the run began; what a kill
    left uncounted is counted by how many are left.
    """

    engine: Engine
    eraser: ForestEraser

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One step of a RETAIN task: of its forest, or of all that are under a policy."""
        if "phase" not in progress:
            with retaining(self.engine, tenant) as rows:
                return {"phase": Phase.LOOKING.value, "at": micros(rows.now()), **dict.fromkeys(COUNTS, 0)}
        match Phase(str(progress["phase"])):
            case Phase.LOOKING:
                return self._look(tenant, task, progress)
            case Phase.AGED:
                return self._take(tenant, task, progress, _AGED, Phase.PLANNING)
            case Phase.PLANNING:
                return self._plan(tenant, progress)
            case Phase.WORDS:
                return self._take(tenant, task, progress, _WORDS, Phase.FACTS)
            case Phase.FACTS:
                return self._take(tenant, task, progress, _FACTS, Phase.LEAVING)
            case Phase.LEAVING:
                return self._leave(tenant, task, progress)
            case Phase.DONE | Phase.PLANNED:
                return None

    def _look(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers:
        """Find the next forest that is over its budget; those that are not cost one count."""
        at, after = _at(progress), _id(progress, "after")
        with retaining(self.engine, tenant) as rows:
            if task.forest_id is not None:
                one = rows.held(task.forest_id, at) if after is None else None
                page: Sequence[HeldForest] = [one] if one is not None else []
            else:
                page = rows.forests_after(ForestId(after) if after is not None else None, PAGE, at)
            for forest in page:
                if not forest.over or forest.limits is None:
                    continue
                if not task.dry_run and not rows.tasks.join(task.id, forest.id, Role.RETAIN):
                    # Another operation works on this forest: the next run takes it.
                    continue
                counted = _plus(progress, forests=1)
                when = When(at, forest.limits.cutoff(at))
                if not task.dry_run:
                    return _begun(rows, forest.id, when, counted)
                plan = plan_of(rows, forest.id, forest.limits, when)
                return _planned(counted, plan) | {"after": str(forest.id)}
        if task.forest_id is None and len(page) == PAGE:
            return dict(progress) | {"after": str(page[-1].id)}
        return _ended(progress, Phase.PLANNED if task.dry_run else Phase.DONE)

    def _plan(self, tenant: TenantId, progress: Numbers) -> Numbers:
        """Fix how many leaves are to remain, now that what was too old is gone."""
        forest, at = _forest(progress), _at(progress)
        with retaining(self.engine, tenant) as rows:
            held = rows.held(forest, at)
            if held is None or held.limits is None:
                # The policy was taken away since, or the forest.
                return dict(progress) | {"phase": Phase.LEAVING.value}
            plan = plan_of(rows, forest, held.limits, When(at, None))
        excess, totals = plan.excess, plan.totals
        counted = _plus(progress, over_facts=excess.facts, over_bytes=excess.bytes, kept_pinned=totals.pinned)
        counted |= _goal(counted, _WORDS, totals.bare_cells, len(plan.cells))
        counted |= _goal(counted, _FACTS, totals.facts, len(plan.facts))
        return _least(counted, plan) | {"phase": Phase.WORDS.value}

    def _take(self, tenant: TenantId, task: OperationTask, progress: Numbers, kind: _LeafKind, then: Phase) -> Numbers:
        """Erase one batch of a kind; down to what is to remain, go on to the next phase."""
        forest, when = _forest(progress), When(_at(progress), _cutoff(progress))
        upto = int(progress[f"upto_{kind.name}"])
        with retaining(self.engine, tenant) as rows:
            more = kind.left(rows, forest, when) - int(progress[f"leave_{kind.name}"])
            leaves = kind.first(rows, forest, when, min(more, BATCH)) if more > 0 else ()
            if leaves:
                # Noted before it is done: the audit must not miss what was erased just before a crash.
                detail = {kind.name: len(leaves)}
                who = task.actor or SERVICE
                rows.tasks.note(AuditEntry(who, task.kind, FORGETS, forest, task_id=task.id, detail=detail))
        erased = 0
        for start in range(0, len(leaves), PART):
            part = [leaf.id for leaf in leaves[start : start + PART]]
            erased += kind.erase(self.eraser, tenant, forest, part)
        told = dict(progress) | {kind.name: upto - max(0, more - erased)}
        if not erased:
            # All are gone, or they can't be erased and trying again would never end.
            return _to(told, then, kind)
        return _oldest(told, leaves) if kind is _AGED else told

    def _leave(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers:
        """Done with a forest: on to the next."""
        forest = _forest(progress)
        with retaining(self.engine, tenant) as rows:
            rows.drop_stray_visits(forest, STRAY_VISITS)
            if task.forest_id is None:
                rows.tasks.part(task.id, forest)
        kept = {name: value for name, value in progress.items() if name != "forest"}
        return kept | {"phase": Phase.LOOKING.value, "after": str(forest)}


def _begun(rows: RetentionRows, forest: ForestId, when: When, progress: Numbers) -> Numbers:
    """The progress of a forest that begins with what is too old in it."""
    begun = dict(progress) | {"phase": Phase.AGED.value, "forest": str(forest)}
    if when.cutoff is None:
        return begun | {"phase": Phase.PLANNING.value}
    aged = rows.aged_left(forest, when)
    return begun | {"cutoff": micros(when.cutoff)} | _goal(progress, _AGED, aged, aged)


def _goal(progress: Numbers, kind: _LeafKind, there: int, going: int) -> dict[str, str | int]:
    """How many leaves of a kind are to remain in a forest, and what will have been counted by then."""
    return {f"leave_{kind.name}": there - going, f"upto_{kind.name}": int(progress[kind.name]) + going}


def _to(progress: Numbers, phase: Phase, done: _LeafKind) -> Numbers:
    """The next phase, without what only the one before needed."""
    spent = {f"leave_{done.name}", f"upto_{done.name}", "cutoff"}
    return {name: value for name, value in progress.items() if name not in spent} | {"phase": phase.value}


def _planned(progress: Numbers, plan: Plan) -> dict[str, str | int]:
    counted = _plus(
        progress,
        aged=len(plan.aged),
        over_facts=plan.excess.facts,
        over_bytes=plan.excess.bytes,
        words=len(plan.cells),
        forgotten=len(plan.facts),
        kept_pinned=plan.totals.pinned,
    )
    return _least(_oldest(counted, plan.aged), plan)


def _oldest(progress: Numbers, aged: Sequence[Leaf]) -> dict[str, str | int]:
    """Add when the oldest leaf was said that is too old."""
    if not aged:
        return dict(progress)
    first = micros(aged[0].said_at)
    return dict(progress) | {"oldest_at": min(first, int(progress.get("oldest_at", first)))}


def _least(progress: Numbers, plan: Plan) -> dict[str, str | int]:
    """Add when the first leaf was said that is forgotten for the budget, of the first forest that is over it."""
    going = plan.facts or plan.cells
    return ({"least_at": micros(going[0].said_at)} if going else {}) | dict(progress)


def _plus(progress: Numbers, **counts: int) -> dict[str, str | int]:
    return dict(progress) | {name: int(progress.get(name, 0)) + count for name, count in counts.items()}


def _ended(progress: Numbers, phase: Phase) -> dict[str, str | int]:
    """The receipt: nothing but counts and moments."""
    kept = (*COUNTS, "oldest_at", "least_at")
    return {"phase": phase.value} | {name: progress[name] for name in kept if name in progress}


def _at(progress: Numbers) -> datetime:
    return from_micros(int(progress["at"]))


def _cutoff(progress: Numbers) -> datetime | None:
    return from_micros(int(progress["cutoff"])) if "cutoff" in progress else None


def _id(progress: Numbers, name: str) -> UUID | None:
    return UUID(str(progress[name])) if name in progress else None


def _forest(progress: Numbers) -> ForestId:
    return ForestId(UUID(str(progress["forest"])))
