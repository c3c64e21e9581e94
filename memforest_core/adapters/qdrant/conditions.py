"""An index filter as plain conditions, so that both adapters translate the same thing."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from memforest_core.adapters.qdrant import naming
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.ports.index import IndexFilter

_FOREVER = 1e15
"""Seconds; open ends of an interval are clamped here because JSON has no infinity."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field has one of these values."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsOne:
    """The flag is set. Flags are stored as 0 and 1: the embedded engine can't match booleans."""

    field: str


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The field is present and not below the bound."""

    field: str
    bound: float


@dataclass(frozen=True, slots=True)
class AtMost:
    """The field is present and not above the bound."""

    field: str
    bound: float


@dataclass(frozen=True, slots=True)
class Among:
    """The point is one of these."""

    ids: tuple[UUID, ...]


Condition = AnyOf | IsOne | AtLeast | AtMost | Among


def forest_conditions(tenant: TenantId, forest: ForestId | None) -> list[Condition]:
    """What keeps one forest of a tenant to itself; without a forest, the whole tenant."""
    found: list[Condition] = [] if forest is None else [AnyOf(naming.FOREST, (str(forest),))]
    return [*found, AnyOf(naming.TENANT, (tenant,))]


def corpus_conditions(forest: ForestId) -> list[Condition]:
    """The points among which terms are rare or common.

    A forest's id is random and belongs to one tenant. Every posting of every term is checked against these conditions:
    one of them instead of two halves the time of a sparse search of 220,000 points.
    """
    return [AnyOf(naming.FOREST, (str(forest),))]


def conditions(wanted: IndexFilter) -> list[Condition]:
    """All conditions of a filter; every one must hold."""
    found = forest_conditions(wanted.tenant, wanted.forest_id)
    if wanted.kinds:
        found.append(AnyOf(naming.KIND, tuple(kind.value for kind in wanted.kinds)))
    if wanted.roots_only:
        found.append(IsOne(naming.ROOT))
    if wanted.tree_ids:
        found.append(AnyOf(naming.TREE, tuple(map(str, wanted.tree_ids))))
    if wanted.tree_kinds:
        found.append(AnyOf(naming.TREE_KIND, tuple(map(str, wanted.tree_kinds))))
    if wanted.session_ids:
        found.append(AnyOf(naming.SESSION, tuple(map(str, wanted.session_ids))))
    if wanted.ids is not None:
        found.append(Among(wanted.ids))
    if wanted.overlaps is not None:
        first, last = wanted.overlaps
        found.append(AtMost(naming.START, min(last, _FOREVER)))
        found.append(AtLeast(naming.END, max(first, -_FOREVER)))
    return found
