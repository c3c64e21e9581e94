"""The indexer's rows in Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import UUID, uuid4

import sqlalchemy as sa

from memforest_core.adapters.postgres import models as m
from memforest_core.adapters.postgres.engine import tenant_transaction
from memforest_core.adapters.postgres.extract import record_calls
from memforest_core.adapters.postgres.vectors import PostgresVectors, from_bytes
from memforest_core.domain.ids import ForestId, LeaseToken, SessionId, TenantId, TreeId, WorkerId
from memforest_core.domain.indexed import cell_text, count_terms, fact_terms_text, unpack_counts
from memforest_core.ports.index import PointKind
from memforest_core.ports.indexing import IndexRows, StalePoint
from memforest_core.ports.models import CallRecord

_CLAIM = sa.text(
    """
    WITH behind AS (
        SELECT point_id FROM memforest.index_row
         WHERE tenant_id = :t AND kind = ANY(CAST(:kinds AS text[])) AND state = 'ready'
           AND available_at <= clock_timestamp()
         ORDER BY lane, available_at LIMIT :n FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE memforest.index_row i
       SET state = 'running', attempts = least(i.attempts + 1, 1000), lease_token = :token, worker_id = :worker,
           lease_until = clock_timestamp() + make_interval(secs => :lease)
      FROM behind WHERE i.tenant_id = :t AND i.point_id = behind.point_id
    RETURNING i.point_id, i.forest_id, i.kind, i.version, i.deleted
    """
)

_FINISH = sa.text(
    """
    UPDATE memforest.index_row i
       SET state = 'done', indexed_version = u.version, attempts = 0, lease_token = NULL, lease_until = NULL,
           worker_id = NULL, error_code = NULL, error_text = NULL
      FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS bigint[])) AS u(id, version)
     WHERE i.tenant_id = :t AND i.point_id = u.id AND i.lease_token = :token AND NOT i.deleted
    """
)

# In the order in which writers mark rows: by id.
_LOCK = sa.text(
    """
    SELECT point_id FROM memforest.index_row WHERE tenant_id = :t AND lease_token = :token
     ORDER BY point_id FOR UPDATE
    """
)

_FORGET = sa.text("DELETE FROM memforest.index_row WHERE tenant_id = :t AND lease_token = :token AND deleted")


def _seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None


class PostgresIndexRows(PostgresVectors):
    """IndexRows over one open transaction."""

    def claim_points(
        self, kinds: Sequence[PointKind], worker: WorkerId, limit: int, lease_s: float
    ) -> tuple[LeaseToken, list[StalePoint]]:
        token = LeaseToken(uuid4())
        rows = self._db.execute(
            _CLAIM,
            {
                "t": self._tenant,
                "kinds": [kind.value for kind in kinds],
                "n": limit,
                "token": token,
                "worker": worker,
                "lease": lease_s,
            },
        ).all()
        content: dict[UUID, StalePoint] = {}
        for kind, load in (
            (PointKind.CELL, self._cells),
            (PointKind.FACT, self._facts),
            (PointKind.NODE, self._nodes),
        ):
            wanted = {row.point_id: row for row in rows if row.kind == kind and not row.deleted}
            if wanted:
                content.update(load(wanted))
        return token, [
            content.get(row.point_id)
            or StalePoint(row.point_id, ForestId(row.forest_id), PointKind(row.kind), row.version, gone=True)
            for row in rows
        ]

    def _cells(self, wanted: Mapping[UUID, sa.Row[tuple[object, ...]]]) -> dict[UUID, StalePoint]:
        rows = self._db.execute(
            sa.select(m.Cell.cell_id, m.Cell.session_id, m.Cell.text, m.Cell.time_start, m.Cell.time_end).where(
                m.Cell.tenant_id == self._tenant, m.Cell.cell_id.in_(list(wanted))
            )
        )
        found = {}
        for row in rows:
            text = cell_text(row.text, row.time_start.astimezone(UTC))
            found[row.cell_id] = StalePoint(
                id=row.cell_id,
                forest_id=wanted[row.cell_id].forest_id,
                kind=PointKind.CELL,
                version=wanted[row.cell_id].version,
                gone=False,
                text=text,
                counts=count_terms(text),
                session_id=SessionId(row.session_id),
                time_start=_seconds(row.time_start),
                time_end=_seconds(row.time_end),
            )
        return found

    def _facts(self, wanted: Mapping[UUID, sa.Row[tuple[object, ...]]]) -> dict[UUID, StalePoint]:
        rows = self._db.execute(
            sa.select(
                m.FactRow.fact_id,
                m.FactRow.text,
                m.FactRow.statement["speaker"].astext.label("speaker"),
                m.FactRow.time_start,
                m.FactRow.time_end,
                m.FactRow.mentioned_at,
            ).where(m.FactRow.tenant_id == self._tenant, m.FactRow.fact_id.in_(list(wanted)))
        )
        found = {}
        for row in rows:
            mentioned = row.mentioned_at.astimezone(UTC)
            found[row.fact_id] = StalePoint(
                id=row.fact_id,
                forest_id=wanted[row.fact_id].forest_id,
                kind=PointKind.FACT,
                version=wanted[row.fact_id].version,
                gone=False,
                text=row.text,
                counts=count_terms(fact_terms_text(row.text, row.speaker, mentioned)),
                time_start=_seconds(row.time_start or mentioned),
                time_end=_seconds(row.time_end or mentioned),
            )
        return found

    def _nodes(self, wanted: Mapping[UUID, sa.Row[tuple[object, ...]]]) -> dict[UUID, StalePoint]:
        rows = self._db.execute(
            sa.select(
                m.NodeRow.node_id,
                m.NodeRow.tree_id,
                m.NodeRow.level,
                m.NodeRow.parent_id,
                m.NodeRow.time_start,
                m.NodeRow.time_end,
                m.NodeRow.leaf_count,
                m.NodeSummary.vector,
                m.NodeSummary.terms,
                m.Tree.kind,
                m.Tree.session_id,
            )
            .join(
                m.NodeSummary,
                sa.and_(
                    m.NodeSummary.tenant_id == self._tenant,
                    m.NodeSummary.node_id == m.NodeRow.node_id,
                ),
            )
            .join(
                m.Tree,
                sa.and_(m.Tree.tenant_id == self._tenant, m.Tree.tree_id == m.NodeRow.tree_id),
            )
            .where(m.NodeRow.tenant_id == self._tenant, m.NodeRow.node_id.in_(list(wanted)))
        )
        return {
            row.node_id: StalePoint(
                id=row.node_id,
                forest_id=wanted[row.node_id].forest_id,
                kind=PointKind.NODE,
                version=wanted[row.node_id].version,
                gone=False,
                vector=from_bytes(row.vector),
                counts=unpack_counts(row.terms),
                leaves=row.leaf_count,
                tree_id=TreeId(row.tree_id),
                tree_kind=row.kind,
                level=row.level,
                is_root=row.parent_id is None,
                session_id=SessionId(row.session_id) if row.session_id else None,
                time_start=row.time_start / 1e6 if row.time_start is not None else None,
                time_end=row.time_end / 1e6 if row.time_end is not None else None,
            )
            for row in rows
        }

    def finish_points(self, token: LeaseToken, versions: Mapping[UUID, int]) -> None:
        self._db.execute(_LOCK, {"t": self._tenant, "token": token})
        self._db.execute(_FORGET, {"t": self._tenant, "token": token})
        self._db.execute(
            _FINISH,
            {
                "t": self._tenant,
                "token": token,
                "ids": list(versions),
                "versions": list(versions.values()),
            },
        )

    def retry_points(self, token: LeaseToken, delay_s: float, code: str, text: str) -> None:
        self._db.execute(_LOCK, {"t": self._tenant, "token": token})
        self._db.execute(
            sa.update(m.IndexRow)
            .where(m.IndexRow.tenant_id == self._tenant, m.IndexRow.lease_token == token)
            .values(
                state="ready",
                lease_token=None,
                lease_until=None,
                worker_id=None,
                available_at=sa.func.clock_timestamp() + sa.func.make_interval(0, 0, 0, 0, 0, 0, delay_s),
                error_code=code,
                error_text=text,
            )
        )

    def record_calls(self, calls: Sequence[CallRecord], forest: ForestId | None, session: SessionId | None) -> None:
        record_calls(self._db, self._tenant, calls, forest, session)


class PostgresIndexStore:
    """IndexStore over an engine."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def indexing(self, tenant: TenantId) -> Iterator[IndexRows]:
        with tenant_transaction(self._engine, tenant) as connection:
            yield PostgresIndexRows(connection, tenant)
