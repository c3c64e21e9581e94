"""Taking facts out of a forest: occurrences, facts, placements and points go, then trees shrink.

The caller holds the lock of the forest's row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, ScopeState, TenantId, TreeId
from memforest_core.memtree import TreeHead
from memforest_core.store import tables as m
from memforest_core.store.copying import blanks
from memforest_core.store.rows import among
from memforest_core.store.trees import (
    WITHOUT_TREE,
    WITHOUT_WORDS,
    TreeRows,
    bury_points,
    head_of,
    lock_nodes,
    lock_trees,
    set_centroids,
)
from memforest_core.store.vectors import VectorRows, from_bytes


@dataclass(frozen=True, slots=True)
class Retired:
    """What superseded candidates leave behind: how much is deleted already, and the leaves to delete, by tree."""

    occurrences: int
    facts: int
    leaves: dict[TreeId, list[NodeId]]


# For each fact first the candidate that most likely made it, by whose routing vector it went to its scenes.
_SUPERSEDED = sa.text("""
    SELECT o.fact_id, k.routing_hash FROM memforest.occurrence o
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
      JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = o.fact_id
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = o.cell_id
     WHERE o.tenant_id = :t AND o.cell_id = ANY(CAST(:cells AS uuid[])) AND o.item < 0
     ORDER BY o.fact_id, k.text_hash <> f.text_hash, c.session_id, c.ordinal, o.item DESC
    """)

_SUPERSEDED_ONLY = sa.text("""
    SELECT DISTINCT o.fact_id FROM memforest.occurrence o
     WHERE o.tenant_id = :t AND o.cell_id = ANY(CAST(:cells AS uuid[])) AND o.item < 0
       AND NOT EXISTS (SELECT 1 FROM memforest.occurrence p
                        WHERE p.tenant_id = :t AND p.fact_id = o.fact_id AND p.item >= 0)
    """)

_ORPHANS = sa.text("""
    SELECT f.fact_id FROM memforest.fact f
     WHERE f.tenant_id = :t AND f.fact_id = ANY(CAST(:ids AS uuid[]))
       AND NOT EXISTS (SELECT 1 FROM memforest.occurrence o WHERE o.tenant_id = :t AND o.fact_id = f.fact_id)
    """)

# A scope counts the sessions of its facts: a fact that lost its occurrence in one session counts for another.
_SET_SOURCES = sa.text("""
    UPDATE memforest.placement p SET session_id = o.session_id
      FROM (SELECT DISTINCT ON (fact_id) fact_id, session_id FROM memforest.occurrence
             WHERE tenant_id = :t AND fact_id = ANY(CAST(:ids AS uuid[])) ORDER BY fact_id, session_id) o
     WHERE p.tenant_id = :t AND p.payload_id = o.fact_id
       AND NOT EXISTS (SELECT 1 FROM memforest.occurrence x
                        WHERE x.tenant_id = :t AND x.fact_id = p.payload_id AND x.session_id = p.session_id)
    """)

_ABOVE = sa.text("""
    WITH RECURSIVE path AS (
        SELECT n.parent_id AS node_id, n.tree_id FROM memforest.node n
         WHERE n.tenant_id = :t AND n.payload_id = ANY(CAST(:ids AS uuid[])) AND n.parent_id IS NOT NULL
        UNION
        SELECT n.parent_id, n.tree_id FROM path CROSS JOIN LATERAL (
               SELECT parent_id, tree_id FROM memforest.node
                WHERE tenant_id = :t AND node_id = path.node_id LIMIT 1) n
         WHERE n.parent_id IS NOT NULL)
    SELECT node_id, tree_id FROM path
    """)

_DUE = sa.text(f"""
    UPDATE memforest.tree SET marks = marks + 1, last_mark_at = now(), first_mark_at = coalesce(first_mark_at, now()),
           due_at = least(due_at, now()), {WITHOUT_WORDS}
     WHERE tenant_id = :t AND tree_id = ANY(CAST(:trees AS uuid[])) AND state = 'active'
    """)  # noqa: S608 - columns of the tables


class RemovalRows(TreeRows):
    """Rows of one transaction that takes something out."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self._texts = VectorRows(connection, tenant)

    def retire_superseded(self, forest: ForestId, cells: Sequence[CellId], model: str) -> Retired:
        """Drop the candidates of these cells that lie below item 0, with their occurrences, and the facts that have no
        other; their placements and points go too. Their leaves are returned, and still in the trees.

        ``model`` is the embedding model: its routing vectors are subtracted from the scenes' centroids.
        """
        superseded = self._run(_SUPERSEDED, cells=list(cells)).all()
        if not superseded:
            return Retired(0, 0, {})
        said, made = m.CandidateRow, m.OccurrenceRow
        self._db.execute(
            sa.delete(made).where(made.tenant_id == self._tenant, among(made.cell_id, cells), made.item < 0)
        )
        dropped = self._db.execute(
            sa.delete(said)
            .where(said.tenant_id == self._tenant, among(said.cell_id, cells), said.item < 0)
            .returning(said.text_hash, said.routing_hash)
        )
        hashes = {bytes(key) for row in dropped for key in row}
        routing: dict[UUID, bytes] = {}
        for row in superseded:
            routing.setdefault(row.fact_id, bytes(row.routing_hash))
        orphans = self._run(_ORPHANS, ids=list(routing)).scalars().all()
        self.set_sources([FactId(fact) for fact in routing.keys() - set(orphans)])
        leaves = self.take_out({FactId(fact): routing[fact] for fact in orphans}, model)
        self._texts.drop_unused(forest, hashes)
        return Retired(len(superseded), len(orphans), leaves)

    def take_out(self, facts: Mapping[FactId, bytes], model: str) -> dict[TreeId, list[NodeId]]:
        """Drop facts that have no occurrence any more, with their placements and points; the leaves they leave behind.

        ``facts`` gives for each the hash of the routing vector with which it went to its scenes.
        """
        if not facts:
            return {}
        leaves, placements = self.unplace(facts)
        self._forget_in_scenes([(tree, facts[FactId(payload)]) for tree, payload in placements], model)
        self._db.execute(
            sa.delete(m.FactRow).where(m.FactRow.tenant_id == self._tenant, among(m.FactRow.fact_id, facts))
        )
        bury_points(self._db, self._tenant, list(facts))
        return leaves

    def unplace(self, payloads: Iterable[UUID]) -> tuple[dict[TreeId, list[NodeId]], list[tuple[UUID, UUID]]]:
        """Drop the placements of facts and cells: their leaves, which stay, and all pairs of tree and payload."""
        p, n, ids = m.Placement, m.NodeRow, list(payloads)
        ended = sa.delete(p).where(p.tenant_id == self._tenant, among(p.payload_id, ids))
        pairs = [(row.tree_id, row.payload_id) for row in self._db.execute(ended.returning(p.tree_id, p.payload_id))]
        own = (n.tenant_id == self._tenant, among(n.payload_id, ids))
        leaves: dict[TreeId, list[NodeId]] = defaultdict(list)
        for row in self._db.execute(sa.select(n.tree_id, n.payload_id, n.node_id).where(*own)):
            pairs.append((row.tree_id, row.payload_id))
            leaves[TreeId(row.tree_id)].append(NodeId(row.node_id))
        return dict(leaves), pairs

    def set_sources(self, facts: Sequence[FactId]) -> None:
        """Placements of facts that lost occurrences name a session that still has one."""
        if facts:
            self._run(_SET_SOURCES, ids=list(facts))

    def _forget_in_scenes(self, placements: Sequence[tuple[UUID, bytes]], model: str) -> None:
        """A scene's centroid is the sum of its facts' routing vectors."""
        scenes = self._db.execute(
            sa.select(m.Tree.tree_id, m.Tree.forest_id, m.Tree.centroid).where(
                m.Tree.tenant_id == self._tenant,
                m.Tree.tree_id.in_([tree for tree, _ in placements]),
                m.Tree.centroid.is_not(None),
            )
        ).all()
        if not scenes:
            return
        totals = {TreeId(scene.tree_id): from_bytes(scene.centroid).copy() for scene in scenes}
        forests = {scene.tree_id: ForestId(scene.forest_id) for scene in scenes}
        left = [(TreeId(tree), (forests[tree], key)) for tree, key in placements if tree in forests]
        vectors = self._texts.vectors_by_hash(model, [key for _, key in left])
        for tree, key in left:
            if key in vectors:
                totals[tree] -= vectors[key]
        set_centroids(self._db, self._tenant, totals)
        # What a topic is called may hold words of what is deleted.
        r, blank = m.Tree, blanks("tree")
        named = (among(r.tree_id, totals), sa.or_(*(r.__table__.c[each].is_not(None) for each in blank)))
        self._db.execute(sa.update(r).where(r.tenant_id == self._tenant, *named).values(blank))
        # A scene that waited for more facts and lost those it had; one with a tree ends with its last leaf.
        p, w = m.Placement, m.TurnTopic
        placed = sa.select(p.tree_id).where(p.tenant_id == self._tenant, p.tree_id == r.tree_id)
        said = sa.select(w.tree_id).where(w.tenant_id == self._tenant, w.tree_id == r.tree_id)
        empty = (among(r.tree_id, totals), r.state == ScopeState.CANDIDATE, ~placed.exists(), ~said.exists())
        self._db.execute(sa.update(r).where(r.tenant_id == self._tenant, *empty).values(state=ScopeState.MERGED))

    def superseded_only(self, cells: Sequence[CellId]) -> frozenset[FactId]:
        """Facts whose only candidates are those of these cells below item 0: they are about to be deleted."""
        return frozenset(FactId(fact) for fact in self._run(_SUPERSEDED_ONLY, cells=list(cells)).scalars())

    def shrinking(self, trees: Sequence[TreeId]) -> dict[TreeId, TreeHead]:
        """The heads of those of these trees that are active."""
        rows = self._db.execute(
            sa.select(m.Tree.__table__).where(
                m.Tree.tenant_id == self._tenant, m.Tree.tree_id.in_(trees), m.Tree.state == ScopeState.ACTIVE.value
            )
        )
        return {TreeId(row.tree_id): head_of(row) for row in rows}

    def drop_empty(self, trees: Sequence[TreeId]) -> None:
        """Delete the roots of these trees, which have no leaf, and make them scopes without a tree."""
        if not trees:
            return
        roots = self._db.scalars(
            sa.select(m.Tree.root_id)
            .where(m.Tree.tenant_id == self._tenant, m.Tree.tree_id.in_(trees))
            .order_by(m.Tree.root_id)
        ).all()
        lock_nodes(self._db, self._tenant, [NodeId(root) for root in roots if root is not None])
        lock_trees(self._db, self._tenant, trees)
        self._db.execute(
            sa.delete(m.NodeRow).where(m.NodeRow.tenant_id == self._tenant, among(m.NodeRow.node_id, roots))
        )
        self._run(WITHOUT_TREE, trees=list(trees))
        bury_points(self._db, self._tenant, roots)

    def nodes_above(self, payloads: Sequence[UUID]) -> tuple[list[NodeId], list[TreeId]]:
        """All internal nodes above the leaves of these cells and facts, and the trees of those nodes."""
        above = self._run(_ABOVE, ids=list(payloads)).all()
        return [NodeId(row.node_id) for row in above], list({TreeId(row.tree_id) for row in above})

    def mark_payloads(self, payloads: Sequence[UUID]) -> None:
        """Everything above the leaves of these cells and facts is to be summarized again."""
        nodes, trees = self.nodes_above(payloads)
        if nodes:
            lock_nodes(self._db, self._tenant, nodes)
            self.mark_dirty(nodes, trees)

    def mark_dirty(self, nodes: Sequence[NodeId], trees: Sequence[TreeId]) -> list[NodeId]:
        """Make those of these locked nodes dirty that still exist, and their trees due; which nodes.

        A summary whose children were read before can't be saved any more, nor a title; those of the trees go.
        """
        marked = self._db.scalars(
            sa.update(m.NodeRow)
            .where(m.NodeRow.tenant_id == self._tenant, among(m.NodeRow.node_id, nodes))
            .values(version=m.NodeRow.version + 1, erased_version=m.NodeRow.version)
            .returning(m.NodeRow.node_id)
        ).all()
        lock_trees(self._db, self._tenant, trees)
        self._run(_DUE, trees=list(trees))
        return [NodeId(node) for node in marked]
