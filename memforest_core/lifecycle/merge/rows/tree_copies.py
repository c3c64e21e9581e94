"""Scopes and trees of a source copied into the target, a set of rows by one statement."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, NodeId, ScopeState, TreeId, TreeKind
from memforest_core.index.rows import want_indexed
from memforest_core.ingest.reduce.records import Member
from memforest_core.lifecycle.merge.records import ScopeCopy, StoredScope
from memforest_core.memtree import Node
from memforest_core.store import tables as m
from memforest_core.store.copying import copy_rows, given, old
from memforest_core.store.rows import seconds_from_now
from memforest_core.store.trees import TreeRows, head_of, micros, node_of
from memforest_core.store.vectors import from_bytes

_SCOPE = f"""
    SELECT r.tree_id, r.kind, r.scope_key, r.state, r.k, r.root_id, r.height, r.leaf_count, r.domain, r.centroid,
           {micros("r.time_start")} AS "start", {micros("r.time_end")} AS "end"
      FROM memforest.tree r"""

_NODES = sa.text("""
    SELECT n.* FROM memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state = 'active'
    """)

_MEMBERS = sa.text("""
    SELECT p.tree_id, p.payload_id, p.session_id
      FROM memforest.tree r JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state IN ('active', 'candidate')
     ORDER BY p.tree_id, p.payload_id
    """)

_DIRTY = given("dirty")
# A scope without a root is a candidate; a tree that has to be refreshed is due after the quiet time.
_SCOPE_CHANGED = {
    "label": sa.func.coalesce(given("label"), old("label")),
    "state": sa.case((given("root_id").is_(None), "candidate"), else_="active"),
    "marks": 1,
    "first_mark_at": sa.case((_DIRTY, sa.func.now())),
    # The points of a copy are all written.
    "cold_at": sa.null(),
}


class TreeCopies(TreeRows):
    """Copies scopes and trees, in one transaction of a tenant."""

    def all_scopes(self, forest: ForestId) -> Sequence[StoredScope]:
        """Active and candidate scopes of a forest."""
        statement = sa.text(
            f"{_SCOPE} WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state IN ('active', 'candidate')"
            " ORDER BY r.tree_id"
        )
        return [_scope(row) for row in self._run(statement, f=forest)]

    def scopes_of(self, ids: Sequence[TreeId]) -> Mapping[TreeId, StoredScope]:
        """Those of these scopes that exist."""
        statement = sa.text(f"{_SCOPE} WHERE r.tenant_id = :t AND r.tree_id = ANY(CAST(:ids AS uuid[]))")
        return {TreeId(row.tree_id): _scope(row) for row in self._run(statement, ids=list(ids))}

    def nodes(self, forest: ForestId) -> Mapping[TreeId, Sequence[Node]]:
        found: dict[TreeId, list[Node]] = defaultdict(list)
        for node in map(node_of, self._run(_NODES, f=forest)):
            found[node.tree_id].append(node)
        return found

    def all_members(self, forest: ForestId) -> Sequence[Member]:
        """All members of a forest's active and candidate scopes."""
        return [Member(*row) for row in self._run(_MEMBERS, f=forest)]

    def copy_scopes(self, target: ForestId, copies: Sequence[ScopeCopy], quiet_s: float) -> None:
        """Add scopes, with the heads of those whose trees are copied; what has to be refreshed is due after the quiet
        time."""
        if not copies:
            return
        trees = [copy.copy for copy in copies]
        heads = [tree.head if tree is not None else None for tree in trees]
        new: dict[str, Sequence[Any]] = {
            "tree_id": [copy.id for copy in copies],
            "scope_key": [copy.key for copy in copies],
            "label": [copy.plan.name if copy.plan is not None else None for copy in copies],
            "session_id": [copy.plan.target if copy.plan is not None else None for copy in copies],
            "dirty": [tree is not None and tree.dirty for tree in trees],
            "root_id": [head.root_id if head else None for head in heads],
            "height": [head.height if head else 0 for head in heads],
            "leaf_count": [head.leaf_count if head else 0 for head in heads],
        }
        by = {"tree_id": [copy.source.id for copy in copies]}
        due = sa.case((_DIRTY, seconds_from_now(quiet_s)))
        changed = _SCOPE_CHANGED | {"forest_id": target, "due_at": due}
        self._db.execute(copy_rows("tree", self._tenant, by, new, changed, order_by=[given("tree_id")]))

    def copy_summaries(self, target: ForestId, renamed: Mapping[NodeId, NodeId]) -> None:
        """Copy the summaries of nodes to their copies, and mark those for indexing."""
        if not renamed:
            return
        there = sa.select(m.NodeRow.node_id).where(
            m.NodeRow.tenant_id == self._tenant, m.NodeRow.node_id == given("node_id")
        )
        statement = copy_rows(
            "node_summary",
            self._tenant,
            {"node_id": renamed},
            {"node_id": renamed.values()},
            {},
            # What was just copied has no statistics: by LIMIT each node is looked up.
            where=there.limit(1).exists(),
        )
        copied = self._db.scalars(statement.returning(m.NodeSummary.node_id)).all()
        want_indexed(self._db, self._tenant, target, "node", copied, lane=1)


def _scope(row: sa.Row[Any]) -> StoredScope:
    return StoredScope(
        id=TreeId(row.tree_id),
        kind=TreeKind(row.kind),
        key=row.scope_key,
        state=ScopeState(row.state),
        k=row.k,
        head=head_of(row) if row.root_id is not None else None,
        domain=row.domain,
        total=from_bytes(row.centroid) if row.centroid is not None else None,
        start=row.start,
        end=row.end,
    )
