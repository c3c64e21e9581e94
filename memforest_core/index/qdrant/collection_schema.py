"""Names, ids and conditions inside a Qdrant collection, the same on a server and in the embedded engine."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from functools import lru_cache
from typing import Final
from uuid import UUID, uuid5

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.vector_index import IndexFilter, PointKey

DENSE: Final = "dense"
TERMS: Final = "terms"

TENANT: Final = "tenant"
FOREST: Final = "forest"
KIND: Final = "kind"
VERSION: Final = "version"
TREE: Final = "tree"
TREE_KIND: Final = "tree_kind"
LEVEL: Final = "level"
ROOT: Final = "root"
SESSION: Final = "session"
START: Final = "start"
END: Final = "end"
MARK: Final = "mark"
ROW: Final = "row"
FOREST_ID: Final = "forest_id"

MARK_ID: Final = UUID("6d61726b-0000-5000-8000-000000000000")
"""The one point that is no row's: without tenant and vectors, so that no search finds it."""


SCANNED: Final = (TENANT, FOREST_ID, ROW, VERSION, KIND)
"""The payload that a scan reads."""


class FieldIndex(StrEnum):
    """How a payload field is indexed; ``FOREST`` is the field that partitions the collection."""

    FOREST = "forest"
    KEYWORD = "keyword"
    UUID = "uuid"
    NUMBER = "number"
    """Whole numbers that a filter names."""
    OLDER = "older"
    """Whole numbers that are compared: a server writes only what is newer. The embedded engine, which reads the
    versions of points by their ids, has no such index: it takes 0.35 kB a point (measured)."""
    FLOAT = "float"


SCHEME: Final = 3
"""How points are named and their vectors stored: since 3 in half precision, as Postgres has them. It is part of the
collection's name, so that others are never mixed with ours."""


FIELD_INDEXES: Final[dict[str, FieldIndex]] = {
    FOREST: FieldIndex.FOREST,
    TENANT: FieldIndex.KEYWORD,
    KIND: FieldIndex.KEYWORD,
    TREE: FieldIndex.UUID,
    TREE_KIND: FieldIndex.KEYWORD,
    SESSION: FieldIndex.UUID,
    LEVEL: FieldIndex.NUMBER,
    VERSION: FieldIndex.OLDER,
    ROOT: FieldIndex.NUMBER,
    START: FieldIndex.FLOAT,
    END: FieldIndex.FLOAT,
}
"""Every field that a filter names. A search is of one forest, so only that field partitions."""

PAYLOAD_M: Final = 16
"""Links per point in the graph inside each large forest; there is no graph across forests."""

BATCH: Final = 256
"""Points per write request: hides the round trip, and is about 2 MB of JSON at 384 numbers."""

_SLUG_LENGTH = 48


def collection_name(model: str, dimension: int) -> str:
    """The collection of an embedding model: the scheme, its readable slug, the dimension and a short digest.

    The digest distinguishes two models whose names differ only in characters that a slug drops.
    """
    return f"memforest-v{SCHEME}-{_tail(model, dimension)}"


def former_names(model: str, dimension: int) -> tuple[str, ...]:
    """Names of the model's collection under earlier schemes: such a collection has words of people and is dropped."""
    tail = _tail(model, dimension)
    return (f"memforest-{tail}", f"memforest-v2-{tail}")


def _tail(model: str, dimension: int) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:_SLUG_LENGTH].strip("-")
    digest = hashlib.sha256(model.encode()).hexdigest()[:8]
    return f"{slug or 'model'}-{dimension}-{digest}"


_SPACES = UUID("7c0e4a52-3d0b-5e0e-9f43-6d656d666f72")
CACHED_IDS = 100_000
"""Ids of points in one process, at some 350 bytes each: questions name the same points repeatedly."""


@lru_cache(maxsize=4_096)
def space(tenant: TenantId, forest: ForestId) -> UUID:
    """The namespace of one forest's points. A bundle may bring a forest's id into another tenant."""
    return uuid5(_SPACES, f"{tenant}\x1f{forest}")


def _point_id(namespace: UUID, row: UUID) -> UUID:
    """``uuid5`` over a forest's namespace and a row's id, which takes bytes from Python 3.12 on."""
    return UUID(bytes=hashlib.sha1(namespace.bytes + row.bytes, usedforsecurity=False).digest()[:16], version=5)


_searched_point_id = lru_cache(maxsize=CACHED_IDS)(_point_id)
"""Only of searches: a pass over all points, such as verify's, would fill the cache with ids that nobody names."""


def point_id(key: PointKey) -> UUID:
    """The id of one point."""
    return _point_id(space(key.tenant, key.forest_id), key.id)


def named_rows(wanted: IndexFilter) -> dict[UUID, UUID] | None:
    """The rows that a filter names, by the ids of their points; None when it names none."""
    if wanted.ids is None:
        return None
    own = space(wanted.tenant, wanted.forest_id)
    return {_searched_point_id(own, row): row for row in wanted.ids}
