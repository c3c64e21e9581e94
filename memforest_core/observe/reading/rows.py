"""Rows of sessions, turns, facts, trees and nodes, read by keys and in the order of an index: a statement a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import FactId, ForestId, NodeId, SessionId, TreeId, TreeKind
from memforest_core.domain.times import from_micros
from memforest_core.domain.turns import Turn
from memforest_core.observe.reading.records import (
    FactSource,
    StoredFact,
    StoredOwner,
    StoredSession,
    StoredTree,
    TreeNode,
)
from memforest_core.store import tables as m
from memforest_core.store.owners import ForestRows, visible
from memforest_core.store.rows import among
from memforest_core.store.speakers import speakers_of
from memforest_core.store.statements import from_document
from memforest_core.store.turn_rows import turn_of

Row = sa.Row[*tuple[Any, ...]]


ORDER = (m.NodeRow.key_time, m.NodeRow.key_ordinal, m.NodeRow.key_item, m.NodeRow.key_id)
"""A node's key: its place on its level."""


class ReadingRows(ForestRows):
    """Reads of one transaction of a tenant."""

    def owners(self, prefix: str, after: str | None, limit: int) -> Sequence[StoredOwner]:
        """Owners whose ids begin with ``prefix``, in the order of their ids, from the one after this one."""
        f, s, x = m.Forest, m.Session, m.FactRow
        own = (s.tenant_id == f.tenant_id, s.forest_id == f.forest_id)
        said = (
            sa.select(
                sa.func.count().label("sessions"),
                sa.func.coalesce(sa.func.sum(s.turn_count), 0).label("turns"),
                sa.func.max(s.updated_at).label("updated_at"),
            )
            .where(*own)
            .lateral()
        )
        facts = (
            sa.select(sa.func.count().label("facts"))
            .where(x.tenant_id == f.tenant_id, x.forest_id == f.forest_id)
            .lateral()
        )
        statement = (
            sa.select(f.owner, f.display_name, said.c.sessions, said.c.turns, facts.c.facts, said.c.updated_at)
            .select_from(f)
            .join(said, sa.true())
            .join(facts, sa.true())
            .where(f.tenant_id == self._tenant, visible(), f.owner.startswith(prefix, autoescape=True))
        )
        if after is not None:
            statement = statement.where(f.owner > after)
        found = self._db.execute(statement.order_by(f.owner).limit(limit))
        return [
            StoredOwner(row.owner, row.display_name, row.sessions, int(row.turns), row.facts, row.updated_at)
            for row in found
        ]

    def fact(self, forest: ForestId, fact: UUID) -> Row | None:
        own = (m.FactRow.tenant_id == self._tenant, m.FactRow.forest_id == forest, m.FactRow.fact_id == fact)
        return self._db.execute(sa.select(*m.FactRow.__table__.c).where(*own)).first()

    def session(self, forest: ForestId, external_id: str) -> SessionId | None:
        found = self._db.scalar(
            sa.select(m.Session.session_id).where(
                m.Session.tenant_id == self._tenant, m.Session.forest_id == forest, m.Session.external_id == external_id
            )
        )
        return None if found is None else SessionId(found)

    def speakers(self, forest: ForestId) -> Sequence[tuple[str, str]]:
        """The ids and names of the human speakers, the newest names first."""
        return speakers_of(self._db, self._tenant, forest)

    def sessions(self, forest: ForestId, after: Sequence[object] | None, limit: int) -> Sequence[Row]:
        """Rows of sessions, the newest first, from the one after this place."""
        place = sa.tuple_(m.Session.started_at, m.Session.session_id)
        statement = sa.select(*m.Session.__table__.c).where(
            m.Session.tenant_id == self._tenant, m.Session.forest_id == forest
        )
        if after is not None:
            statement = statement.where(place < sa.tuple_(*after))
        newest = statement.order_by(m.Session.started_at.desc(), m.Session.session_id.desc())
        return self._db.execute(newest.limit(limit)).all()

    def turns(
        self, session: SessionId, limit: int, *, after: int = -1, before: int | None = None, newest: bool = False
    ) -> list[Turn]:
        """Turns between two ordinals, in order: the first ``limit`` of them, or the ``newest``."""
        where = [m.TurnRow.tenant_id == self._tenant, m.TurnRow.session_id == session, m.TurnRow.ordinal > after]
        if before is not None:
            where.append(m.TurnRow.ordinal < before)
        order = m.TurnRow.ordinal.desc() if newest else m.TurnRow.ordinal
        found = self._db.execute(sa.select(*m.TurnRow.__table__.c).where(*where).order_by(order).limit(limit)).all()
        turns = [turn_of(row._mapping) for row in found]
        return turns[::-1] if newest else turns

    def ordinal(self, session: SessionId, turn: str) -> int | None:
        found: int | None = self._db.scalar(
            sa.select(m.TurnRow.ordinal).where(
                m.TurnRow.tenant_id == self._tenant, m.TurnRow.session_id == session, m.TurnRow.external_id == turn
            )
        )
        return found

    def facts(
        self,
        forest: ForestId,
        after: int | None,
        limit: int,
        *,
        session: SessionId | None,
        subjects: Collection[str] | None,
        attributes: Collection[str] | None,
        since: datetime | None,
        until: datetime | None,
        pinned: bool | None,
        superseded: bool | None,
    ) -> Sequence[Row]:
        """Rows of facts, the one that was learned last first, from the one after this ``seq``.

        None leaves a condition out. ``subjects`` are normalized names; times are those when facts happened or, without
        a date, were mentioned.
        """
        fact = m.FactRow
        at = sa.func.coalesce(fact.time_start, fact.mentioned_at)
        where = [fact.tenant_id == self._tenant, fact.forest_id == forest]
        if after is not None:
            where.append(fact.seq < after)
        if session is not None:
            said = sa.select(m.OccurrenceRow.fact_id).where(
                m.OccurrenceRow.tenant_id == self._tenant, m.OccurrenceRow.session_id == session
            )
            where.append(fact.fact_id.in_(said))
        if subjects is not None:
            where.append(fact.subject_key.in_(subjects))
        if attributes is not None:
            where.append(fact.attribute.in_(attributes))
        if since is not None:
            where.append(at >= since)
        if until is not None:
            where.append(at < until)
        if pinned is not None:
            where.append(fact.pinned == pinned)
        if superseded is not None:
            where.append(fact.superseded_by.is_not(None) == superseded)
        return self._db.execute(sa.select(*fact.__table__.c).where(*where).order_by(fact.seq.desc()).limit(limit)).all()

    def sources(self, facts: Sequence[UUID]) -> Mapping[UUID, tuple[FactSource, ...]]:
        o, t, s = m.OccurrenceRow, m.TurnRow, m.Session
        found = self._db.execute(
            sa.select(o.fact_id, s.external_id.label("session"), t.external_id.label("turn"), t.ordinal)
            .distinct()
            .select_from(o)
            .join(
                t,
                sa.and_(
                    t.tenant_id == o.tenant_id, t.session_id == o.session_id, t.ordinal == sa.any_(o.turn_ordinals)
                ),
            )
            .join(s, sa.and_(s.tenant_id == o.tenant_id, s.session_id == o.session_id))
            .where(o.tenant_id == self._tenant, among(o.fact_id, facts))
            .order_by(s.external_id, t.ordinal)
        ).all()
        said: dict[UUID, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for row in found:
            said[row.fact_id][row.session].append(row.turn)
        return {
            fact: tuple(FactSource(session, tuple(turns)) for session, turns in sessions.items())
            for fact, sessions in said.items()
        }

    def trees(
        self, forest: ForestId, kind: TreeKind | None, after: Sequence[object] | None, limit: int
    ) -> Sequence[Row]:
        """Rows of active trees with their roots, in the order of kinds and scopes, from the one after this place."""
        r, statement = m.Tree, self._trees(forest)
        if kind is not None:
            statement = statement.where(r.kind == kind.value)
        if after is not None:
            statement = statement.where(sa.tuple_(r.kind, r.scope_key) > sa.tuple_(*after))
        return self._db.execute(statement.order_by(r.kind, r.scope_key).limit(limit)).all()

    def _trees(self, forest: ForestId) -> sa.Select[*tuple[Any, ...]]:
        r, n, s = m.Tree, m.NodeRow, m.NodeSummary
        return (
            sa.select(*r.__table__.c, n.time_start.label("root_start"), n.time_end.label("root_end"), s.text_)
            .join(n, sa.and_(n.tenant_id == r.tenant_id, n.node_id == r.root_id))
            .outerjoin(s, sa.and_(s.tenant_id == n.tenant_id, s.node_id == n.node_id))
            .where(r.tenant_id == self._tenant, r.forest_id == forest, r.state == "active")
        )

    def tree_of(self, node: NodeId) -> Row | None:
        """The tree of a node, if that is in a memory that its owner has now."""
        return self._db.execute(
            sa.select(*m.Tree.__table__.c)
            .join(m.NodeRow, sa.and_(m.NodeRow.tenant_id == m.Tree.tenant_id, m.NodeRow.tree_id == m.Tree.tree_id))
            .join(m.Forest, sa.and_(m.Forest.tenant_id == m.Tree.tenant_id, m.Forest.forest_id == m.Tree.forest_id))
            .where(m.NodeRow.tenant_id == self._tenant, m.NodeRow.node_id == node, visible())
        ).first()

    def node(self, node: NodeId) -> Row:
        return self._db.execute(self._nodes().where(m.NodeRow.node_id == node)).one()

    def neighbour(self, node: Row, *, later: bool) -> Row | None:
        """The next node on the same level, before or after one."""
        n, key, own = m.NodeRow, sa.tuple_(*ORDER), sa.tuple_(*place_of(node))
        order = ORDER if later else [column.desc() for column in ORDER]
        same = self._nodes().where(n.tree_id == node.tree_id, n.level == node.level)
        return self._db.execute(same.where(key > own if later else key < own).order_by(*order).limit(1)).first()

    def children(self, node: NodeId, after: Sequence[object] | None, limit: int) -> Sequence[Row]:
        """A node's children in the order of their keys, from the one after this key."""
        statement = self._nodes().where(m.NodeRow.parent_id == node)
        if after is not None:
            statement = statement.where(sa.tuple_(*ORDER) > sa.tuple_(*after))
        return self._db.execute(statement.order_by(*ORDER).limit(limit)).all()

    def _nodes(self, chars: int | None = None) -> sa.Select[*tuple[Any, ...]]:
        """Nodes with their texts, or with so many characters of each."""
        n, s, c, x = m.NodeRow, m.NodeSummary, m.Cell, m.FactRow
        text = sa.func.coalesce(s.text_, x.text, c.text, "")
        return (
            sa.select(
                *n.__table__.c,
                (text if chars is None else sa.func.left(text, chars)).label("text"),
                sa.case((x.fact_id.is_not(None), "fact"), (c.cell_id.is_not(None), "cell"), else_=s.source).label(
                    "source"
                ),
                x.fact_id,
            )
            .outerjoin(s, sa.and_(s.tenant_id == n.tenant_id, s.node_id == n.node_id))
            .outerjoin(c, sa.and_(c.tenant_id == n.tenant_id, c.cell_id == n.payload_id))
            .outerjoin(x, sa.and_(x.tenant_id == n.tenant_id, x.fact_id == n.payload_id))
            .where(n.tenant_id == self._tenant)
        )


def session_of(row: Row) -> StoredSession:
    return StoredSession(
        id=row.external_id,
        started_at=row.started_at,
        updated_at=row.updated_at,
        turns=row.turn_count,
        cells=row.cell_count,
        metadata=row.metadata,
        origin=row.origin_owner,
        channel=row.channel,
        pinned=row.pinned,
    )


def fact_of(row: Row, sources: Mapping[UUID, tuple[FactSource, ...]]) -> StoredFact:
    return StoredFact(
        id=FactId(row.fact_id),
        statement=from_document(row.statement),
        known_since=row.created_at,
        pinned=row.pinned,
        superseded_by=None if row.superseded_by is None else FactId(row.superseded_by),
        sources=sources.get(row.fact_id, ()),
    )


def tree_of(row: Row) -> StoredTree:
    """A tree from its row and its root's."""
    return StoredTree(
        id=TreeId(row.tree_id),
        kind=TreeKind(row.kind),
        label=row.label,
        leaves=row.leaf_count,
        height=row.height,
        k=row.k,
        root_id=NodeId(row.root_id),
        start=moment_of(row.root_start),
        end=moment_of(row.root_end),
        summary=row.text or "",
        title=row.title or "",
        title_source=row.title_source or "",
    )


def node_of(row: Row) -> TreeNode:
    return TreeNode(**node_fields(row))


def node_fields(row: Row) -> dict[str, Any]:
    """The fields of a ``TreeNode``."""
    return dict(
        id=NodeId(row.node_id),
        level=row.level,
        leaves=row.leaf_count,
        start=moment_of(row.time_start),
        end=moment_of(row.time_end),
        text=row.text,
        source=row.source or "",
        fresh=row.version == row.clean_version,
        fact_id=None if row.fact_id is None else FactId(row.fact_id),
    )


def place_of(row: Row) -> Sequence[object]:
    """A node's key: its place on its level."""
    return [row.key_time, row.key_ordinal, row.key_item, row.key_id]


def moment_of(value: int | None) -> datetime | None:
    """The datetime of a column in microseconds, if it has a value."""
    return None if value is None else from_micros(value)
