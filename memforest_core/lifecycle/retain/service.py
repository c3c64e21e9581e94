"""Retention: setting policies, applying them, and previewing what they would remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from memforest_core.domain.ids import CellId, FactId, ForestId, TenantId
from memforest_core.domain.operations import OperationKind
from memforest_core.domain.turns import checked_actor
from memforest_core.errors import NotFound
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.lifecycle.erase.clearing import ForestEraser
from memforest_core.lifecycle.retain.applying import Applying, plan_of
from memforest_core.lifecycle.retain.limits import audited, checked_limits
from memforest_core.lifecycle.retain.records import Phase, Policy, Preview
from memforest_core.lifecycle.retain.rows import RetentionRows
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import Lane
from memforest_core.work.operations import Operations, subject_of
from memforest_core.work.records import AuditEntry, Numbers, OperationTask, TaskId

SET, CLEARED = "set_policy", "clear_policy"
_NO_POLICY = "No retention policy applies to owner {!r:.80}: set one first."


class Retention:
    """Policies of a tenant and the runs that apply them. Thread-safe."""

    def __init__(self, engine: Engine, operations: Operations, eraser: ForestEraser) -> None:
        self._engine = engine
        self._operations = operations
        self._applying = Applying(engine, eraser)

    @repeated
    def set_policy(self, tenant: TenantId, owner: str | None, *, actor: str, **given: Any) -> Policy:
        """Limit an owner's forest, or (owner None) every forest of the tenant without a policy of its own.

        Replaces the policy that was there, whole. ``given`` is what ``checked_limits`` takes. Nothing is forgotten
        before the policy is applied. Raises InvalidInput, NotFound, StoreUnavailable.
        """
        limits = checked_limits(**given)
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

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One step of a RETAIN task."""
        return self._applying.step(tenant, task, progress)

    def _forest(self, tenant: TenantId, owner: str | None) -> ForestId | None:
        return None if owner is None else self._operations.find_forest(tenant, owner)
