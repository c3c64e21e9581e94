"""Trees in Postgres: reads touched paths and writes diffs, in a constant number of statements for any batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import NodeId, PayloadId, TenantId, TreeId
from memforest_core.memtree import Diff, Key, Node, TreeHead
from memforest_core.models.calls import Vectors
from memforest_core.store import tables as m
from memforest_core.store.copying import adding, blanks, change_rows, changing, columns_of, given_to
from memforest_core.store.rows import TenantRows, among
from memforest_core.store.vectors import to_bytes

LOWEST = Key(-(2**63), -(2**31), -(2**31), "")
"""How the leftmost node's missing separator is stored: below every key."""


@dataclass(frozen=True, slots=True)
class SceneSpan:
    """What routing compares with a scene: the sum of its facts' routing vectors, and where it lies in time."""

    centroid: Vectors
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class TreeChange:
    """What a batch does to one tree."""

    diff: Diff
    span: SceneSpan | None = None
    """Of a scene whose span changes."""
    placed: bool = False
    """Whether its scope may have placements: they end, because leaves say what a tree has."""

    @property
    def head(self) -> TreeHead:
        """The tree after the change."""
        return self.diff.head


_CHANGING = ("parent_id", "level", "time_start", "time_end", "leaf_count", "version")
"""Columns that a diff changes, besides the key. Refresh writes ``clean_version``, without the forest's lock."""
_COLUMNS = ", ".join(
    (*_CHANGING, "node_id", "tree_id", "key_time", "key_ordinal", "key_item", "key_id", "clean_version", "payload_id")
)

MEMBERS = """(SELECT tenant_id, tree_id, payload_id FROM memforest.node WHERE tenant_id = :t AND level = 0
           UNION ALL SELECT tenant_id, tree_id, payload_id FROM memforest.placement WHERE tenant_id = :t)"""
"""What scopes have: the payloads of trees' leaves, and the facts of scopes without a tree. A join with it reads
every node, because row security makes the union one piece: ``members`` is for that."""
SCOPES_OF = sa.text(f"""
    SELECT DISTINCT p.tree_id FROM {MEMBERS} p WHERE p.payload_id = ANY(CAST(:ids AS uuid[]))
    """)  # noqa: S608 - a constant of this package


def members(condition: str) -> str:
    """Those members ``q`` that a condition binds to rows joined before: LATERAL, an index probe for each row."""
    return f"LATERAL (SELECT q.* FROM {MEMBERS} q WHERE {condition} OFFSET 0)"  # noqa: S608 - constants


# For each wanted key the level-1 node it descends to: one index probe each, whatever the tree's size.
_SEEK = sa.text("""
    SELECT DISTINCT n.node_id
      FROM unnest(CAST(:tree_id AS uuid[]), CAST(:key_time AS bigint[]), CAST(:key_ordinal AS int[]),
                  CAST(:key_item AS int[]), CAST(:key_id AS text[])) AS w(tree, kt, ko, ki, kid)
     CROSS JOIN LATERAL (
        SELECT node_id FROM memforest.node
         WHERE tenant_id = :t AND tree_id = w.tree AND level = 1
           AND (key_time, key_ordinal, key_item, key_id) <= (w.kt, w.ko, w.ki, w.kid COLLATE "C")
         ORDER BY key_time DESC, key_ordinal DESC, key_item DESC, key_id DESC LIMIT 1) n
    """)

_ANCESTORS = sa.text(f"""
    WITH RECURSIVE path AS (
        SELECT {_COLUMNS} FROM memforest.node
         WHERE tenant_id = :t AND node_id = ANY(CAST(:ids AS uuid[]))
        UNION
        SELECT {", ".join(f"n.{name}" for name in _COLUMNS.split(", "))}
          FROM path CROSS JOIN LATERAL (
               SELECT * FROM memforest.node WHERE tenant_id = :t AND node_id = path.parent_id LIMIT 1) n)
    SELECT * FROM path
    """)  # noqa: S608 - column names are constants of this module

_CHILDREN = sa.text(
    f"SELECT {_COLUMNS} FROM memforest.node"  # noqa: S608 - constants of this module
    " WHERE tenant_id = :t AND parent_id = ANY(CAST(:ids AS uuid[]))"
)

# The nodes right before and right after each of these on their level, under any parent: two index probes each.
_NEIGHBOURS = sa.text("""
    SELECT DISTINCT b.node_id
      FROM memforest.node n
     CROSS JOIN LATERAL (
       (SELECT l.node_id FROM memforest.node l
         WHERE l.tenant_id = :t AND l.tree_id = n.tree_id AND l.level = n.level
           AND (l.key_time, l.key_ordinal, l.key_item, l.key_id) < (n.key_time, n.key_ordinal, n.key_item, n.key_id)
         ORDER BY l.key_time DESC, l.key_ordinal DESC, l.key_item DESC, l.key_id DESC LIMIT 1)
        UNION ALL
       (SELECT r.node_id FROM memforest.node r
         WHERE r.tenant_id = :t AND r.tree_id = n.tree_id AND r.level = n.level
           AND (r.key_time, r.key_ordinal, r.key_item, r.key_id) > (n.key_time, n.key_ordinal, n.key_item, n.key_id)
         ORDER BY r.key_time, r.key_ordinal, r.key_item, r.key_id LIMIT 1)) b
     WHERE n.tenant_id = :t AND n.node_id = ANY(CAST(:ids AS uuid[]))
    """)

# A summary whose children were read before the removal may quote deleted words: it is not saved any more.
_ERASE = sa.text("""
    UPDATE memforest.node SET erased_version = greatest(erased_version, version - 1)
     WHERE tenant_id = :t AND node_id = ANY(CAST(:ids AS uuid[]))
    """)

NEXT_VERSION = "greatest(i.version + 1, nextval('memforest.point_version'))"
"""The version after that of an index row ``i``: newer than what any point of any row ever had."""

# An indexer that is writing the point now holds its lease: at its end it finds the tombstone and deletes the point.
BURY = f"""
    UPDATE memforest.index_row i
       SET deleted = true, erased_version = i.version, version = {NEXT_VERSION}, attempts = 0,
           state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END, available_at = clock_timestamp()
     WHERE i.tenant_id = :t AND """  # noqa: S608 - a constant
"""The statement that leaves tombstones of points, as SQL up to the condition that names them."""
_BURY_POINTS = sa.text(f"{BURY} i.point_id = ANY(CAST(:ids AS uuid[]))")

_END_PLACEMENTS = sa.text(
    "DELETE FROM memforest.placement WHERE tenant_id = :t AND tree_id = ANY(CAST(:ids AS uuid[]))"
)

_DELETE = sa.text("DELETE FROM memforest.node WHERE tenant_id = :t AND node_id = ANY(CAST(:ids AS uuid[]))")

_HEADS = sa.text("""
    UPDATE memforest.tree r
       SET state = 'active', root_id = u.root, height = u.height, leaf_count = u.leaves, marks = r.marks + 1,
           last_mark_at = now(), first_mark_at = coalesce(r.first_mark_at, now()),
           due_at = least(now() + make_interval(secs => u.quiet),
                          coalesce(r.first_mark_at, now()) + make_interval(secs => :stale)),
           centroid = coalesce(u.centroid, r.centroid), time_start = coalesce(u.first, r.time_start),
           time_end = coalesce(u.last, r.time_end)
      FROM unnest(CAST(:trees AS uuid[]), CAST(:roots AS uuid[]), CAST(:heights AS smallint[]), CAST(:leaves AS int[]),
                  CAST(:centroids AS bytea[]), CAST(:starts AS timestamptz[]), CAST(:ends AS timestamptz[]),
                  CAST(:quiet AS float8[]))
           AS u(tree, root, height, leaves, centroid, first, last, quiet)
     WHERE r.tenant_id = :t AND r.tree_id = u.tree
    """)

WITHOUT_WORDS = ", ".join(f'"{column}" = {blank}' for column, blank in blanks("tree").items())

WITHOUT_TREE = sa.text(f"""
    UPDATE memforest.tree r
       SET state = CASE WHEN r.kind = 'scene' AND NOT EXISTS (
                   SELECT 1 FROM memforest.turn_topic w WHERE w.tenant_id = :t AND w.tree_id = r.tree_id)
                   THEN 'merged' ELSE 'candidate' END, root_id = NULL,
           height = 0, leaf_count = 0, due_at = NULL, first_mark_at = NULL, marks = marks + 1, cold_at = NULL,
           {WITHOUT_WORDS}
     WHERE tenant_id = :t AND tree_id = ANY(CAST(:trees AS uuid[]))
    """)  # noqa: S608 - columns of the tables

# Routing prefers scenes that are near in time: a scene spans what it contains. A title may quote a fact that went.
_SPANS = sa.text("""
    UPDATE memforest.tree r
       SET title = NULL, title_size = NULL, title_source = NULL,
           time_start = timestamptz 'epoch' + n.time_start * interval '1 microsecond',
           time_end = timestamptz 'epoch' + n.time_end * interval '1 microsecond'
      FROM memforest.node n
     WHERE r.tenant_id = :t AND r.tree_id = ANY(CAST(:trees AS uuid[])) AND r.kind = 'scene'
       AND n.tenant_id = :t AND n.node_id = r.root_id AND n.time_start IS NOT NULL AND n.time_end IS NOT NULL
    """)


@cache
def _locking(kind: type[m.NodeRow] | type[m.Tree], key: str, wait: bool) -> sa.Select[Any]:
    column = getattr(kind, key)
    return (
        sa.select(column)
        .where(kind.tenant_id == sa.bindparam("t"), column == sa.any_(sa.bindparam("ids", type_=sa.ARRAY(sa.Uuid))))
        .order_by(column)
        .with_for_update(key_share=True, skip_locked=not wait)
    )


def lock_nodes(connection: sa.Connection, tenant: TenantId, ids: Sequence[NodeId]) -> None:
    """Lock node rows in the order of ids: refresh saves nodes without the forest's lock, and an UPDATE alone visits
    rows in the order of its plan."""
    connection.execute(_locking(m.NodeRow, "node_id", True), {"t": tenant, "ids": list(ids)})


def lock_trees(
    connection: sa.Connection, tenant: TenantId, ids: Sequence[TreeId], *, wait: bool = True
) -> frozenset[TreeId]:
    """Lock tree rows in the order of ids; which were locked: without ``wait`` those that were free."""
    locked = connection.scalars(_locking(m.Tree, "tree_id", wait), {"t": tenant, "ids": list(ids)})
    return frozenset(TreeId(tree) for tree in locked.all())


def set_centroids(connection: sa.Connection, tenant: TenantId, totals: Mapping[TreeId, Vectors]) -> None:
    """Set what routing compares with scenes: the sums of their facts' routing vectors."""
    if totals:
        lock_trees(connection, tenant, list(totals))
        new = {"centroid": [to_bytes(total) for total in totals.values()]}
        connection.execute(change_rows("tree", tenant, {"tree_id": totals}, new))


def set_spans(connection: sa.Connection, tenant: TenantId, spans: Mapping[TreeId, SceneSpan]) -> None:
    """Set the spans of scenes that have no tree yet; those of others come with ``write_trees``."""
    if spans:
        lock_trees(connection, tenant, list(spans))
        new: dict[str, list[Any]] = {
            "centroid": [to_bytes(span.centroid) for span in spans.values()],
            "time_start": [span.start for span in spans.values()],
            "time_end": [span.end for span in spans.values()],
        }
        connection.execute(change_rows("tree", tenant, {"tree_id": spans}, new))


def with_ancestors(
    connection: sa.Connection, tenant: TenantId, ids: Sequence[Any]
) -> Sequence[sa.Row[*tuple[Any, ...]]]:
    """The rows of these nodes and of all nodes above them."""
    return connection.execute(_ANCESTORS, {"t": tenant, "ids": list(ids)}).all()


def node_of(row: sa.Row[Any]) -> Node:
    """A node from a row that has all structure columns."""
    key = Key(row.key_time, row.key_ordinal, row.key_item, row.key_id)
    return Node(
        id=NodeId(row.node_id),
        tree_id=TreeId(row.tree_id),
        parent_id=NodeId(row.parent_id) if row.parent_id else None,
        level=row.level,
        key=None if key == LOWEST else key,
        time_start=row.time_start,
        time_end=row.time_end,
        leaf_count=row.leaf_count,
        version=row.version,
        clean_version=row.clean_version,
        payload_id=PayloadId(row.payload_id) if row.payload_id else None,
    )


def head_of(row: sa.Row[*tuple[Any, ...]]) -> TreeHead:
    """Where a tree begins, from its row."""
    return TreeHead(TreeId(row.tree_id), NodeId(row.root_id), row.k, row.height, row.leaf_count)


def _columns(nodes: Sequence[Node], *names: str) -> dict[str, list[Any]]:
    """These columns of nodes, and those of their keys."""
    keys = [node.key or LOWEST for node in nodes]
    parts = {f"key_{part}": list(map(attrgetter(part), keys)) for part in ("time", "ordinal", "item", "id")}
    return columns_of(nodes, *names) | parts


def bury_points(connection: sa.Connection, tenant: TenantId, ids: Sequence[Any]) -> None:
    """Leave tombstones, so that the index drops these points."""
    point = m.IndexRow
    own = sa.select(point.point_id).where(point.tenant_id == tenant, among(point.point_id, ids))
    connection.execute(own.order_by(point.point_id).with_for_update())
    connection.execute(_BURY_POINTS, {"t": tenant, "ids": list(ids)})


class TreeRows(TenantRows):
    """Tree rows in a transaction that holds the forest."""

    def load_paths(self, leaves: Sequence[Node]) -> dict[TreeId, list[Node]]:
        """The level-1 nodes that these leaves touch, their ancestors, and all children of those: three statements."""
        if not leaves:
            return {}
        bottoms = self._run(_SEEK, **_columns(leaves, "tree_id"))
        paths = with_ancestors(self._db, self._tenant, bottoms.scalars().all())
        return self._with_children(paths, [row.node_id for row in paths])

    def load_leaves(self, leaves: Sequence[NodeId]) -> dict[TreeId, list[Node]]:
        """These leaves, all nodes above them, the neighbouring nodes on each level, and all children of these internal
        nodes, as ``memtree.delete`` wants them: three statements."""
        if not leaves:
            return {}
        paths = with_ancestors(self._db, self._tenant, leaves)
        above = [row.node_id for row in paths if row.level > 0]
        neighbours = self._run(_NEIGHBOURS, ids=above).scalars()
        return self._with_children(paths, [*above, *neighbours])

    def load_children(self, parents: Sequence[Any]) -> list[Node]:
        """All children of these nodes."""
        return [node_of(row) for row in self._run(_CHILDREN, ids=list(parents)).all()]

    def _with_children(
        self, paths: Sequence[sa.Row[*tuple[Any, ...]]], parents: Sequence[Any]
    ) -> dict[TreeId, list[Node]]:
        loaded: dict[TreeId, dict[NodeId, Node]] = defaultdict(dict)
        for node in (*map(node_of, paths), *self.load_children(parents)):
            loaded[node.tree_id][node.id] = node
        return {tree: list(nodes.values()) for tree, nodes in loaded.items()}

    def add_nodes(self, nodes: Sequence[Node]) -> None:
        """Store new nodes."""
        names = ("tree_id", *_CHANGING, "clean_version", "payload_id")
        new = _columns(nodes, *names) | {"node_id": [node.id for node in nodes]}
        self._db.execute(adding("node", tuple(new)), given_to("node", self._tenant, {}, new))

    def write_trees(
        self,
        changes: Sequence[TreeChange],
        quiet_of: Callable[[int], float],
        stale_s: float,
        absorbed: Sequence[TreeId] = (),
    ) -> None:
        """Write all diffs, end the placements of new trees, and mark the trees due: at most six statements, eleven
        where leaves are deleted. Trees that others ``absorbed`` end, in the same order of locks.

        ``quiet_of`` gives the seconds until a tree of so many leaves is due, ``stale_s`` those since its first mark.
        """
        changes = sorted(changes, key=lambda change: str(change.head.tree_id))
        self._write_nodes(changes, absorbed)
        if placed := [change.head.tree_id for change in changes if change.placed]:
            self._run(_END_PLACEMENTS, ids=placed)
        marked = [c for c in changes if c.diff.inserted or c.diff.updated or c.diff.deleted]
        if marked or absorbed:
            lock_trees(self._db, self._tenant, [*(change.head.tree_id for change in marked), *absorbed])
        if absorbed:
            self._run(WITHOUT_TREE, trees=list(absorbed))
        if marked:
            self._run(
                _HEADS,
                trees=[change.head.tree_id for change in marked],
                roots=[change.head.root_id for change in marked],
                heights=[change.head.height for change in marked],
                leaves=[change.head.leaf_count for change in marked],
                centroids=[to_bytes(change.span.centroid) if change.span else None for change in marked],
                starts=[change.span.start if change.span else None for change in marked],
                ends=[change.span.end if change.span else None for change in marked],
                quiet=[quiet_of(change.head.leaf_count) for change in marked],
                stale=stale_s,
            )
        smaller = [change.head.tree_id for change in changes if change.diff.deleted]
        if smaller:
            self._run(_SPANS, trees=smaller)

    def _write_nodes(self, changes: Sequence[TreeChange], absorbed: Sequence[TreeId]) -> None:
        inserted = [node for change in changes for node in change.diff.inserted]
        updated = [node for change in changes for node in change.diff.updated]
        if inserted:
            self.add_nodes(sorted(inserted, key=lambda node: -node.level))
        deleted = [node for change in changes for node in change.diff.deleted]
        ended = self._nodes_of(absorbed) if absorbed else []
        gone = [*deleted, *ended]
        if updated or gone:
            lock_nodes(self._db, self._tenant, [*(node.id for node in updated), *gone])
        if updated:
            by = {"node_id": [node.id for node in updated]}
            self._change("node", by, _columns(updated, *_CHANGING))
        if deleted:
            self._run(_ERASE, ids=[node.id for c in changes if c.diff.deleted for node in c.diff.updated])
        if gone:
            self._run(_DELETE, ids=gone)
            bury_points(self._db, self._tenant, gone)

    def _change(self, table: str, by: Mapping[str, Sequence[Any]], new: Mapping[str, Sequence[Any]]) -> None:
        self._db.execute(changing(table, tuple(by), tuple(new)), given_to(table, self._tenant, by, new))

    def _nodes_of(self, trees: Sequence[TreeId]) -> Sequence[NodeId]:
        found = self._db.scalars(
            sa.select(m.NodeRow.node_id).where(m.NodeRow.tenant_id == self._tenant, among(m.NodeRow.tree_id, trees))
        )
        return [NodeId(node) for node in found]


def micros(moment: str) -> str:
    """A timestamp in whole microseconds since 1970, as tree keys and intervals have it."""
    return f"CAST(extract(epoch FROM {moment}) * 1000000 AS bigint)"
