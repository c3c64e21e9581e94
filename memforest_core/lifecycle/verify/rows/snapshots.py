"""Reads forests in one read-only snapshot each, and repairs what is derived: repairs check their rows again."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import sqlalchemy as sa
import sqlalchemy.orm

from memforest_core.domain.ids import ForestId, NodeId, TenantId, TreeId
from memforest_core.errors import InvariantViolated
from memforest_core.index.rows import want_indexed
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.rows import MAX_CHILD_CHARS
from memforest_core.ingest.refresh.summarizer import input_hash
from memforest_core.lifecycle.verify.records import Check, Found
from memforest_core.lifecycle.verify.rows.checks import (
    CELLS,
    CLEAN,
    DIRTY,
    HELD,
    LEASED,
    NODES_OF_TREES,
    PACKS,
    TREES,
    VIOLATIONS,
    F,
)
from memforest_core.store import tables as m
from memforest_core.store.copying import rows_below, stored_table
from memforest_core.store.engine import tenant_transaction, unhurried
from memforest_core.store.owners import lock_forests, visible
from memforest_core.store.packs import unpacked
from memforest_core.store.rows import FIRST, TenantRows
from memforest_core.store.trees import NEXT_VERSION, lock_nodes, lock_trees
from memforest_core.store.vectors import VectorRows

_IDS = "ANY(CAST(:ids AS uuid[]))"
_DUE = "marks = marks + 1, last_mark_at = now(), first_mark_at = coalesce(first_mark_at, now()), due_at = now()"

_PATHS = sa.text(f"""
    WITH RECURSIVE path AS (
        SELECT node_id, parent_id, tree_id, level FROM memforest.node
         WHERE tenant_id = :t AND node_id = {_IDS} AND level > 0
        UNION
        SELECT n.node_id, n.parent_id, n.tree_id, n.level FROM path CROSS JOIN LATERAL (
               SELECT * FROM memforest.node WHERE tenant_id = :t AND node_id = path.parent_id LIMIT 1) n)
    SELECT node_id, tree_id, level FROM path ORDER BY level
""")

_MARK_TREES = sa.text(f"""
    UPDATE memforest.tree SET {_DUE} WHERE tenant_id = :t AND tree_id = {_IDS}
""")

_SUMS = sa.text("""
    UPDATE memforest.node n
       SET leaf_count = coalesce(c.leaves, 0), time_start = c.first, time_end = c.last
      FROM unnest(CAST(:ids AS uuid[])) AS u(id)
     CROSS JOIN LATERAL (SELECT sum(k.leaf_count) AS leaves, min(k.time_start) AS first, max(k.time_end) AS last
                           FROM memforest.node k WHERE k.tenant_id = :t AND k.parent_id = u.id) c
     WHERE n.tenant_id = :t AND n.node_id = u.id
""")

_HEADS = sa.text(f"""
    UPDATE memforest.tree r SET leaf_count = n.leaves, height = n.height
      FROM (SELECT u.id, count(*) FILTER (WHERE k.level = 0) AS leaves, coalesce(max(k.level), 0) AS height
              FROM unnest(CAST(:ids AS uuid[])) AS u(id)
              LEFT JOIN memforest.node k ON k.tenant_id = :t AND k.tree_id = u.id GROUP BY u.id) n
     WHERE r.tenant_id = :t AND r.tree_id = n.id AND r.tree_id = {_IDS}
       AND (r.leaf_count, r.height) IS DISTINCT FROM (n.leaves, n.height)
""")

_SESSIONS = sa.text(f"""
    UPDATE memforest.session s SET turn_count = x.turns, cell_count = x.cells
      FROM (SELECT u.id,
                   (SELECT count(*) FROM memforest.turn k WHERE k.tenant_id = :t AND k.session_id = u.id) AS turns,
                   (SELECT coalesce(max(k.ordinal) + 1, 0) FROM memforest.cell k
                     WHERE k.tenant_id = :t AND k.session_id = u.id) AS cells
              FROM unnest(CAST(:ids AS uuid[])) AS u(id)) x
     WHERE s.tenant_id = :t AND s.session_id = x.id AND s.session_id = {_IDS}
       AND (s.turn_count, s.cell_count) IS DISTINCT FROM (x.turns, x.cells)
""")

_NO_LEASE = "lease_token = NULL, lease_until = NULL, worker_id = NULL"


def _free(table: str, key: str) -> sa.TextClause:
    """Make running rows without a whole lease ready again, and clear leases of rows that are not running."""
    running, ready = "state = 'running'", "state = CASE state WHEN 'running' THEN 'ready' ELSE state END,"
    if table == "node":
        running, ready = HELD.format("x"), ""
    return sa.text(f"""
        UPDATE memforest.{table} SET {ready} {_NO_LEASE}
         WHERE tenant_id = :t AND {key} IN (
            SELECT {key} FROM memforest.{table} x WHERE tenant_id = :t AND {key} = {_IDS}
               AND (({running} AND NOT {HELD.format("x")}) OR (NOT {running} AND {LEASED.format("x")}))
             ORDER BY {key} FOR NO KEY UPDATE)
    """)


# A cell whose window has gone ahead without it becomes a window of its own.
_OWN_WINDOW = sa.text(f"""
    UPDATE memforest.cell c SET window_ordinal = c.ordinal
     WHERE c.tenant_id = :t AND c.cell_id = {_IDS} AND c.state = 'ready' AND NOT EXISTS (
        SELECT 1 FROM memforest.cell h WHERE h.tenant_id = :t AND h.session_id = c.session_id
           AND h.ordinal = c.window_ordinal AND h.state IN ('ready', 'running'))
""")

_SET_DUE = sa.text(f"""
    UPDATE memforest.tree r SET {_DUE}
     WHERE r.tenant_id = :t AND r.tree_id = {_IDS} AND r.due_at IS NULL AND {DIRTY}
""")

_SETTLE = sa.text(f"""
    UPDATE memforest.tree r SET due_at = NULL, first_mark_at = NULL
     WHERE r.tenant_id = :t AND r.tree_id = {_IDS} AND r.due_at IS NOT NULL AND NOT {DIRTY}
""")

_ROWS = sa.text(f"""
    UPDATE memforest.index_row i
       SET deleted = :deleted, version = greatest(indexed_version + 1, {NEXT_VERSION}), state = 'ready', attempts = 0,
           available_at = clock_timestamp(), {_NO_LEASE}
     WHERE tenant_id = :t AND point_id = {_IDS}
""")

_OBJECTS = sa.text(f"""
    SELECT cell_id AS id, forest_id, 'cell' AS kind FROM memforest.cell WHERE tenant_id = :t AND cell_id = {_IDS}
    UNION ALL
    SELECT fact_id, forest_id, 'fact' FROM memforest.fact WHERE tenant_id = :t AND fact_id = {_IDS}
    UNION ALL
    SELECT n.node_id, r.forest_id, 'node' FROM memforest.node n
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
      JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
     WHERE n.tenant_id = :t AND n.node_id = {_IDS}
""")


_PLAIN: Mapping[Check, Sequence[sa.TextClause]] = {
    Check.WINDOWS: (_OWN_WINDOW,),
    Check.LEASES: (_free("cell", "cell_id"), _free("index_row", "point_id"), _free("node", "node_id")),
    Check.TASKS: (_free("maintenance", "task_id"),),
    Check.TREE_COUNTERS: (_HEADS,),
    Check.DUE_TREES: (_SET_DUE, _SETTLE),
    Check.SESSION_COUNTERS: (_SESSIONS,),
}
"""What single statements repair, once the rows are locked."""


class RepairRows(TenantRows):
    """Repairs of one transaction; what is right by now is left alone."""

    def repair(self, check: Check, found: Sequence[Found]) -> int:
        """Repair the rows of these violations, as far as they are derived; how many rows were changed."""
        ids = list(dict.fromkeys(each.id for each in found))
        match check:
            case Check.SUMMARIES | Check.DIRTY_PATHS:
                return self._mark_paths(self._lock_paths(ids))
            case Check.TREE_NODES:
                return self._recount_nodes(ids)
            case Check.TREE_COUNTERS | Check.DUE_TREES:
                self._lock_forests_of(m.Tree.tree_id, ids)
                lock_trees(self._db, self._tenant, [TreeId(tree) for tree in ids])
            case Check.SESSION_COUNTERS:
                self._lock(m.Session.session_id, ids)
            case Check.SESSION_WINDOWS:
                # Windows are rebuilt; items that recall finds can be put in once more.
                self._lock_forests_of(m.Session.session_id, ids)
                return self._delete(m.SessionWindow.session_id, ids) + self._delete(m.WindowItem.session_id, ids)
            case Check.CALENDAR:
                self._lock_forests_of(m.Forest.forest_id, ids)
                return self._delete(m.CalendarDigest.forest_id, ids)
            case Check.INDEX_ROWS:
                return self._renew_rows(ids)
            case Check.UNINDEXED:
                return self._add_rows(ids)
            case Check.ORPHAN_VECTORS:
                vectors = VectorRows(self._db, self._tenant)
                return sum(vectors.drop_orphans(ForestId(forest)) for forest in ids)
        return sum(self._change(statement, ids) for statement in _PLAIN.get(check, ()))

    def _change(self, statement: sa.TextClause, ids: Sequence[UUID], **values: Any) -> int:
        return self._run(statement, ids=list(ids), **values).rowcount

    def _lock(self, key: sa.orm.InstrumentedAttribute[UUID], ids: Sequence[UUID]) -> None:
        """Lock the rows with these keys, in the order of ids."""
        mine = (key.class_.tenant_id == self._tenant, key.in_(ids))
        self._db.execute(sa.select(key).where(*mine).order_by(key).with_for_update(key_share=True))

    def _lock_forests_of(self, key: sa.orm.InstrumentedAttribute[UUID], ids: Sequence[UUID]) -> None:
        """Become the only writer of the forests of the rows with these keys."""
        table = key.class_
        forests = self._select(table.forest_id).where(key.in_(ids)).distinct()
        lock_forests(self._db, self._tenant, [ForestId(forest) for forest in self._db.scalars(forests)])

    def _lock_paths(self, nodes: Sequence[UUID]) -> Sequence[sa.Row[Any]]:
        """The nodes and all above them, the lowest first, under their forests' locks."""
        trees = self._db.scalars(self._select(m.NodeRow.tree_id).distinct().where(m.NodeRow.node_id.in_(nodes))).all()
        self._lock_forests_of(m.Tree.tree_id, trees)
        # Read under the lock: a split may have moved them.
        paths = self._run(_PATHS, ids=list(nodes)).all()
        lock_nodes(self._db, self._tenant, [NodeId(row.node_id) for row in paths])
        return paths

    def _mark_paths(self, paths: Sequence[sa.Row[Any]]) -> int:
        """Have refresh recompute the summaries of these nodes: their versions rise, and their trees are due."""
        node = m.NodeRow
        own = [node.tenant_id == self._tenant, node.node_id.in_([row.node_id for row in paths])]
        marked = self._db.execute(sa.update(node).where(*own).values(version=node.version + 1)).rowcount
        trees = sorted({row.tree_id for row in paths}, key=str)
        lock_trees(self._db, self._tenant, [TreeId(tree) for tree in trees])
        self._change(_MARK_TREES, trees)
        return marked

    def _recount_nodes(self, nodes: Sequence[UUID]) -> int:
        paths = self._lock_paths(nodes)
        for level in sorted({row.level for row in paths}):
            self._change(_SUMS, [row.node_id for row in paths if row.level == level])
        return self._mark_paths(paths)

    def _renew_rows(self, points: Sequence[UUID]) -> int:
        """Make rows stale: those of what exists to be written, the others to be deleted."""
        self._lock(m.IndexRow.point_id, points)
        living = {row.id for row in self._run(_OBJECTS, ids=list(points))}
        gone = [point for point in points if point not in living]
        return self._change(_ROWS, sorted(living, key=str), deleted=False) + self._change(_ROWS, gone, deleted=True)

    def _add_rows(self, points: Sequence[UUID]) -> int:
        rows = self._run(_OBJECTS, ids=list(points)).all()
        for kind, forest in sorted({(row.kind, row.forest_id) for row in rows}, key=str):
            ids = [row.id for row in rows if (row.kind, row.forest_id) == (kind, forest)]
            want_indexed(self._db, self._tenant, forest, kind, ids, lane=1)
        return len(rows)


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
        self._values: dict[str, Any] = {"t": tenant, "f": list(forests)}

    @classmethod
    @contextmanager
    def opened(cls, engine: sa.Engine, tenant: TenantId, forests: Sequence[ForestId]) -> Iterator[SnapshotRows]:
        """One read-only view of these forests, at one moment; without forests, of what belongs to none."""
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with tenant_transaction(engine, tenant, **options) as connection:
            unhurried(connection)
            for setting in _SNAPSHOT_SETTINGS:
                connection.execute(sa.text(f"SET LOCAL {setting}"))
            yield cls(connection, tenant, forests)

    def checked(self, check: Check) -> int:
        """How many rows a check concerns."""
        table, tenant, forests = stored_table(check.table), self._values["t"], self._values["f"]
        below = rows_below(check.table, tenant, "forest", forests) if forests else None
        own = [table.c.tenant_id == tenant, *([] if below is None else [below])]
        return int(self._db.scalar(sa.select(sa.func.count()).select_from(table).where(*own)) or 0)

    def violations(self, check: Check) -> Iterator[Found]:
        """The violations of a check that rows alone decide; an item may break a promise in several ways."""
        if check is Check.PACKS:
            return filter(None, map(broken_pack, self._streamed(sa.text(PACKS))))
        return (Found(row.id, row.what) for row in self._streamed(sa.text(VIOLATIONS[check])))

    def stale_summaries(self, budget: int) -> Iterator[Found]:
        """The clean nodes whose summaries are not what refresh would have left; ``budget`` as in ``stale``."""
        return filter(None, (stale(node, budget) for node in self._streamed(_SUMMARIES)))

    def dead(self) -> Mapping[str, int]:
        """How many cells, nodes and index rows were given up."""
        return {row.kind: row.items for row in self._db.execute(_DEAD, self._values)}

    def _streamed(self, statement: sa.TextClause) -> Iterator[sa.Row[*tuple[Any, ...]]]:
        streaming = {"stream_results": True, "max_row_buffer": FETCHED}
        with self._db.execute(statement, self._values, execution_options=streaming) as rows:
            for page in rows.partitions(FETCHED):
                yield from page


def next_forests(engine: sa.Engine, tenant: TenantId, after: ForestId | None, limit: int) -> Sequence[ForestId]:
    """The next forests in the order of ids."""
    own = (m.Forest.tenant_id == tenant, m.Forest.forest_id > (after or FIRST), visible())
    with tenant_transaction(engine, tenant) as connection:
        found = connection.scalars(sa.select(m.Forest.forest_id).where(*own).order_by(m.Forest.forest_id).limit(limit))
        return [ForestId(row) for row in found]


def broken_pack(row: sa.Row[Any]) -> Found | None:
    """How a pack is not what its turns need; None when it is. A row of ``PACKS``; its cells say how long a turn is."""
    if row.texts is None or row.turn_keys is None:
        return Found(row.id, "no_pack" if row.texts is None else "no_turn")
    try:
        texts = sorted(unpacked(row.texts), key=lambda text: (str(text[0]), text[1]))
    except InvariantViolated:
        return Found(row.id, "unreadable")
    if [f"({session},{ordinal})" for session, ordinal, _ in texts] != row.turn_keys or len(texts) != row.turns:
        return Found(row.id, "turns")
    sizes = [(len(text), chars) for (_, _, text), chars in zip(texts, row.chars, strict=True)]
    whole = sum(len(text.encode()) for _, _, text in texts) == row.text_bytes
    return None if whole and all(chars in (None, size) for size, chars in sizes) else Found(row.id, "text")


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
