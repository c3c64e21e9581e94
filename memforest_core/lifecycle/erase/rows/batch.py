"""Statements over sets of rows in one transaction of a tenant: turns, candidates and ids travel as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import SessionId
from memforest_core.lifecycle.erase.records import ItemKey, TurnKey
from memforest_core.store.rows import TenantRows, among

TURNS = "unnest(CAST(:sessions AS uuid[]), CAST(:ordinals AS int[])) AS u(session, ordinal)"
ITEMS = "unnest(CAST(:cells AS uuid[]), CAST(:items AS smallint[])) AS u(cell, item)"
IDS = "ANY(CAST(:ids AS uuid[]))"
OF_TIMES = """g.tenant_id = :t AND g.forest_id = :f AND EXISTS (
    SELECT 1 FROM unnest(CAST(:times AS timestamptz[])) AS u(at)
     WHERE u.at >= g.start_at AND u.at < g.end_at)"""


def sessions_of(turns: Sequence[TurnKey]) -> list[SessionId]:
    """The sessions of these turns, in the order of ids."""
    return sorted({turn.session_id for turn in turns}, key=str)


def item_arrays(items: Sequence[ItemKey]) -> dict[str, list[Any]]:
    """Candidates as the parameters of ``ITEMS``."""
    return {"cells": [item.cell_id for item in items], "items": [item.item for item in items]}


class BatchRows(TenantRows):
    def _ids(self, statement: sa.TextClause, ids: Sequence[Any], **values: object) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._run(statement, ids=list(ids), **values)

    def _turns(
        self, statement: sa.TextClause, turns: Sequence[TurnKey], **values: object
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        sessions, ordinals = [turn.session_id for turn in turns], [turn.ordinal for turn in turns]
        return self._run(statement, sessions=sessions, ordinals=ordinals, in_sessions=sessions_of(turns), **values)

    def _items(self, statement: sa.TextClause, items: Sequence[ItemKey]) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._run(statement, **item_arrays(items))

    def _delete(self, column: sa.orm.QueryableAttribute[Any], ids: Sequence[Any]) -> int:
        table = column.class_
        return self._db.execute(sa.delete(table).where(table.tenant_id == self._tenant, among(column, ids))).rowcount
