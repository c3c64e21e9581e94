"""Under which ids the index keeps points: made of tenant, forest and row, so that no two forests can own one point."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID, SafeUUID, uuid5

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.vector_index import IndexFilter, PointKey

_SPACES = UUID("7c0e4a52-3d0b-5e0e-9f43-6d656d666f72")

KEPT_POINTS = 100_000
"""Names of points in one process, at some 350 bytes each."""

_new, _set = object.__new__, object.__setattr__

_VERSION_5 = 5 << 76 | 0b10 << 62
_OPEN = ~(0b1111 << 76 | 0b11 << 62)
"""All bits but those of version and variant (RFC 9562, sections 4.1 and 4.2)."""


@lru_cache(maxsize=4_096)
def space(tenant: TenantId, forest: ForestId) -> UUID:
    """What one forest's points are told apart by. A bundle may bring a forest's id into another tenant."""
    return uuid5(_SPACES, f"{tenant}\x1f{forest}")


def point_ids(tenant: TenantId, forest: ForestId, rows: Iterable[UUID]) -> dict[UUID, UUID]:
    """The row of each point of a forest, by the point's id."""
    own = space(tenant, forest)
    return {_point(own, row): row for row in rows}


def _point(own: UUID, row: UUID) -> UUID:
    """``uuid5`` over a forest's space and a row's id, without the checks of ``UUID(bytes=..., version=5)``."""
    digest = hashlib.sha1(own.bytes + row.bytes, usedforsecurity=False).digest()
    point = _new(UUID)
    _set(point, "int", int.from_bytes(digest[:16], "big") & _OPEN | _VERSION_5)
    _set(point, "is_safe", SafeUUID.unknown)
    return point


def point_id(key: PointKey) -> UUID:
    """The id of one point."""
    return next(iter(point_ids(key.tenant, key.forest_id, (key.id,))))


def rows_asked(wanted: IndexFilter) -> dict[UUID, UUID] | None:
    """The rows that a filter names, by the ids of their points; None when it names none."""
    if wanted.ids is None:
        return None
    return _ASKED.of(space(wanted.tenant, wanted.forest_id), wanted.ids)


class _Points(dict[UUID, UUID]):
    """The points of a forest's rows that were asked for."""

    def __init__(self, own: UUID) -> None:
        self._own = own

    def __missing__(self, row: UUID) -> UUID:
        made = self[row] = _point(self._own, row)
        return made


class AskedPoints:
    """Names of points by their rows: questions ask for the same ones again and again, writers and checks for each once.

    All of them are dropped when they are too many. Two threads at once may count a few too few.
    """

    def __init__(self) -> None:
        self._forests: dict[UUID, _Points] = {}
        self._count = 0

    def of(self, own: UUID, rows: Iterable[UUID]) -> dict[UUID, UUID]:
        """The row of each point of the forest with this space, by the point's id."""
        points = self._forests.get(own)
        if points is None:
            points = self._forests[own] = _Points(own)
        before = len(points)
        asked = {points[row]: row for row in rows}
        self._count += len(points) - before
        if self._count > KEPT_POINTS:
            self._forests, self._count = {}, 0
        return asked


_ASKED = AskedPoints()
