"""Retention: setting policies, applying them, and seeing before what they would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.domain.operations import OperationKind
from memforest_core.domain.turns import checked_actor
from memforest_core.errors import NotFound
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.lifecycle.erase.clearing import ForestEraser
from memforest_core.lifecycle.retain.applying import Applying
from memforest_core.lifecycle.retain.choice import plan_of
from memforest_core.lifecycle.retain.policies import checked_limits, told
from memforest_core.lifecycle.retain.records import DEFAULT_FRACTION, Order, Policy, Preview
from memforest_core.lifecycle.retain.rows import retaining
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import Lane
from memforest_core.work.operations import Operations, subject_of
from memforest_core.work.records import AuditEntry, Numbers, OperationTask, TaskId

SET, CLEARED = "set_policy", "clear_policy"
_NO_POLICY = "No retention policy holds for owner {!r:.80}: set one first."


class Retention:
    """Policies of a tenant and the runs that apply them. Thread-safe."""

    def __init__(self, engine: Engine, operations: Operations, eraser: ForestEraser) -> None:
        self._engine = engine
        self._operations = operations
        self._applying = Applying(engine, eraser)

    @repeated
    def set_policy(
        self,
        tenant: TenantId,
        owner: str | None,
        *,
        actor: str,
        max_age_days: float | None = None,
        max_facts: int | None = None,
        max_bytes: int | None = None,
        fraction: float = DEFAULT_FRACTION,
        facts_max_age_days: float | None = None,
        digests_max_age_days: float | None = None,
        window_max_age_days: float | None = None,
        order: Order | str = Order.AGE,
    ) -> Policy:
        """Set what an owner's forest may hold, or (owner None) every forest of the tenant without a policy of its own.

        Replaces the policy that was there, whole. ``Limits`` tells what each limits. Nothing is forgotten before the
        policy is applied. Raises InvalidInput, NotFound, StoreUnavailable.
        """
        limits = checked_limits(
            max_age_days,
            max_facts,
            max_bytes,
            fraction,
            facts_max_age_days=facts_max_age_days,
            digests_max_age_days=digests_max_age_days,
            window_max_age_days=window_max_age_days,
            order=order,
        )
        actor = checked_actor(actor)
        forest = self._forest(tenant, owner)
        with retaining(self._engine, tenant) as rows:
            rows.put_policy(forest, limits)
            rows.tasks.note(AuditEntry(actor, SET, "done", forest, owner, detail=told(limits)))
        return Policy(**asdict(limits), owner=owner)

    @repeated
    def clear_policy(self, tenant: TenantId, owner: str | None, *, actor: str) -> bool:
        """Take a policy away, after which the tenant's holds for the owner; whether there was one.

        Raises InvalidInput, NotFound, StoreUnavailable.
        """
        actor = checked_actor(actor)
        forest = self._forest(tenant, owner)
        with retaining(self._engine, tenant) as rows:
            cleared = rows.drop_policy(forest)
            if cleared:
                rows.tasks.note(AuditEntry(actor, CLEARED, "done", forest, owner))
        return cleared

    @repeated
    def policies(self, tenant: TenantId) -> Sequence[Policy]:
        """All policies, the tenant's first, then by owner. Raises StoreUnavailable."""
        with retaining(self._engine, tenant) as rows:
            return rows.policies()

    @repeated
    def apply(self, tenant: TenantId, owner: str | None, *, actor: str, dry_run: bool = False) -> Sequence[TaskId]:
        """Ask for a run over an owner's forest, or (owner None) over all that are under a policy, one after the other.

        A run takes everything that is too old, and towards the budget at most the policy's fraction. One task; none
        for a tenant that has no policy. Raises InvalidInput, NotFound (also when no policy holds for the owner),
        StoreUnavailable.
        """
        forest = self._forest(tenant, owner)
        with retaining(self._engine, tenant) as rows:
            held = rows.policies() if forest is None else rows.limits_for(forest)
        if not held:
            if owner is None:
                return ()
            raise NotFound(_NO_POLICY.format(owner))
        kind, lane = OperationKind.RETAIN, Lane.BACKFILL
        return (self._operations.ask(tenant, kind, forest, {}, actor=actor, owner=owner, dry_run=dry_run, lane=lane),)

    @repeated
    def preview(self, tenant: TenantId, owner: str) -> Preview:
        """What a run would take from an owner's forest now, by ids; items of windows are only counted.

        Raises InvalidInput, NotFound, StoreUnavailable.
        """
        forest = self._operations.find_forest(tenant, owner)
        with retaining(self._engine, tenant) as rows:
            limits = rows.limits_for(forest)
            if limits is None:
                raise NotFound(_NO_POLICY.format(owner))
            when = limits.when(rows.now())
            plan = plan_of(rows, forest, limits, when)
            digests, windows = rows.digests(forest, when), rows.windows(forest, when)
        return Preview(
            aged=tuple(CellId(leaf.id) for leaf in plan.aged),
            words=tuple(CellId(leaf.id) for leaf in plan.cells),
            facts=tuple(FactId(leaf.id) for leaf in plan.facts),
            over_facts=plan.excess.facts,
            over_bytes=plan.excess.bytes,
            kept_pinned=plan.totals.pinned,
            aged_facts=tuple(FactId(leaf.id) for leaf in plan.aged_facts),
            digests=digests,
            windows=windows,
            window_items=plan.window_items,
            kept_sessions=plan.totals.pinned_sessions,
            kept_turns=plan.totals.pinned_turns,
        )

    def tend(self, every_s: float) -> int:
        """Ask for a run over all forests of each tenant with a policy that had no such run for ``every_s``; how many.

        For workers, at any rate: it costs a query per tenant, and the reconciler wakes whoever takes the run.
        Raises StoreUnavailable.
        """
        asked = 0
        for tenant in CollectionStore(self._engine).tenants():
            with retaining(self._engine, tenant) as rows:
                asked += rows.ask_sweep(subject_of(None, {}), every_s)
        return asked

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One step of a RETAIN task."""
        return self._applying.step(tenant, task, progress)

    def _forest(self, tenant: TenantId, owner: str | None) -> ForestId | None:
        return None if owner is None else self._operations.find_forest(tenant, owner)
