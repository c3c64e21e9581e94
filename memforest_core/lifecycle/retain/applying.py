"""Applying policies, step by step: what is too old goes, then what is least worth keeping, forest by forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.operations import Role
from memforest_core.domain.times import micros
from memforest_core.lifecycle.erase.clearing import ForestEraser
from memforest_core.lifecycle.retain.choice import Plan, plan_of
from memforest_core.lifecycle.retain.phases import (
    AFTER,
    LEAVES,
    ROWS,
    Phase,
    at_of,
    entered,
    forest_of,
    goal,
    left_behind,
    oldest,
    when_of,
)
from memforest_core.lifecycle.retain.records import HeldForest, When
from memforest_core.lifecycle.retain.rows import RetentionRows, retaining
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

COUNTS = (
    *("forests", "digests", "windows", "window_items", "aged", "aged_facts", "over_facts", "over_bytes", "words"),
    *("forgotten", "kept_pinned", "kept_sessions", "kept_turns"),
)
"""What a receipt says: forests that were over, what was too old (digests, compacted texts and items of windows, cells,
facts besides theirs), facts and bytes over the budget, cells taken for their bytes, facts forgotten, and pinned facts,
sessions and turns, which no policy takes."""


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
        phase = Phase(str(progress["phase"]))
        match phase:
            case Phase.LOOKING:
                return self._look(tenant, task, progress)
            case Phase.DIGESTS | Phase.WINDOWS | Phase.WINDOW_ITEMS:
                return self._drop(tenant, task, progress, phase)
            case Phase.PLANNING:
                return self._plan(tenant, progress)
            case Phase.AGED | Phase.AGED_FACTS | Phase.WORDS | Phase.FACTS:
                return self._take(tenant, task, progress, phase)
            case Phase.LEAVING:
                return self._leave(tenant, task, progress)
            case Phase.DONE | Phase.PLANNED:
                return None

    def _look(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers:
        """Find the next forest that is over its budget; those that are not cost one count."""
        at, after = at_of(progress), _id(progress, "after")
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
                when = forest.limits.when(at)
                if not task.dry_run:
                    return entered(rows, counted | {"forest": str(forest.id)}, when)
                plan = plan_of(rows, forest.id, forest.limits, when)
                return _planned(counted, plan) | {"after": str(forest.id)}
        if task.forest_id is None and len(page) == PAGE:
            return dict(progress) | {"after": str(page[-1].id)}
        return _ended(progress, Phase.PLANNED if task.dry_run else Phase.DONE)

    def _plan(self, tenant: TenantId, progress: Numbers) -> Numbers:
        """Fix how many leaves are to remain, now that what was too old is gone."""
        forest, at = forest_of(progress), at_of(progress)
        with retaining(self.engine, tenant) as rows:
            held = rows.held(forest, at)
            if held is None or held.limits is None:
                # The policy was taken away since, or the forest.
                return dict(progress) | {"phase": Phase.LEAVING.value}
            plan = plan_of(rows, forest, held.limits, When(at, None, order=held.limits.order))
        totals = plan.totals
        counted = _plus(progress, **_budget(plan)) | {"order": held.limits.order.value}
        counted |= goal(counted, LEAVES[Phase.WORDS].name, totals.bare_cells, len(plan.cells))
        counted |= goal(counted, LEAVES[Phase.FACTS].name, totals.facts, len(plan.facts))
        return _least(counted, plan) | {"phase": Phase.WORDS.value}

    def _drop(self, tenant: TenantId, task: OperationTask, progress: Numbers, phase: Phase) -> Numbers:
        """Delete one batch of rows that are too old, in one transaction with the line in the audit."""
        kind, forest, when = ROWS[phase], forest_of(progress), when_of(progress)
        with retaining(self.engine, tenant) as rows:
            # Whoever makes digests and windows holds the forest.
            left = kind.left(rows, forest, when) if rows.lock(forest) else 0
            dropped = kind.drop(rows, forest, when, BATCH) if left else 0
            if dropped:
                _note(rows, task, forest, kind.name, dropped)
        told = dict(progress) | {kind.name: int(progress[f"upto_{kind.name}"]) - (left - dropped)}
        return told if dropped else self._next_age(tenant, told, phase)

    def _take(self, tenant: TenantId, task: OperationTask, progress: Numbers, phase: Phase) -> Numbers:
        """Erase one batch of a kind; down to what is to remain, go on to the next phase."""
        kind, forest, when = LEAVES[phase], forest_of(progress), when_of(progress)
        with retaining(self.engine, tenant) as rows:
            more = kind.left(rows, forest, when) - int(progress[f"leave_{kind.name}"])
            leaves = kind.first(rows, forest, when, min(more, BATCH)) if more > 0 else ()
            if leaves:
                # Noted before it is done: the audit must not miss what was erased just before a crash.
                _note(rows, task, forest, kind.name, len(leaves))
        erased = 0
        for start in range(0, len(leaves), PART):
            part = [leaf.id for leaf in leaves[start : start + PART]]
            erased += kind.erase(self.eraser, tenant, forest, part)
        told = dict(progress) | {kind.name: int(progress[f"upto_{kind.name}"]) - max(0, more - erased)}
        if erased:
            return told
        # All are gone, or they can't be erased and trying again would never end.
        return left_behind(told, phase) if phase in AFTER else self._next_age(tenant, told, phase)

    def _next_age(self, tenant: TenantId, progress: Numbers, done: Phase) -> Numbers:
        """Go on to the next kind of which something is too old."""
        with retaining(self.engine, tenant) as rows:
            limits = rows.limits_for(forest_of(progress))
            if limits is None:
                # The policy was taken away since.
                return dict(progress) | {"phase": Phase.LEAVING.value}
            return entered(rows, progress, limits.when(at_of(progress)), done)

    def _leave(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers:
        """Done with a forest: on to the next."""
        forest = forest_of(progress)
        with retaining(self.engine, tenant) as rows:
            rows.drop_stray_visits(forest, STRAY_VISITS)
            if task.forest_id is None:
                rows.tasks.part(task.id, forest)
        kept = {name: value for name, value in progress.items() if name not in ("forest", "order")}
        return kept | {"phase": Phase.LOOKING.value, "after": str(forest)}


def _note(rows: RetentionRows, task: OperationTask, forest: ForestId, name: str, count: int) -> None:
    """Keep in the audit how many of a kind go."""
    who = task.actor or SERVICE
    rows.tasks.note(AuditEntry(who, task.kind, FORGETS, forest, task_id=task.id, detail={name: count}))


def _budget(plan: Plan) -> dict[str, int]:
    """How far a forest is over its numbers, and what is pinned in it."""
    return {
        "over_facts": plan.excess.facts,
        "over_bytes": plan.excess.bytes,
        "kept_pinned": plan.totals.pinned,
        "kept_sessions": plan.totals.pinned_sessions,
        "kept_turns": plan.totals.pinned_turns,
    }


def _planned(progress: Numbers, plan: Plan) -> dict[str, str | int]:
    counted = _plus(
        progress,
        digests=plan.digests,
        windows=plan.windows,
        window_items=plan.window_items,
        aged=len(plan.aged),
        aged_facts=len(plan.aged_facts),
        words=len(plan.cells),
        forgotten=len(plan.facts),
        **_budget(plan),
    )
    return _least(oldest(oldest(counted, plan.aged), plan.aged_facts), plan)


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


def _id(progress: Numbers, name: str) -> UUID | None:
    return UUID(str(progress[name])) if name in progress else None
