"""Statements over sets of rows in one transaction of a tenant: turns, candidates and ids travel as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import SessionId, TenantId
from memforest_core.erase.records import ItemKey, TurnKey

TURNS = "unnest(CAST(:sessions AS uuid[]), CAST(:ordinals AS int[])) AS u(session, ordinal)"
ITEMS = "unnest(CAST(:cells AS uuid[]), CAST(:items AS smallint[])) AS u(cell, item)"
IDS = "ANY(CAST(:ids AS uuid[]))"

FIRST = UUID(int=0)
"""An id that comes before all others."""


def among(column: sa.ColumnElement[Any] | sa.orm.QueryableAttribute[Any], values: Sequence[Any]) -> Any:
    """That a column has one of these values, as a condition; they travel as one array."""
    return column == sa.any_(sa.cast(list(values), sa.ARRAY(column.type)))


def sessions_of(turns: Sequence[TurnKey]) -> list[SessionId]:
    """The sessions of these turns, in the order of ids."""
    return sorted({turn.session_id for turn in turns}, key=str)


def item_arrays(items: Sequence[ItemKey]) -> dict[str, list[Any]]:
    """Candidates as the parameters of ``ITEMS``."""
    return {"cells": [item.cell_id for item in items], "items": [item.item for item in items]}


class BatchRows:
    """Rows of one transaction of a tenant."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant

    def _run(self, statement: sa.TextClause, **values: object) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._db.execute(statement, {"t": self._tenant, **values})

    def _ids(self, statement: sa.TextClause, ids: Sequence[Any], **values: object) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._run(statement, ids=list(ids), **values)

    def _turns(
        self, statement: sa.TextClause, turns: Sequence[TurnKey], **values: object
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        sessions, ordinals = [turn.session_id for turn in turns], [turn.ordinal for turn in turns]
        return self._run(statement, sessions=sessions, ordinals=ordinals, held=sessions_of(turns), **values)

    def _items(self, statement: sa.TextClause, items: Sequence[ItemKey]) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._run(statement, **item_arrays(items))

    def _delete(self, column: sa.orm.QueryableAttribute[Any], ids: Sequence[Any]) -> int:
        """Delete the rows that have one of these ids in a column; how many."""
        table = column.class_
        return self._db.execute(sa.delete(table).where(table.tenant_id == self._tenant, among(column, ids))).rowcount
