"""The names inside the vector store: collection, vectors, payload fields and their indexes."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from typing import Final
from uuid import UUID

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
"""What a scan reads of each point."""


class FieldIndex(StrEnum):
    """How a payload field is indexed; ``FOREST`` is the field that partitions the collection."""

    FOREST = "forest"
    KEYWORD = "keyword"
    UUID = "uuid"
    NUMBER = "number"
    """Whole numbers that a filter names."""
    OLDER = "older"
    """Whole numbers that are compared: a server writes only what is newer. The embedded engine, which is asked for the
    versions of points by their ids, has no such index: it takes 0.35 kB a point (measured)."""
    FLOAT = "float"


SCHEME: Final = 3
"""How points are named and their vectors kept: since 3 in half precision, as Postgres has them. It is part of the
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

    The digest keeps two models apart whose names differ only in what a slug drops.
    """
    return f"memforest-v{SCHEME}-{_tail(model, dimension)}"


def former_names(model: str, dimension: int) -> tuple[str, ...]:
    """What the model's collection was called under earlier schemes: what is left of them holds words and is dropped."""
    tail = _tail(model, dimension)
    return (f"memforest-{tail}", f"memforest-v2-{tail}")


def _tail(model: str, dimension: int) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:_SLUG_LENGTH].strip("-")
    digest = hashlib.sha256(model.encode()).hexdigest()[:8]
    return f"{slug or 'model'}-{dimension}-{digest}"
