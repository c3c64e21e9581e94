"""Answers what people ask about a running system: how far, how much, which trees, and why not yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.observe.records import ModelCalls, Totals, TreeNode, TreeOverview, Trouble, WorkerSeen
from memforest_core.observe.rows.inspect import InspectRows, InspectStore
from memforest_core.store.owners import known

MAX_NAMED = 8
"""Trees that an ambiguous name lists in its error."""


@dataclass(frozen=True, slots=True)
class SystemState:
    """The whole of a tenant at one moment, and the workers that serve all tenants."""

    schema_revision: str | None
    schema_needed: str
    workers: tuple[WorkerSeen, ...]
    owners: int
    totals: Totals
    troubles: tuple[Trouble, ...]
    model_calls: tuple[ModelCalls, ...]


@dataclass(frozen=True, slots=True)
class ForestState:
    """One owner's forest at one moment."""

    owner: str
    totals: Totals
    troubles: tuple[Trouble, ...]


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A tree and its nodes, higher levels first, each level in key order."""

    overview: TreeOverview
    nodes: tuple[TreeNode, ...]


class InspectionService:
    """Reads only; every answer is one transaction's view."""

    def __init__(self, store: InspectStore, dead_after_s: float) -> None:
        self._store = store
        self._dead_after_s = dead_after_s

    def system(self, tenant: TenantId) -> SystemState:
        """Schema, workers, and the tenant's totals. Raises StoreUnavailable, InvalidSettings."""
        with self._store.inspecting(tenant) as rows:
            return SystemState(
                schema_revision=rows.revision(),
                schema_needed=self._store.head_revision(),
                workers=tuple(rows.workers(self._dead_after_s)),
                owners=rows.forests(),
                totals=rows.totals(None),
                troubles=tuple(rows.troubles(None)),
                model_calls=tuple(rows.model_calls(None)),
            )

    def forest(self, tenant: TenantId, owner: str) -> ForestState:
        """One forest's totals. Raises NotFound, StoreUnavailable."""
        with self._store.inspecting(tenant) as rows:
            forest = _forest(rows, owner)
            return ForestState(owner, rows.totals(forest), tuple(rows.troubles(forest)))

    def model_calls(self, tenant: TenantId, owner: str) -> list[ModelCalls]:
        """What models were called for one forest. Raises NotFound, StoreUnavailable."""
        with self._store.inspecting(tenant) as rows:
            return rows.model_calls(_forest(rows, owner))

    def trees(self, tenant: TenantId, owner: str) -> list[TreeOverview]:
        """The owner's active trees, by kind, then by time. Raises NotFound, StoreUnavailable."""
        with self._store.inspecting(tenant) as rows:
            return rows.trees(_forest(rows, owner))

    def tree(self, tenant: TenantId, owner: str, wanted: str, depth: int | None = None) -> GrownTree:
        """One tree's upper ``depth`` levels (the root is the first), or all of them.

        ``wanted`` is as ``chosen`` takes it. Raises NotFound, InvalidInput, StoreUnavailable.
        """
        with self._store.inspecting(tenant) as rows:
            overview = chosen(rows.trees(_forest(rows, owner)), wanted)
            lowest = 0 if depth is None else max(0, overview.height - depth + 1)
            return GrownTree(overview, tuple(rows.nodes(overview.id, lowest)))


def _forest(rows: InspectRows, owner: str) -> ForestId:
    return known(rows.forest(owner), owner)


def chosen(trees: Sequence[TreeOverview], wanted: str) -> TreeOverview:
    """The one tree that ``wanted`` names: an id, a label, or the unique beginning of either.

    ``kind:label`` narrows by kind. A whole name goes before a beginning. Raises NotFound for none,
    InvalidInput for several.
    """
    name = wanted.strip().casefold()
    if not name:
        raise InvalidInput("Name a tree by its id or label.", code="invalid_tree")
    exact = [tree for tree in trees if name in _names(tree)]
    found = exact or [tree for tree in trees if any(known.startswith(name) for known in _names(tree))]
    if not found:
        raise NotFound(f"No tree is called {wanted!r:.80}: list them with memforest tree OWNER.")
    if len(found) > 1:
        several = ", ".join(f"{tree.id} ({tree.kind.value}:{tree.label})" for tree in found[:MAX_NAMED])
        raise InvalidInput(
            f"{len(found)} trees match {wanted!r:.80}; name one by its id: {several}.",
            code="ambiguous_tree",
        )
    return found[0]


def _names(tree: TreeOverview) -> tuple[str, ...]:
    label, key = tree.label.casefold(), tree.scope_key.casefold()
    return (
        str(tree.id),
        tree.id.hex,
        label,
        key,
        f"{tree.kind.value}:{label}",
        f"{tree.kind.value}:{key}",
    )
