"""The rows of the audit in the order of their chain, as texts that are hashed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from memforest_core.store.rows import TenantRows
from memforest_core.store.trees import micros

_CHAIN = f"""
    SELECT place, hash, at, ARRAY[tenant_id, place::text, audit_id::text, {micros("at")}::text, actor, action, outcome,
           forest_id::text, encode(owner_hash, 'hex'), task_id::text, detail::text] AS columns
      FROM memforest.audit WHERE tenant_id = :t ORDER BY place"""  # noqa: S608 - constants
_ALL, _LAST = sa.text(_CHAIN), sa.text(f"SELECT * FROM ({_CHAIN} DESC NULLS LAST LIMIT 1) a WHERE place IS NOT NULL")  # noqa: S608

PAGE = 1_000
"""Rows in memory at once."""


class ChainedRow(NamedTuple):
    """A row's place and hash, None when nothing has sealed it, its time, and all columns that the hash covers."""

    place: int | None
    hash: bytes | None
    at: datetime
    columns: list[str | None]


class AuditRows(TenantRows):
    """One tenant's audit in one transaction."""

    def last(self) -> ChainedRow | None:
        """The newest row that has a place."""
        found = self._run(_LAST).first()
        return None if found is None else ChainedRow(*found)

    def chain(self) -> Iterator[ChainedRow]:
        """All rows in the order of their chain, those outside it last; streamed, as of one moment."""
        self.unhurried()
        streaming = {"stream_results": True, "max_row_buffer": PAGE}
        with self._db.execute(_ALL, {"t": self._tenant}, execution_options=streaming) as rows:
            for row in rows:
                yield ChainedRow(*row)
