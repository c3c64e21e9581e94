"""An index filter as plain conditions, so that both adapters translate the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.qdrant import schema
from memforest_core.index.qdrant.ids import space
from memforest_core.index.vector_index import IndexFilter

_FOREVER = 1e15
"""Seconds; open ends of an interval are clamped here because JSON has no infinity."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field has one of these values. Flags are stored as 0 and 1: the embedded engine can't match booleans."""

    field: str
    values: tuple[str, ...] | tuple[int]


@dataclass(frozen=True, slots=True)
class Within:
    """The field is present, and neither below ``least`` nor above ``most``."""

    field: str
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Among:
    """The point is one of these."""

    ids: frozenset[UUID]


Condition = AnyOf | Within | Among


def forest_conditions(tenant: TenantId, forest: ForestId | None) -> list[Condition]:
    """What keeps one forest of a tenant to itself; without a forest, the whole tenant."""
    if forest is None:
        return [AnyOf(schema.TENANT, (tenant,))]
    # One condition for both: every posting of every term of a sparse search is checked against these.
    return [AnyOf(schema.FOREST, (str(space(tenant, forest)),))]


def conditions(wanted: IndexFilter, asked: Mapping[UUID, UUID] | None) -> list[Condition]:
    """All conditions of a filter; every one must hold. ``asked`` is that of ``rows_asked``."""
    found = forest_conditions(wanted.tenant, wanted.forest_id)
    if wanted.kinds:
        found.append(AnyOf(schema.KIND, tuple(kind.value for kind in wanted.kinds)))
    if wanted.roots_only:
        found.append(AnyOf(schema.ROOT, (1,)))
    if wanted.tree_ids:
        found.append(AnyOf(schema.TREE, tuple(map(str, wanted.tree_ids))))
    if wanted.tree_kinds:
        found.append(AnyOf(schema.TREE_KIND, tuple(map(str, wanted.tree_kinds))))
    if wanted.session_ids:
        found.append(AnyOf(schema.SESSION, tuple(map(str, wanted.session_ids))))
    if asked is not None:
        found.append(Among(frozenset(asked)))
    if wanted.overlaps is not None:
        first, last = wanted.overlaps
        found.append(Within(schema.START, most=min(last, _FOREVER)))
        found.append(Within(schema.END, least=max(first, -_FOREVER)))
    return found
