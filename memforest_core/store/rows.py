"""What all classes of rows share: an open transaction that is bound to a tenant."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import TenantId
from memforest_core.store.engine import hurried, tenant_transaction, unhurried

T = TypeVar("T")
R = TypeVar("R", bound="TenantRows")

FIRST = UUID(int=0)
"""An id that comes before all others."""

STORE_WAIT_S = 2.0
"""A reader that would store what it made waits so long for the forest's lock; then it is not stored."""


class TenantRows:
    """Rows of one open transaction of a tenant."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant

    @classmethod
    @contextmanager
    def opened(cls, engine: sa.Engine, tenant: TenantId) -> Iterator[Self]:
        """These rows in a transaction of their own: it commits at the end, and rolls back on any error."""
        with tenant_transaction(engine, tenant) as connection:
            yield cls(connection, tenant)

    def as_rows(self, kind: type[R]) -> R:
        """Rows of another kind in the same transaction."""
        return kind(self._db, self._tenant)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Roll back what the block writes, however the block ends: a dry run."""
        written = self._db.begin_nested()
        try:
            yield
        finally:
            written.rollback()

    def _run(self, statement: sa.Executable, **values: Any) -> sa.CursorResult[*tuple[Any, ...]]:
        """Execute a statement whose parameter ``t`` is the tenant."""
        return self._db.execute(statement, {"t": self._tenant, **values})

    def _select(self, *columns: Any) -> sa.Select[Any]:
        """A query of the tenant's rows of the table that the first column is of."""
        return sa.select(*columns).where(_table_of(columns[0]).c.tenant_id == self._tenant)

    def _update_rows(self, table: Any) -> sa.Update:
        """A change of the tenant's rows of a table: of all, unless conditions are added."""
        return sa.update(table).where(table.tenant_id == self._tenant)

    def _delete(self, column: Any, ids: Iterable[Any]) -> int:
        """Delete the tenant's rows that have one of these ids in a column; how many."""
        table = column.class_
        return self._db.execute(sa.delete(table).where(table.tenant_id == self._tenant, among(column, ids))).rowcount

    def hurried(self, most_s: float = STORE_WAIT_S) -> None:
        """Wait for no lock longer than so many seconds: then StoreContended is raised, which is not to be repeated."""
        hurried(self._db, most_s)

    def unhurried(self) -> None:
        """Let this transaction, its statements and the pauses between them take as long as their rows need."""
        unhurried(self._db)


def _table_of(column: Any) -> sa.FromClause:
    """The table of a column, also of one with a label; a table is its own."""
    plain = column.element if isinstance(column, sa.Label) else column
    table: sa.FromClause = plain if isinstance(plain, sa.FromClause) else plain.table
    return table


def among(column: sa.ColumnElement[Any] | Any, values: Iterable[Any]) -> sa.ColumnElement[bool]:
    """That a column has one of these values, which are one parameter however many they are."""
    return column == sa.any_(sa.cast(list(values), sa.ARRAY(column.type)))


def seconds_from_now(delay_s: float | sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The timestamp ``delay_s`` seconds from now, on the database's clock."""
    return sa.func.clock_timestamp() + sa.func.make_interval(0, 0, 0, 0, 0, 0, delay_s)


def record_of(kind: type[T], row: sa.Row[*tuple[Any, ...]], **given: Any) -> T:
    """A dataclass from a row: each field from the column of its name, as the enum, the UTC time or the tuple that its
    type says. ``given`` are fields that no column has as they should be; without a column a field has its default."""
    columns = row._mapping
    for name, convert in _converters(cast(Hashable, kind)):
        if name in columns and name not in given:
            given[name] = columns[name] if convert is None else convert(columns[name])
    return kind(**given)


@cache
def _converters(kind: Any) -> list[tuple[str, Callable[[Any], Any] | None]]:
    hints = get_type_hints(kind)
    return [(name, _converter(hints[name])) for name in kind.__dataclass_fields__]


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """What makes a column's value of this type; None where the driver has made it."""
    if get_origin(hint) in (Union, UnionType):
        [of] = (_converter(part) for part in get_args(hint) if part is not type(None))
        return None if of is None else lambda value: None if value is None else of(value)
    if get_origin(hint) is tuple:
        return tuple
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    return (lambda value: value.astimezone(UTC)) if hint is datetime else None
