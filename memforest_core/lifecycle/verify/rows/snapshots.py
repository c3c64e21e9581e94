"""Reads forests in one read-only snapshot each, streamed through cursors of the server."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.rows import MAX_CHILD_CHARS
from memforest_core.ingest.refresh.summarizer import input_hash
from memforest_core.lifecycle.verify.records import Check, Found
from memforest_core.lifecycle.verify.rows.checks import CELLS, CLEAN, COUNTS, NODES_OF_TREES, TREES, VIOLATIONS, F
from memforest_core.lifecycle.verify.rows.repairs import REPAIRER, RepairRows
from memforest_core.store import tables as m
from memforest_core.store.engine import tenant_transaction, unhurried
from memforest_core.store.owners import visible
from memforest_core.store.rows import FIRST

FETCHED = 500
"""Rows that a cursor brings at once."""

DEGRADED_PREFIX = b"degraded:"
"""Refresh stores a stand-in under another key, so that the model's own summary is not taken for made."""

# Whole forests are read, and between two pages the reader may be busy with the page before. Every cursor is read
# to its end, and what has just been imported has no statistics: a nested loop over all of a tenant would never end.
_SNAPSHOT_SETTINGS = ("cursor_tuple_fraction = 1", "enable_material = off")

_DEAD = sa.text(f"""
    SELECT 'cells' AS kind, count(*) AS items FROM memforest.cell c WHERE {CELLS} AND c.state = 'dead'
    UNION ALL
    SELECT 'nodes', count(*) FROM {NODES_OF_TREES} WHERE {TREES} AND n.dead
    UNION ALL
    SELECT 'index_rows', count(*) FROM memforest.index_row i
     WHERE i.tenant_id = :t AND i.{F} AND i.state = 'dead'
""")

# Children as refresh reads them: a leaf's text is its payload's, a node's its summary's; who has none is left out, and
# so is what was corrected.
_SUMMARIES = sa.text(f"""
    SELECT n.node_id, n.version, s.version AS stored_version, s.source AS stored_source, s.model AS stored_model,
           s.input_hash AS stored_hash,
           CASE WHEN s.source IN ('joined', 'passed') THEN s.text END AS stored_text,
           coalesce(kids.texts, '{{}}') AS children, kids.in_flight
      FROM {NODES_OF_TREES}
      LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
     CROSS JOIN LATERAL (
        SELECT array_agg(kid.text ORDER BY kid.key_time, kid.key_ordinal, kid.key_item, kid.key_id)
                   FILTER (WHERE kid.text IS NOT NULL) AS texts,
               coalesce(bool_or(kid.unplaced), false) AS in_flight
          FROM (SELECT k.key_time, k.key_ordinal, k.key_item, k.key_id,
                       CASE WHEN k.payload_id IS NULL THEN ks.text
                            ELSE left(coalesce(nullif(c.summary, ''), c.text, x.text), {MAX_CHILD_CHARS}) END AS text,
                       NOT c.placed AS unplaced
                  FROM memforest.node k
                  LEFT JOIN memforest.node_summary ks ON ks.tenant_id = :t AND ks.node_id = k.node_id
                  LEFT JOIN memforest.cell c ON r.kind = 'session' AND c.tenant_id = :t AND c.cell_id = k.payload_id
                  LEFT JOIN memforest.fact x ON r.kind <> 'session' AND x.tenant_id = :t AND x.fact_id = k.payload_id
                       AND x.superseded_at IS NULL
                 WHERE k.tenant_id = :t AND k.parent_id = n.node_id) kid) kids
     WHERE {TREES} AND {CLEAN}
""")


class SnapshotRows:
    """Rows of one forest or several, all as they were at one moment. Everything streams."""

    def __init__(self, connection: sa.Connection, tenant: TenantId, forests: Sequence[ForestId]) -> None:
        self._db = connection
        self._values = {"t": tenant, "f": list(forests)}

    def checked(self, check: Check) -> int:
        return int(self._db.scalar(sa.text(COUNTS[check]), self._values) or 0)

    def violations(self, check: Check) -> Iterator[Found]:
        """The violations of a check that rows alone decide; an item may break a promise in several ways."""
        for page in self._streamed(sa.text(VIOLATIONS[check])):
            for row in page:
                yield Found(row.id, row.what)

    def stale_summaries(self, budget: int) -> Iterator[Found]:
        """The clean nodes whose summaries are not what refresh would have left; ``budget`` as in ``stale``."""
        for page in self._streamed(_SUMMARIES):
            for node in page:
                if (found := stale(node, budget)) is not None:
                    yield found

    def dead(self) -> Mapping[str, int]:
        """How many cells, nodes and index rows were given up."""
        return {row.kind: row.items for row in self._db.execute(_DEAD, self._values)}

    def _streamed(self, statement: sa.TextClause) -> Iterator[Sequence[sa.Row[*tuple[Any, ...]]]]:
        streaming = {"stream_results": True, "max_row_buffer": FETCHED}
        with self._db.execute(statement, self._values, execution_options=streaming) as rows:
            yield from rows.partitions(FETCHED)


class VerifyStore:
    """Opens snapshots and repairs."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def tenants(self) -> Sequence[TenantId]:
        return CollectionStore(self._engine).tenants()

    def forests(self, tenant: TenantId, after: ForestId | None, limit: int) -> Sequence[ForestId]:
        """The next forests in the order of ids."""
        with tenant_transaction(self._engine, tenant) as connection:
            found = connection.scalars(
                sa.select(m.Forest.forest_id)
                .where(m.Forest.tenant_id == tenant, m.Forest.forest_id > (after or FIRST), visible())
                .order_by(m.Forest.forest_id)
                .limit(limit)
            )
            return [ForestId(row) for row in found]

    @contextmanager
    def snapshot(self, tenant: TenantId, forests: Sequence[ForestId]) -> Iterator[SnapshotRows]:
        """One read-only view of these forests, at one moment; without forests, of what belongs to none."""
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with tenant_transaction(self._engine, tenant, **options) as connection:
            unhurried(connection)
            for setting in _SNAPSHOT_SETTINGS:
                connection.execute(sa.text(f"SET LOCAL {setting}"))
            yield SnapshotRows(connection, tenant, forests)

    def completing(self, tenant: TenantId) -> bool:
        """Whether deletions that a repair completes are under way."""
        task = m.OperationRow
        own = (task.tenant_id == tenant, task.kind == OperationKind.ERASE.value, task.actor == REPAIRER)
        with tenant_transaction(self._engine, tenant) as connection:
            going = sa.exists().where(*own, task.state.in_(("ready", "running")))
            return bool(connection.scalar(sa.select(going)))

    @contextmanager
    def repairing(self, tenant: TenantId) -> Iterator[RepairRows]:
        with RepairRows.opened(self._engine, tenant) as rows:
            yield rows


def stale(node: sa.Row[Any], budget: int) -> Found | None:
    """How the summary of a clean node is not what refresh would have left; None when it is.

    A node is a row of ``_SUMMARIES``: the summary it has (``stored_``, None when it has none), and its children's texts
    now, in key order. ``in_flight`` says that a child's text has changed and its way into the tree has not been walked
    yet. ``budget`` is the length of a summary in characters, which is part of its key.
    """
    if node.stored_version is None:
        return Found(node.node_id, "missing")
    if node.stored_version != node.version:
        return Found(node.node_id, "version")
    if node.in_flight:
        return None
    key = input_hash(node.stored_model or "", budget, node.children)
    if node.stored_source == SummarySource.DEGRADED:
        key = DEGRADED_PREFIX + key
    if node.stored_hash != key:
        return Found(node.node_id, "inputs")
    # These texts follow from the children alone.
    texts = [text for text in node.children if text]
    made = {SummarySource.PASSED: texts[0] if texts else "", SummarySource.JOINED: "\n".join(texts)}
    if node.stored_source in made and made[node.stored_source] != node.stored_text:
        return Found(node.node_id, "text")
    return None
