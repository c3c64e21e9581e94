"""Looking inside, in Postgres: counts and trees for people, off the hot paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, NodeId, TenantId, TreeId
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.times import from_micros
from memforest_core.observe.records import ModelCalls, Totals, TreeNode, TreeOverview, Trouble, WorkerSeen
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import forest_id
from memforest_core.store.schema import current_revision, head_revision

_WORKERS = sa.text(
    """
    SELECT name, queues, started_at,
           extract(epoch FROM clock_timestamp() - heartbeat_at)::float8 AS silent_s
      FROM memforest.worker ORDER BY started_at, worker_id
    """
)

# One forest, or with :f null the whole tenant.
_MINE = "tenant_id = :t AND (CAST(:f AS uuid) IS NULL OR forest_id = :f)"

_CELLS = sa.text(
    f"""
    SELECT CASE WHEN state <> 'done' THEN state WHEN placed THEN 'placed' ELSE 'extracted' END AS state,
           count(*) AS n, count(*) FILTER (WHERE outcome = 'verbatim') AS verbatim
      FROM memforest.cell WHERE {_MINE} GROUP BY 1
    """  # noqa: S608 - constants of this module
)

_POINTS = sa.text(
    f"""
    SELECT state, count(*) AS n, count(*) FILTER (WHERE kind = 'cell' AND indexed_version > 0) AS cells
      FROM memforest.index_row WHERE {_MINE} GROUP BY 1
    """  # noqa: S608 - constants of this module
)

_COUNTS = sa.text(
    f"""
    SELECT (SELECT count(*) FROM memforest.session WHERE {_MINE}) AS sessions,
           (SELECT coalesce(sum(turn_count), 0) FROM memforest.session WHERE {_MINE}) AS turns,
           (SELECT count(*) FROM memforest.fact WHERE {_MINE}) AS facts,
           (SELECT count(*) FROM memforest.tree WHERE {_MINE} AND state = 'active') AS trees,
           (SELECT count(*) FROM memforest.tree WHERE {_MINE} AND due_at IS NOT NULL) AS dirty_trees,
           (SELECT count(*) FROM memforest.tree WHERE {_MINE} AND due_at <= clock_timestamp()) AS due_trees,
           (SELECT count(*) FROM memforest.node n JOIN memforest.tree r USING (tenant_id, tree_id)
             WHERE n.tenant_id = :t AND n.version > n.clean_version
               AND (CAST(:f AS uuid) IS NULL OR r.forest_id = :f)) AS dirty_nodes
    """  # noqa: S608 - constants of this module
)

_TROUBLES = sa.text(
    f"""
    SELECT kind, state, code, max(reason) AS reason, count(*) AS n FROM (
        SELECT 'cell' AS kind, CASE state WHEN 'dead' THEN state ELSE 'waiting' END AS state,
               coalesce(error_code, '') AS code, error_text AS reason
          FROM memforest.cell
         WHERE {_MINE} AND (state = 'dead' OR (state = 'ready' AND error_code IS NOT NULL))
        UNION ALL
        SELECT 'index row', CASE state WHEN 'dead' THEN state ELSE 'waiting' END, coalesce(error_code, ''), error_text
          FROM memforest.index_row
         WHERE {_MINE} AND (state = 'dead' OR (state = 'ready' AND error_code IS NOT NULL))) w
     GROUP BY kind, state, code ORDER BY n DESC, kind, state, code
    """  # noqa: S608 - constants of this module
)

_CALLS = sa.text(
    f"""
    SELECT step, model, count(*) AS calls, count(*) FILTER (WHERE outcome <> 'ok') AS failed,
           sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
           sum(cached_tokens) AS cached_tokens, sum(cost_usd) AS cost_usd,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ms) AS latency_p50_ms,
           sum(latency_ms) AS latency_total_ms
      FROM memforest.llm_call WHERE {_MINE} GROUP BY step, model ORDER BY step, model
    """  # noqa: S608 - constants of this module
)

_TREES = sa.text(
    """
    SELECT r.tree_id, r.kind, r.label, r.scope_key, r.k, r.leaf_count, r.height, r.due_at, n.time_start, n.time_end,
           (SELECT count(*) FROM memforest.node d
             WHERE d.tenant_id = :t AND d.tree_id = r.tree_id AND d.version > d.clean_version) AS dirty_nodes
      FROM memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.node_id = r.root_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state = 'active'
     ORDER BY r.kind, n.time_start NULLS LAST, r.label, r.tree_id
    """
)

_NODES = sa.text(
    """
    SELECT n.node_id, n.parent_id, n.level, n.time_start, n.time_end, n.leaf_count,
           n.version > n.clean_version AS dirty, coalesce(s.text, f.text, c.text, '') AS text,
           CASE WHEN f.fact_id IS NOT NULL THEN 'fact' WHEN c.cell_id IS NOT NULL THEN 'cell'
                ELSE coalesce(s.source, '') END AS source,
           coalesce(e.external_id, '') AS session_id
      FROM memforest.node n
      LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
      LEFT JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = n.payload_id
      LEFT JOIN memforest.session e ON e.tenant_id = :t AND e.session_id = c.session_id
      LEFT JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = n.payload_id
     WHERE n.tenant_id = :t AND n.tree_id = :tree AND n.level >= :lowest
     ORDER BY n.level DESC, n.key_time, n.key_ordinal, n.key_item, n.key_id
    """
)


def _moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)


class InspectRows:
    """Reads of one transaction of a tenant."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant

    def revision(self) -> str | None:
        """The schema's revision."""
        return current_revision(self._db)

    def workers(self, dead_after_s: float) -> list[WorkerSeen]:
        """Enlisted workers, oldest first; silent for longer than ``dead_after_s`` they are not alive."""
        return [
            WorkerSeen(
                name=row.name,
                queues=tuple(row.queues),
                started_at=row.started_at,
                silent_s=row.silent_s,
                alive=row.silent_s <= dead_after_s,
            )
            for row in self._db.execute(_WORKERS)
        ]

    def forest(self, owner: str) -> ForestId | None:
        """The owner's forest."""
        return forest_id(self._db, self._tenant, owner)

    def forests(self) -> int:
        """How many forests the tenant has."""
        count = self._db.scalar(
            sa.text("SELECT count(*) FROM memforest.forest WHERE tenant_id = :t AND state IN ('live', 'frozen')"),
            {"t": self._tenant},
        )
        return int(count or 0)

    def totals(self, forest: ForestId | None) -> Totals:
        """Totals of one forest, or of the whole tenant."""
        scope = self._scope(forest)
        cells = self._db.execute(_CELLS, scope).all()
        points = self._db.execute(_POINTS, scope).all()
        counts = self._db.execute(_COUNTS, scope).one()
        return Totals(
            sessions=counts.sessions,
            turns=int(counts.turns),
            facts=counts.facts,
            cells={row.state: row.n for row in cells},
            verbatim_cells=sum(row.verbatim for row in cells),
            indexed_cells=sum(row.cells for row in points),
            index_rows={row.state: row.n for row in points},
            trees=counts.trees,
            dirty_trees=counts.dirty_trees,
            due_trees=counts.due_trees,
            dirty_nodes=counts.dirty_nodes,
        )

    def troubles(self, forest: ForestId | None) -> list[Trouble]:
        """What failed and why, the most frequent first."""
        return [
            Trouble(row.kind, row.state, row.code, row.reason or "", row.n)
            for row in self._db.execute(_TROUBLES, self._scope(forest))
        ]

    def model_calls(self, forest: ForestId | None) -> list[ModelCalls]:
        """Model calls by step and model."""
        return [
            ModelCalls(
                step=row.step,
                model=row.model,
                calls=row.calls,
                failed=row.failed,
                prompt_tokens=int(row.prompt_tokens),
                completion_tokens=int(row.completion_tokens),
                cached_tokens=int(row.cached_tokens),
                cost_usd=float(row.cost_usd),
                latency_p50_ms=float(row.latency_p50_ms),
                latency_total_ms=float(row.latency_total_ms),
            )
            for row in self._db.execute(_CALLS, self._scope(forest))
        ]

    def trees(self, forest: ForestId) -> list[TreeOverview]:
        """Active trees, by kind, then by time."""
        return [
            TreeOverview(
                id=TreeId(row.tree_id),
                kind=TreeKind(row.kind),
                label=row.label,
                scope_key=row.scope_key,
                k=row.k,
                leaves=row.leaf_count,
                height=row.height,
                start=_moment(row.time_start),
                end=_moment(row.time_end),
                dirty_nodes=row.dirty_nodes,
                due_at=row.due_at,
            )
            for row in self._db.execute(_TREES, self._scope(forest))
        ]

    def nodes(self, tree: TreeId, lowest_level: int) -> Sequence[TreeNode]:
        """A tree's nodes from ``lowest_level`` up: higher levels first, each level in key order."""
        values = {"t": self._tenant, "tree": tree, "lowest": lowest_level}
        return [
            TreeNode(
                id=NodeId(row.node_id),
                parent_id=NodeId(row.parent_id) if row.parent_id else None,
                level=row.level,
                start=_moment(row.time_start),
                end=_moment(row.time_end),
                leaves=row.leaf_count,
                dirty=row.dirty,
                text=row.text,
                source=row.source,
                session_id=row.session_id,
            )
            for row in self._db.execute(_NODES, values)
        ]

    def _scope(self, forest: ForestId | None) -> Mapping[str, object]:
        return {"t": self._tenant, "f": forest}


class InspectStore:
    """Opens inspecting transactions."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def inspecting(self, tenant: TenantId) -> Iterator[InspectRows]:
        """One transaction of a tenant."""
        with tenant_transaction(self._engine, tenant) as connection:
            yield InspectRows(connection, tenant)

    def head_revision(self) -> str:
        """The schema revision that this version needs."""
        return head_revision()
