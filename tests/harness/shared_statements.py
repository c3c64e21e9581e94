"""Compiled statements for all engines of this process: each test opens an engine of its own, which would compile the
same statements again. That took a quarter of the processor time of the integration tests."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.util import LRUCache

COMPILED_STATEMENTS = 2_000
ALIKE = ("server_version_info", "use_insertmanyvalues_wo_returning", "_json_serializer", "_json_deserializer")
"""What of a dialect engines may differ in, and a compiled statement may depend on."""


def _likeness(dialect: PGDialect_psycopg) -> tuple[object, ...]:
    return tuple(getattr(dialect, name, None) for name in ALIKE)


def _equal(dialect: PGDialect_psycopg, other: object) -> bool:
    return isinstance(other, PGDialect_psycopg) and _likeness(dialect) == _likeness(other)


def share() -> None:
    """From now on all engines use one cache, and dialects that compile alike are one in its keys."""
    cache = LRUCache[object, object](COMPILED_STATEMENTS)
    dialects = {"__eq__": _equal, "__hash__": lambda dialect: hash(type(dialect)), "_type_memos": WeakKeyDictionary()}
    for name, value in dialects.items():
        setattr(PGDialect_psycopg, name, value)
    sa.Engine._compiled_cache = property(lambda _: cache, lambda _engine, _own: None)  # type: ignore[assignment]
