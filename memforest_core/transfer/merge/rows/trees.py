"""Scopes and trees of a source copied into the target, a set of rows by one statement."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, NodeId, PayloadId, SessionId, TenantId, TreeId
from memforest_core.domain.scopes import ScopeState, TreeKind
from memforest_core.domain.times import from_micros
from memforest_core.index.wanted_rows import want_indexed
from memforest_core.memtree import Node, TreeHead
from memforest_core.store import tables as m
from memforest_core.store.copying import add_rows, change_rows, copy_rows, given, old
from memforest_core.store.trees import LOWEST, bury_points, lock_trees, micros, node_of
from memforest_core.store.vectors import from_bytes, to_bytes
from memforest_core.transfer.merge.records import HeadChange, MemberCopy, SceneSum, ScopeCopy, StoredMember, StoredScope

_SCOPE = f"""
    SELECT r.tree_id, r.kind, r.scope_key, r.state, r.k, r.root_id, r.height, r.leaf_count, r.domain, r.centroid,
           {micros("r.time_start")} AS "start", {micros("r.time_end")} AS "end"
      FROM memforest.tree r"""

_NODES = sa.text("""
    SELECT n.node_id, n.tree_id, n.parent_id, n.level, n.key_time, n.key_ordinal, n.key_item, n.key_id, n.time_start,
           n.time_end, n.leaf_count, n.version, n.clean_version, n.payload_id
      FROM memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state = 'active'
    """)

_MEMBERS = sa.text("""
    SELECT p.tree_id, p.payload_id, p.session_id
      FROM memforest.tree r JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state IN ('active', 'candidate')
     ORDER BY p.tree_id, p.payload_id
    """)

_LOCK_NODES_OF = sa.text("""
    SELECT node_id FROM memforest.node
     WHERE tenant_id = :t AND (tree_id = ANY(CAST(:trees AS uuid[])) OR node_id = ANY(CAST(:nodes AS uuid[])))
     ORDER BY node_id FOR UPDATE
    """)

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
        by = {"tree_id": [copy.source for copy in copies]}
        changed = _SCOPE_CHANGED | {"forest_id": target, "due_at": _due(quiet_s)}
        self._db.execute(*copy_rows("tree", self._tenant, by, new, changed, order_by=[given("tree_id")]))

    def copy_members(self, members: Sequence[MemberCopy]) -> None:
        """Note which scopes hold which payloads, and in which leaves; a member that is there keeps its session."""
        if not members:
            return
        new: dict[str, Sequence[Any]] = {
            name: [getattr(member, name) for member in members]
            for name in ("tree_id", "payload_id", "session_id", "leaf_id")
        }
        statement, values = add_rows("placement", self._tenant, new)
        leaf = statement.excluded.leaf_id
        statement = statement.on_conflict_do_update(
            index_elements=["tenant_id", "tree_id", "payload_id"],
            set_={"leaf_id": leaf},
            where=m.Placement.leaf_id.is_(None) & leaf.is_not(None),
        )
        self._db.execute(statement, values)

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
        names = ("tree_id", "parent_id", "level", "time_start", "time_end", "leaf_count", "version", "clean_version")
        new: dict[str, Sequence[Any]] = {
            name: [getattr(node, name) for node in nodes] for name in (*names, "payload_id")
        }
        keys = [node.key or LOWEST for node in nodes]
        new |= {f"key_{name}": [getattr(key, name) for key in keys] for name in ("time", "ordinal", "item", "id")}
        self._db.execute(*add_rows("node", self._tenant, new | {"node_id": [node.id for node in nodes]}))

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
        trees = [change.head.tree_id for change in changes]
        lock_trees(self._db, self._tenant, trees)
        new: dict[str, Sequence[Any]] = {
            name: [getattr(change.head, name) for change in changes]
            for name in ("root_id", "height", "leaf_count", "k")
        }
        statement, values = change_rows(
            "tree",
            self._tenant,
            {"tree_id": trees},
            new | {"dirty": [change.dirty for change in changes]},
            state="active",
            marks=m.Tree.marks + 1,
            last_mark_at=sa.func.now(),
            first_mark_at=sa.case((_DIRTY, sa.func.coalesce(m.Tree.first_mark_at, sa.func.now()))),
            due_at=_due(quiet_s),
        )
        self._db.execute(statement, values)

    def set_scenes(self, sums: Sequence[SceneSum]) -> None:
        """Set what united scenes are about."""
        if not sums:
            return
        trees = [scene.tree_id for scene in sums]
        lock_trees(self._db, self._tenant, trees)
        new: dict[str, Sequence[Any]] = {
            "centroid": [to_bytes(scene.total) for scene in sums],
            "time_start": [from_micros(scene.start) for scene in sums],
            "time_end": [from_micros(scene.end) for scene in sums],
        }
        self._db.execute(*change_rows("tree", self._tenant, {"tree_id": trees}, new))


def _due(quiet_s: float) -> sa.ColumnElement[Any]:
    """When a tree that has to be refreshed is due."""
    return sa.case((_DIRTY, sa.func.now() + sa.func.make_interval(0, 0, 0, 0, 0, 0, quiet_s)))


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
