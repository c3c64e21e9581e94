"""Scopes and trees of a merge in Postgres."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, NodeId, PayloadId, SessionId, TreeId
from memforest_core.domain.scopes import ScopeState, TreeKind
from memforest_core.index.wanted_rows import want_indexed
from memforest_core.memtree import Node, TreeHead
from memforest_core.reduce.rows import ReduceRows
from memforest_core.store.trees import LOWEST, bury_points, lock_trees, node_of
from memforest_core.store.vectors import from_bytes, to_bytes
from memforest_core.transfer.merge.records import HeadChange, MemberCopy, SceneSum, ScopeCopy, StoredMember, StoredScope
from memforest_core.transfer.merge.rows import trees_sql as q


def literal(values: Iterable[object]) -> str:
    """An array of ids and numbers as Postgres writes it: ten times as fast as having the driver write each of them."""
    return "{" + ",".join("NULL" if value is None else str(value) for value in values) + "}"


class PostgresMergeTrees(ReduceRows):
    """The part of MergeRows that is about scopes and trees."""

    def all_scopes(self, forest: ForestId) -> Sequence[StoredScope]:
        """Active and candidate scopes of a forest."""
        return [_scope(row) for row in self._db.execute(q.SCOPES, {"t": self._tenant, "f": forest})]

    def scopes_of(self, ids: Sequence[TreeId]) -> Mapping[TreeId, StoredScope]:
        """Those of these scopes that exist."""
        rows = self._db.execute(q.SCOPES_OF, {"t": self._tenant, "ids": list(ids)})
        return {TreeId(row.tree_id): _scope(row) for row in rows}

    def take_scenes(self, target: ForestId, count: int) -> int:
        """Take so many scene numbers; the first of them."""
        return int(self._db.scalar(q.TAKE_SCENES, {"t": self._tenant, "f": target, "n": count}) or 0)

    def nodes(self, forest: ForestId) -> Mapping[TreeId, Sequence[Node]]:
        """All nodes of a forest's trees."""
        found: dict[TreeId, list[Node]] = defaultdict(list)
        for row in self._db.execute(q.NODES, {"t": self._tenant, "f": forest}).all():
            node = node_of(row)
            found[node.tree_id].append(node)
        return found

    def all_members(self, forest: ForestId) -> Sequence[StoredMember]:
        """All members of a forest's active and candidate scopes."""
        rows = self._db.execute(q.MEMBERS, {"t": self._tenant, "f": forest}).all()
        return [StoredMember(TreeId(row.tree_id), PayloadId(row.payload_id), SessionId(row.session_id)) for row in rows]

    def copy_scopes(self, target: ForestId, copies: Sequence[ScopeCopy], quiet_s: float) -> None:
        """Copy scopes."""
        if not copies:
            return
        heads = [copy.head for copy in copies]
        self._db.execute(
            q.COPY_SCOPES,
            {
                "t": self._tenant,
                "target": target,
                "quiet": quiet_s,
                "old": [copy.source for copy in copies],
                "new": [copy.target for copy in copies],
                "keys": [copy.key for copy in copies],
                "labels": [copy.label for copy in copies],
                "sessions": [copy.session_id for copy in copies],
                "roots": [head.root_id if head else None for head in heads],
                "heights": [head.height if head else 0 for head in heads],
                "leaves": [head.leaf_count if head else 0 for head in heads],
                "dirty": [copy.dirty for copy in copies],
            },
        )

    def copy_members(self, members: Sequence[MemberCopy]) -> None:
        """Note which scopes hold which payloads, and in which leaves; a member that is there keeps its session."""
        if members:
            self._db.execute(
                q.COPY_MEMBERS,
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
            self._db.execute(q.LOCK_NODES_OF, {"t": self._tenant, "trees": list(trees), "nodes": list(nodes)})

    def clear_trees(self, trees: Sequence[TreeId]) -> None:
        """Take all nodes of these trees, and their points."""
        if trees:
            gone = self._db.scalars(q.CLEAR_TREES, {"t": self._tenant, "trees": list(trees)}).all()
            bury_points(self._db, self._tenant, [id_ for id_ in gone if id_ is not None])

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
        self._db.execute(q.ADD_NODES, {"t": self._tenant, **values})

    def copy_summaries(self, target: ForestId, renamed: Mapping[NodeId, NodeId]) -> None:
        """Copy what was made of nodes to their copies as it is, and mark those for indexing."""
        if renamed:
            values = {"t": self._tenant, "old": literal(renamed), "new": literal(renamed.values())}
            copied = self._db.scalars(q.COPY_SUMMARIES, values).all()
            want_indexed(self._db, self._tenant, target, "node", copied, lane=1)

    def set_heads(self, changes: Sequence[HeadChange], quiet_s: float) -> None:
        """Point trees to their new roots."""
        if not changes:
            return
        lock_trees(self._db, self._tenant, [change.head.tree_id for change in changes])
        self._db.execute(
            q.SET_HEADS,
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
            q.SET_SCENES,
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
