"""Scopes and trees of a source copied into the target, a set of rows by one statement."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, NodeId, PayloadId, SessionId, TenantId, TreeId
from memforest_core.domain.scopes import ScopeState, TreeKind
from memforest_core.index.wanted_rows import want_indexed
from memforest_core.memtree import Node, TreeHead
from memforest_core.store import tables as m
from memforest_core.store.copying import copy_rows, given, literal, old
from memforest_core.store.trees import LOWEST, bury_points, lock_trees, micros, node_of
from memforest_core.store.vectors import from_bytes, to_bytes
from memforest_core.transfer.merge.records import HeadChange, MemberCopy, SceneSum, ScopeCopy, StoredMember, StoredScope

_SCOPE = f"""
    SELECT r.tree_id, r.kind, r.scope_key, r.state, r.k, r.root_id, r.height, r.leaf_count, r.domain, r.centroid,
           {micros("r.time_start")} AS "start", {micros("r.time_end")} AS "end"
      FROM memforest.tree r"""

_NODES = sa.text(
    """
    SELECT n.node_id, n.tree_id, n.parent_id, n.level, n.key_time, n.key_ordinal, n.key_item, n.key_id, n.time_start,
           n.time_end, n.leaf_count, n.version, n.clean_version, n.payload_id
      FROM memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state = 'active'
    """
)

_MEMBERS = sa.text(
    """
    SELECT p.tree_id, p.payload_id, p.session_id
      FROM memforest.tree r JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state IN ('active', 'candidate')
     ORDER BY p.tree_id, p.payload_id
    """
)

_COPY_MEMBERS = sa.text(
    """
    INSERT INTO memforest.placement AS mine (tenant_id, tree_id, payload_id, session_id, leaf_id)
    SELECT :t, u.tree, u.payload, u.session, u.leaf
      FROM unnest(CAST(:trees AS uuid[]), CAST(:payloads AS uuid[]), CAST(:sessions AS uuid[]),
                  CAST(:leaves AS uuid[])) AS u(tree, payload, session, leaf)
    ON CONFLICT (tenant_id, tree_id, payload_id) DO UPDATE SET leaf_id = excluded.leaf_id
     WHERE mine.leaf_id IS NULL AND excluded.leaf_id IS NOT NULL
    """
)

_LOCK_NODES_OF = sa.text(
    """
    SELECT node_id FROM memforest.node
     WHERE tenant_id = :t AND (tree_id = ANY(CAST(:trees AS uuid[])) OR node_id = ANY(CAST(:nodes AS uuid[])))
     ORDER BY node_id FOR UPDATE
    """
)

_ADD_NODES = sa.text(
    """
    INSERT INTO memforest.node (tenant_id, node_id, tree_id, parent_id, level, key_time, key_ordinal, key_item, key_id,
           time_start, time_end, leaf_count, version, clean_version, payload_id)
    SELECT :t, u.*
      FROM unnest(CAST(:node_id AS uuid[]), CAST(:tree_id AS uuid[]), CAST(:parent_id AS uuid[]),
                  CAST(:level AS smallint[]), CAST(:key_time AS bigint[]), CAST(:key_ordinal AS int[]),
                  CAST(:key_item AS int[]), CAST(:key_id AS text[]), CAST(:time_start AS bigint[]),
                  CAST(:time_end AS bigint[]), CAST(:leaf_count AS int[]), CAST(:version AS bigint[]),
                  CAST(:clean_version AS bigint[]), CAST(:payload_id AS uuid[])) AS u
    """
)

_SET_HEADS = sa.text(
    """
    UPDATE memforest.tree r
       SET state = 'active', root_id = u.root, height = u.height, leaf_count = u.leaves, k = u.k, marks = r.marks + 1,
           last_mark_at = now(), first_mark_at = CASE WHEN u.dirty THEN coalesce(r.first_mark_at, now()) END,
           due_at = CASE WHEN u.dirty THEN now() + make_interval(secs => :quiet) END
      FROM unnest(CAST(:trees AS uuid[]), CAST(:roots AS uuid[]), CAST(:heights AS smallint[]), CAST(:leaves AS int[]),
                  CAST(:ks AS smallint[]), CAST(:dirty AS boolean[])) AS u(tree, root, height, leaves, k, dirty)
     WHERE r.tenant_id = :t AND r.tree_id = u.tree
    """
)

_SET_SCENES = sa.text(
    """
    UPDATE memforest.tree r
       SET centroid = u.centroid, time_start = timestamptz 'epoch' + u.first * interval '1 microsecond',
           time_end = timestamptz 'epoch' + u.last * interval '1 microsecond'
      FROM unnest(CAST(:trees AS uuid[]), CAST(:centroids AS bytea[]), CAST(:starts AS bigint[]),
                  CAST(:ends AS bigint[])) AS u(tree, centroid, first, last)
     WHERE r.tenant_id = :t AND r.tree_id = u.tree
    """
)

_DIRTY = given("dirty")
# A scope without a root is a candidate; a tree that has to be refreshed is due after the quiet time.
_SCOPE_CHANGED = {
    "label": sa.func.coalesce(given("label"), old("label")),
    "state": sa.case((given("root_id").is_(None), "candidate"), else_="active"),
    "marks": 1,
    "first_mark_at": sa.case((_DIRTY, sa.func.now())),
}


class TreeCopies:
    """Copies scopes and trees, in one transaction of a tenant."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant

    def all_scopes(self, forest: ForestId) -> Sequence[StoredScope]:
        """Active and candidate scopes of a forest."""
        statement = sa.text(
            f"{_SCOPE} WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state IN ('active', 'candidate')"
            " ORDER BY r.tree_id"
        )
        return [_scope(row) for row in self._db.execute(statement, {"t": self._tenant, "f": forest})]

    def scopes_of(self, ids: Sequence[TreeId]) -> Mapping[TreeId, StoredScope]:
        """Those of these scopes that exist."""
        statement = sa.text(f"{_SCOPE} WHERE r.tenant_id = :t AND r.tree_id = ANY(CAST(:ids AS uuid[]))")
        rows = self._db.execute(statement, {"t": self._tenant, "ids": list(ids)})
        return {TreeId(row.tree_id): _scope(row) for row in rows}

    def take_scenes(self, target: ForestId, count: int) -> int:
        """Take so many scene numbers; the first of them."""
        taken = (
            sa.update(m.Forest)
            .where(m.Forest.tenant_id == self._tenant, m.Forest.forest_id == target)
            .values(scene_seq=m.Forest.scene_seq + count)
            .returning(m.Forest.scene_seq - count + 1)
        )
        return int(self._db.scalar(taken) or 0)

    def nodes(self, forest: ForestId) -> Mapping[TreeId, Sequence[Node]]:
        """All nodes of a forest's trees."""
        found: dict[TreeId, list[Node]] = defaultdict(list)
        for row in self._db.execute(_NODES, {"t": self._tenant, "f": forest}).all():
            node = node_of(row)
            found[node.tree_id].append(node)
        return found

    def all_members(self, forest: ForestId) -> Sequence[StoredMember]:
        """All members of a forest's active and candidate scopes."""
        rows = self._db.execute(_MEMBERS, {"t": self._tenant, "f": forest}).all()
        return [StoredMember(TreeId(row.tree_id), PayloadId(row.payload_id), SessionId(row.session_id)) for row in rows]

    def copy_scopes(self, target: ForestId, copies: Sequence[ScopeCopy], quiet_s: float) -> None:
        """Copy scopes."""
        if not copies:
            return
        heads = [copy.head for copy in copies]
        new: dict[str, Sequence[Any]] = {
            "tree_id": [copy.target for copy in copies],
            "scope_key": [copy.key for copy in copies],
            "label": [copy.label for copy in copies],
            "session_id": [copy.session_id for copy in copies],
            "root_id": [head.root_id if head else None for head in heads],
            "height": [head.height if head else 0 for head in heads],
            "leaf_count": [head.leaf_count if head else 0 for head in heads],
            "dirty": [copy.dirty for copy in copies],
        }
        due = sa.case((_DIRTY, sa.func.now() + sa.func.make_interval(0, 0, 0, 0, 0, 0, quiet_s)))
        by = {"tree_id": [copy.source for copy in copies]}
        changed = _SCOPE_CHANGED | {"forest_id": target, "due_at": due}
        self._db.execute(*copy_rows("tree", self._tenant, by, new, changed, order_by=[given("tree_id")]))

    def copy_members(self, members: Sequence[MemberCopy]) -> None:
        """Note which scopes hold which payloads, and in which leaves; a member that is there keeps its session."""
        if members:
            self._db.execute(
                _COPY_MEMBERS,
                {
                    "t": self._tenant,
                    "trees": literal(member.tree_id for member in members),
                    "payloads": literal(member.payload_id for member in members),
                    "sessions": literal(member.session_id for member in members),
                    "leaves": literal(member.leaf_id for member in members),
                },
            )

    def lock_nodes_of(self, trees: Sequence[TreeId], nodes: Sequence[NodeId]) -> None:
        """Lock all nodes of these trees and these nodes, in the one order."""
        if trees or nodes:
            self._db.execute(_LOCK_NODES_OF, {"t": self._tenant, "trees": list(trees), "nodes": list(nodes)})

    def clear_trees(self, trees: Sequence[TreeId]) -> None:
        """Take all nodes of these trees, and their points."""
        if trees:
            deleted = sa.delete(m.NodeRow).where(m.NodeRow.tenant_id == self._tenant, m.NodeRow.tree_id.in_(trees))
            gone = self._db.execute(deleted.returning(m.NodeRow.node_id, m.NodeRow.level)).all()
            bury_points(self._db, self._tenant, [row.node_id for row in gone if row.level > 0])

    def add_nodes(self, nodes: Sequence[Node]) -> None:
        """Store nodes."""
        if not nodes:
            return
        keys = [node.key or LOWEST for node in nodes]
        values: dict[str, Any] = {
            name: literal(getattr(node, name) for node in nodes)
            for name in ("tree_id", "parent_id", "level", "time_start", "time_end", "leaf_count", "version")
        }
        values |= {
            "node_id": literal(node.id for node in nodes),
            "clean_version": literal(node.clean_version for node in nodes),
            "payload_id": literal(node.payload_id for node in nodes),
            "key_time": literal(key.time for key in keys),
            "key_ordinal": literal(key.ordinal for key in keys),
            "key_item": literal(key.item for key in keys),
            # In quotes: the lowest key has an empty one.
            "key_id": literal(f'"{key.id}"' for key in keys),
        }
        self._db.execute(_ADD_NODES, {"t": self._tenant, **values})

    def copy_summaries(self, target: ForestId, renamed: Mapping[NodeId, NodeId]) -> None:
        """Copy what was made of nodes to their copies as it is, and mark those for indexing."""
        if not renamed:
            return
        there = sa.select(m.NodeRow.node_id).where(
            m.NodeRow.tenant_id == self._tenant, m.NodeRow.node_id == given("node_id")
        )
        statement, values = copy_rows(
            "node_summary",
            self._tenant,
            {"node_id": renamed},
            {"node_id": renamed.values()},
            {},
            # What was just copied has no statistics: by LIMIT each node is looked up.
            where=there.limit(1).exists(),
        )
        copied = self._db.scalars(statement.returning(m.NodeSummary.node_id), values).all()
        want_indexed(self._db, self._tenant, target, "node", copied, lane=1)

    def set_heads(self, changes: Sequence[HeadChange], quiet_s: float) -> None:
        """Point trees to their new roots."""
        if not changes:
            return
        lock_trees(self._db, self._tenant, [change.head.tree_id for change in changes])
        self._db.execute(
            _SET_HEADS,
            {
                "t": self._tenant,
                "quiet": quiet_s,
                "trees": [change.head.tree_id for change in changes],
                "roots": [change.head.root_id for change in changes],
                "heights": [change.head.height for change in changes],
                "leaves": [change.head.leaf_count for change in changes],
                "ks": [change.head.k for change in changes],
                "dirty": [change.dirty for change in changes],
            },
        )

    def set_scenes(self, sums: Sequence[SceneSum]) -> None:
        """Set what united scenes are about."""
        if not sums:
            return
        lock_trees(self._db, self._tenant, [scene.tree_id for scene in sums])
        self._db.execute(
            _SET_SCENES,
            {
                "t": self._tenant,
                "trees": [scene.tree_id for scene in sums],
                "centroids": [to_bytes(scene.total) for scene in sums],
                "starts": [scene.start for scene in sums],
                "ends": [scene.end for scene in sums],
            },
        )


def _scope(row: sa.Row[Any]) -> StoredScope:
    head = None
    if row.root_id is not None:
        head = TreeHead(TreeId(row.tree_id), NodeId(row.root_id), row.k, row.height, row.leaf_count)
    return StoredScope(
        id=TreeId(row.tree_id),
        kind=TreeKind(row.kind),
        key=row.scope_key,
        state=ScopeState(row.state),
        k=row.k,
        head=head,
        domain=row.domain,
        total=from_bytes(row.centroid) if row.centroid is not None else None,
        start=row.start,
        end=row.end,
    )
