"""Retention: setting policies, previewing what they would remove, and the steps of the runs that apply them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.domain.operation_rules import OperationKind, Role
from memforest_core.domain.times import from_micros, micros
from memforest_core.domain.turns import checked_actor
from memforest_core.errors import NotFound
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.lifecycle.erase.steps import ForestEraser
from memforest_core.lifecycle.retain.records import (
    AGE_OF,
    Leaf,
    Limits,
    Order,
    Phase,
    Policy,
    Preview,
    Totals,
    When,
    audited,
    checked_limits,
)
from memforest_core.lifecycle.retain.rows import RetentionRows
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import Lane
from memforest_core.work.operations import Operations, subject_of
from memforest_core.work.records import AuditEntry, Numbers, OperationTask, TaskId, with_counts

SERVICE = "memforest"
"""The actor of what policies do by themselves."""
FORGETS = "forgets"
"""The outcome under which the audit stores what is about to go."""
BATCH = 200
"""Leaves erased in one step."""
PART = 20
"""Leaves erased in one transaction: the forest is locked for some tens of milliseconds."""
PAGE = 50
"""Forests that are measured in one step."""
STRAY_VISITS = 10_000

DROPPED = (Phase.DIGESTS, Phase.WINDOWS, Phase.WINDOW_ITEMS)
"""Kinds of rows that can be made again: deleted under the forest's lock. All other kinds are leaves, to be erased."""
NEXT: Mapping[Phase, Phase] = {Phase.WORDS: Phase.FACTS, Phase.FACTS: Phase.LEAVING}
"""What follows a phase that is no age."""

COUNTS = (
    *("forests", "digests", "windows", "window_items", "aged", "faded", "aged_facts", "over_facts", "over_bytes"),
    *("words", "forgotten", "pinned_facts", "pinned_sessions", "pinned_turns"),
)
"""The counts of a receipt: forests that were over, what was too old (digests, compacted texts and items of windows,
cells, cells of faded topics, facts besides theirs), facts and bytes over the budget, cells removed for their bytes,
facts forgotten, and pinned facts, sessions and turns, which no policy removes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run removes from one forest: leaves of each kind, and how many rows that can be made again; by how many
    facts and bytes the forest is over its budget."""

    leaves: Mapping[Phase, Sequence[Leaf]]
    rows: Mapping[Phase, int]
    over_facts: int
    over_bytes: int
    totals: Totals

    @property
    def budget(self) -> dict[str, int]:
        """How far the forest is over its numbers, and how much in it is pinned."""
        pinned = ("pinned_facts", "pinned_sessions", "pinned_turns")
        over = {"over_facts": self.over_facts, "over_bytes": self.over_bytes}
        return over | {name: getattr(self.totals, name) for name in pinned}


def enough(leaves: Sequence[Leaf], count: int, size: int) -> tuple[Leaf, ...]:
    """The first leaves that are at least ``count``, and ``size`` bytes together; all of them if that is not enough."""
    freed = 0
    for place, leaf in enumerate(leaves):
        if place >= count and freed >= size:
            return tuple(leaves[:place])
        freed += leaf.size
    return tuple(leaves)


def plan_of(rows: RetentionRows, forest: ForestId, limits: Limits, when: When) -> Plan:
    """What a run that begins at this time removes: the same store gives the same plan.

    Bytes are first sought in cells on which no fact rests, from which nothing was learned; facts go for what is still
    missing, and leave cells for the next run.
    """
    old = [phase for phase, age in AGE_OF.items() if age in when.before]
    leaves = {phase: rows.first(phase, forest, when) for phase in old if phase not in DROPPED}
    counts = {phase: rows.count(phase, forest, when) for phase in old if phase in DROPPED}
    totals = rows.totals(forest, when, bytes_too=limits.max_bytes is not None)
    over_facts = 0 if limits.max_facts is None else max(0, totals.facts - limits.max_facts)
    over_bytes = 0 if limits.max_bytes is None else max(0, totals.bytes - limits.max_bytes)
    # At least one, so that small forests shrink too.
    most_cells, most_facts = (max(1, int(limits.fraction * size)) for size in (totals.cells, totals.facts))
    cells: tuple[Leaf, ...] = ()
    if over_bytes:
        cells = enough(rows.first(Phase.WORDS, forest, when, most_cells), 0, over_bytes)
    missing = max(0, over_bytes - sum(leaf.size for leaf in cells))
    facts: tuple[Leaf, ...] = ()
    if over_facts or missing:
        least = rows.first(Phase.FACTS, forest, when, most_facts)
        facts = enough(least, over_facts, missing)
    least_important = {Phase.WORDS: cells, Phase.FACTS: facts}
    return Plan({**leaves, **least_important}, counts, over_facts, over_bytes, totals)


def _entered(rows: RetentionRows, progress: Numbers, when: When, done: Phase | None = None) -> Numbers:
    """The progress with the next age after ``done`` of which something is too old, or with the budget."""
    ages, forest = list(AGE_OF), _forest_of(progress)
    spent = {name: value for name, value in progress.items() if not name.startswith(("leave_", "upto_", "cutoff"))}
    for phase in ages if done is None else ages[ages.index(done) + 1 :]:
        cutoff = when.before.get(AGE_OF[phase])
        only = When(when.at, {AGE_OF[phase]: cutoff}) if cutoff is not None else None
        there = rows.count(phase, forest, only) if only is not None else 0
        if cutoff is not None and there:
            return spent | {"phase": phase.value, "cutoff": micros(cutoff)} | _goal(progress, phase, there, there)
    return spent | {"phase": Phase.PLANNING.value}


def _goal(progress: Numbers, phase: Phase, there: int, going: int) -> dict[str, str | int]:
    """How many of a kind are to remain in a forest, and what will have been counted by then."""
    name = phase.counted
    return {f"leave_{name}": there - going, f"upto_{name}": int(progress.get(name, 0)) + going}


def _when(progress: Numbers, phase: Phase) -> When:
    """The one age of a phase, as if nothing else were limited by age, or its order."""
    if phase in AGE_OF:
        return When(_at(progress), {AGE_OF[phase]: from_micros(int(progress["cutoff"]))})
    return When(_at(progress), {}, Order(str(progress.get("order", Order.AGE.value))))


def _without(progress: Numbers, *names: str) -> dict[str, str | int]:
    return {name: value for name, value in progress.items() if name not in names}


def _at(progress: Numbers) -> datetime:
    """When the run began."""
    return from_micros(int(progress["at"]))


def _forest_of(progress: Numbers) -> ForestId:
    """The forest that a run is at."""
    return ForestId(UUID(str(progress["forest"])))


SET, CLEARED = "set_policy", "clear_policy"
_NO_POLICY = "No retention policy applies to owner {!r:.80}: set one first."


class Retention:
    """Policies of a tenant and the runs that apply them. Thread-safe.

    Each step of a run removes one batch, selected from what is there: repeating one removes no more. How many leaves
    are to remain is fixed once per forest, among those that were there when the run began; what a kill left uncounted
    is counted by how many are left.
    """

    def __init__(self, engine: Engine, operations: Operations, eraser: ForestEraser) -> None:
        self._engine = engine
        self._operations = operations
        self._eraser = eraser

    @repeated
    def set_policy(
        self,
        tenant: TenantId,
        owner: str | None = None,
        *,
        max_age_days: float | None = None,
        max_facts: int | None = None,
        max_bytes: int | None = None,
        fraction: float = 0.1,
        facts_max_age_days: float | None = None,
        digests_max_age_days: float | None = None,
        window_max_age_days: float | None = None,
        faded_max_age_days: float | None = None,
        order: str = "age",
        actor: str,
    ) -> Policy:
        """Limit an owner's forest, or (owner None) every forest without a policy of its own; workers apply it.

        None is no limit. ``max_age_days`` is the age of turns, ``facts_max_age_days`` of facts (since they were said
        last), ``digests_max_age_days`` of the calendar's digests (since the end of what they tell of),
        ``window_max_age_days`` of what windows hold (since it was put in or made), ``faded_max_age_days`` of topics
        (since they became cold; what another topic has too stays): all that is older goes.
        ``max_facts`` and ``max_bytes`` bound a forest; ``fraction`` is the share, above 0 and at most 1, of its facts
        that one run may forget for them, in this ``order``: "age" takes what is least important, "visits" what was not
        visited for longest, then what was visited least, then the oldest, "relevance" what recent questions found
        least, itself or its neighbours in a tree, "centrality" what is connected least with other facts.
        """
        ages = (facts_max_age_days, digests_max_age_days, window_max_age_days, faded_max_age_days)
        limits = checked_limits(Limits(max_age_days, max_facts, max_bytes, fraction, *ages), order)
        actor = checked_actor(actor)
        forest = self._forest(tenant, owner)
        with RetentionRows.opened(self._engine, tenant) as rows:
            rows.put_policy(forest, limits)
            rows.tasks.note(AuditEntry(actor, SET, "done", forest, owner, detail=audited(limits)))
        return Policy(**asdict(limits), owner=owner)

    @repeated
    def clear_policy(self, tenant: TenantId, owner: str | None = None, *, actor: str) -> bool:
        """Remove the policy of an owner, or (None) the one for all others; returns whether there was one."""
        actor = checked_actor(actor)
        forest = self._forest(tenant, owner)
        with RetentionRows.opened(self._engine, tenant) as rows:
            cleared = rows.drop_policy(forest)
            if cleared:
                rows.tasks.note(AuditEntry(actor, CLEARED, "done", forest, owner))
        return cleared

    @repeated
    def policies(self, tenant: TenantId) -> Sequence[Policy]:
        """All policies, the one for all others first."""
        with RetentionRows.opened(self._engine, tenant) as rows:
            return rows.policies()

    @repeated
    def apply(self, tenant: TenantId, owner: str | None, *, actor: str, dry_run: bool = False) -> Sequence[TaskId]:
        """Request a run over an owner's forest, or (owner None) over all that are under a policy, one after the other.

        A run removes everything that is too old, and towards the budget at most the policy's fraction. One task; none
        for a tenant that has no policy. Raises InvalidInput, NotFound (also when no policy applies to the owner),
        StoreUnavailable.
        """
        forest = self._forest(tenant, owner)
        with RetentionRows.opened(self._engine, tenant) as rows:
            found = rows.policies() if forest is None else rows.limits_for(forest)
        if not found:
            if owner is None:
                return ()
            raise NotFound(_NO_POLICY.format(owner))
        kind, lane = OperationKind.RETAIN, Lane.BACKFILL
        return (self._operations.ask(tenant, kind, forest, {}, actor=actor, owner=owner, dry_run=dry_run, lane=lane),)

    @repeated
    def preview(self, tenant: TenantId, owner: str) -> Preview:
        """What a policy would delete from an owner's forest now: facts, cells, digests, and what windows hold."""
        forest = self._operations.find_forest(tenant, owner)
        with RetentionRows.opened(self._engine, tenant) as rows:
            limits = rows.limits_for(forest)
            if limits is None:
                raise NotFound(_NO_POLICY.format(owner))
            when = limits.when(rows.now())
            plan = plan_of(rows, forest, limits, when)
            digests, windows = (
                rows.names(phase, forest, when) if plan.rows.get(phase) else ()
                for phase in (Phase.DIGESTS, Phase.WINDOWS)
            )
        ids = {phase: [leaf.id for leaf in leaves] for phase, leaves in plan.leaves.items()}
        return Preview(
            aged=tuple(map(CellId, ids.get(Phase.AGED, ()))),
            faded=tuple(map(CellId, ids.get(Phase.FADED, ()))),
            words=tuple(map(CellId, ids[Phase.WORDS])),
            facts=tuple(map(FactId, ids[Phase.FACTS])),
            aged_facts=tuple(map(FactId, ids.get(Phase.AGED_FACTS, ()))),
            digests=digests,
            windows=windows,
            window_items=plan.rows.get(Phase.WINDOW_ITEMS, 0),
            **plan.budget,
        )

    def request_sweeps(self, every_s: float) -> int:
        """Request a run over all forests of each tenant with a policy that had none for ``every_s``; how many.

        For workers, at any rate: it costs a query per tenant, and the reconciler wakes the worker that runs it.
        Raises StoreUnavailable.
        """
        requested = 0
        for tenant in CollectionStore(self._engine).tenants():
            with RetentionRows.opened(self._engine, tenant) as rows:
                requested += rows.request_sweep(subject_of(None, {}), every_s)
        return requested

    def _forest(self, tenant: TenantId, owner: str | None) -> ForestId | None:
        return None if owner is None else self._operations.find_forest(tenant, owner)

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        if "phase" not in progress:
            with RetentionRows.opened(self._engine, tenant) as rows:
                return {"phase": Phase.LOOKING.value, "at": micros(rows.now()), **dict.fromkeys(COUNTS, 0)}
        phase = Phase(str(progress["phase"]))
        match phase:
            case Phase.LOOKING:
                return self._next_forest(tenant, task, progress)
            case Phase.PLANNING:
                return self._plan(tenant, progress)
            case Phase.LEAVING:
                return self._leave(tenant, task, progress)
            case Phase.DONE | Phase.PLANNED:
                return None
            case _:
                return self._remove(tenant, task, progress, phase)

    def _next_forest(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers:
        """Find the next forest that is over its budget; those that are not cost one count."""
        at, after = _at(progress), ForestId(UUID(str(progress["after"]))) if "after" in progress else None
        with RetentionRows.opened(self._engine, tenant) as rows:
            if task.forest_id is not None:
                one = rows.measured(ForestId(task.forest_id), at) if after is None else None
                page = [one] if one is not None else []
            else:
                page = list(rows.forests_after(after, PAGE, at))
            for forest in page:
                if not forest.over or forest.limits is None:
                    continue
                if not task.dry_run and not rows.tasks.join(task.id, forest.id, Role.RETAIN):
                    # Another operation works on this forest: the next run takes it.
                    continue
                counted = with_counts(progress, {"forests": 1})
                when = forest.limits.when(at)
                if not task.dry_run:
                    return _entered(rows, counted | {"forest": str(forest.id)}, when)
                plan = plan_of(rows, forest.id, forest.limits, when)
                counts = {phase.counted: count for phase, count in plan.rows.items()}
                counts |= {phase.counted: len(leaves) for phase, leaves in plan.leaves.items()}
                return with_counts(counted, counts | plan.budget) | {"after": str(forest.id)}
        if task.forest_id is None and len(page) == PAGE:
            return dict(progress) | {"after": str(page[-1].id)}
        over = Phase.PLANNED if task.dry_run else Phase.DONE
        return {"phase": over.value} | {name: progress[name] for name in COUNTS}

    def _plan(self, tenant: TenantId, progress: Numbers) -> Numbers:
        """Fix how many leaves are to remain, now that what was too old is gone."""
        forest, at = _forest_of(progress), _at(progress)
        with RetentionRows.opened(self._engine, tenant) as rows:
            measured = rows.measured(forest, at)
            if measured is None or measured.limits is None:
                # The policy was cleared since, or the forest.
                return dict(progress) | {"phase": Phase.LEAVING.value}
            limits = measured.limits
            plan = plan_of(rows, forest, limits, When(at, {}, limits.order))
        counted = with_counts(progress, plan.budget) | {"order": limits.order.value}
        for phase, there in ((Phase.WORDS, plan.totals.bare_cells), (Phase.FACTS, plan.totals.facts)):
            counted |= _goal(counted, phase, there, len(plan.leaves[phase]))
        return counted | {"phase": Phase.WORDS.value}

    def _remove(self, tenant: TenantId, task: OperationTask, progress: Numbers, phase: Phase) -> Numbers:
        """Remove one batch of a kind; down to what is to remain, go on to the next phase."""
        forest, when, name = _forest_of(progress), _when(progress, phase), phase.counted
        leaves: Sequence[Leaf] = ()
        with RetentionRows.opened(self._engine, tenant) as rows:
            # Workers that make digests and windows lock the forest.
            there = rows.count(phase, forest, when) if phase not in DROPPED or rows.lock_forest(forest) else 0
            more = max(0, there - int(progress[f"leave_{name}"]))
            removed = rows.drop(phase, forest, when, BATCH) if more and phase in DROPPED else 0
            if more and phase not in DROPPED:
                leaves = rows.first(phase, forest, when, min(more, BATCH))
            if removed or leaves:
                # Noted before leaves are erased: the audit must not miss what was erased just before a crash.
                actor, detail = task.actor or SERVICE, {name: removed or len(leaves)}
                rows.tasks.note(AuditEntry(actor, task.kind, FORGETS, forest, task_id=task.id, detail=detail))
        for start in range(0, len(leaves), PART):
            part = [leaf.id for leaf in leaves[start : start + PART]]
            if phase in (Phase.AGED, Phase.FADED, Phase.WORDS):
                removed += self._eraser.erase_cells(tenant, forest, [CellId(cell) for cell in part])
            else:
                removed += self._eraser.erase_facts(tenant, forest, [FactId(fact) for fact in part])
        after = dict(progress) | {name: int(progress[f"upto_{name}"]) - max(0, more - removed)}
        if removed:
            return after
        # All are gone, or they can't be erased and trying again would never end.
        if phase in NEXT:
            return _without(after, f"leave_{name}", f"upto_{name}") | {"phase": NEXT[phase].value}
        with RetentionRows.opened(self._engine, tenant) as rows:
            limits = rows.limits_for(forest)
            if limits is None:
                # The policy was cleared since.
                return after | {"phase": Phase.LEAVING.value}
            return _entered(rows, after, limits.when(_at(progress)), phase)

    def _leave(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers:
        """Done with a forest: on to the next."""
        forest = _forest_of(progress)
        with RetentionRows.opened(self._engine, tenant) as rows:
            rows.drop_stray_visits(forest, STRAY_VISITS)
            if task.forest_id is None:
                rows.tasks.part(task.id, forest)
        return _without(progress, "forest", "order") | {"phase": Phase.LOOKING.value, "after": str(forest)}
