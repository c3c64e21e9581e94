"""Rows of sessions, turns, facts, trees and nodes, read by keys and in the order of an index: a statement a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, NodeId, SessionId, TreeKind
from memforest_core.domain.times import from_micros
from memforest_core.domain.turns import Turn
from memforest_core.observe.reading.records import FactSource, StoredFact, StoredOwner
from memforest_core.store import tables as m
from memforest_core.store.owners import ForestRows, visible
from memforest_core.store.rows import among, record_of
from memforest_core.store.statements import from_document
from memforest_core.store.turn_rows import turns_of, whole_turns

Row = sa.Row[*tuple[Any, ...]]
T = TypeVar("T")

ORDER = (m.NodeRow.key_time, m.NodeRow.key_ordinal, m.NodeRow.key_item, m.NodeRow.key_id)
"""A node's key: its place on its level."""


def paged(
    statement: sa.Select[*tuple[Any, ...]],
    order: Sequence[Any],
    after: Sequence[object] | None,
    limit: int,
    *,
    newest: bool = False,
) -> sa.Select[*tuple[Any, ...]]:
    """The next rows in this order, or with ``newest`` in the reverse one, from the one after a place in it."""
    if after is not None:
        place, there = sa.tuple_(*order), sa.tuple_(*after)
        statement = statement.where(place < there if newest else place > there)
    return statement.order_by(*(column.desc() if newest else column for column in order)).limit(limit)


def narrowed(
    statement: sa.Select[*tuple[Any, ...]], *wanted: tuple[object, Callable[[Any], Any]]
) -> sa.Select[*tuple[Any, ...]]:
    """The rows with these values, each with the condition that it makes; None leaves one out of account."""
    return statement.where(*(condition(value) for value, condition in wanted if value is not None))


class ReadingRows(ForestRows):
    """Reads of one transaction of a tenant."""

    def owners(self, prefix: str, after: Sequence[object] | None, limit: int) -> Sequence[StoredOwner]:
        """Owners whose ids begin with ``prefix``, in the order of their ids, from the one after this one."""
        f, s, x = m.Forest, m.Session, m.FactRow
        turns = sa.func.coalesce(sa.func.sum(s.turn_count), 0).label("turns")
        said = sa.select(sa.func.count().label("sessions"), turns, sa.func.max(s.updated_at).label("updated_at"))
        counted = said.where(s.tenant_id == f.tenant_id, s.forest_id == f.forest_id).lateral()
        facts = sa.select(sa.func.count()).where(x.tenant_id == f.tenant_id, x.forest_id == f.forest_id)
        statement = (
            self._select(f.owner, f.display_name, facts.scalar_subquery().label("facts"), *counted.c)
            .join(counted, sa.true())
            .where(visible(), f.owner.startswith(prefix, autoescape=True))
        )
        return [record_of(StoredOwner, row) for row in self._db.execute(paged(statement, [f.owner], after, limit))]

    def fact(self, forest: ForestId, fact: UUID) -> Row | None:
        own = (m.FactRow.forest_id == forest, m.FactRow.fact_id == fact)
        return self._db.execute(self._select(*m.FactRow.__table__.c).where(*own)).first()

    def session(self, forest: ForestId, external_id: str) -> SessionId | None:
        found = self._db.scalar(
            self._select(m.Session.session_id).where(
                m.Session.forest_id == forest, m.Session.external_id == external_id
            )
        )
        return None if found is None else SessionId(found)

    def sessions(self, forest: ForestId, after: Sequence[object] | None, limit: int) -> Sequence[Row]:
        """Rows of sessions, the newest first, from the one after this place."""
        s = m.Session
        statement = self._select(*s.__table__.c).where(s.forest_id == forest)
        return self._db.execute(paged(statement, [s.started_at, s.session_id], after, limit, newest=True)).all()

    def turns(
        self, session: SessionId, limit: int, *, after: int = -1, before: int | None = None, newest: bool = False
    ) -> list[Turn]:
        """Turns between two ordinals, in order: the first ``limit`` of them, or the ``newest``."""
        where = [m.TurnRow.tenant_id == self._tenant, m.TurnRow.session_id == session, m.TurnRow.ordinal > after]
        if before is not None:
            where.append(m.TurnRow.ordinal < before)
        order = m.TurnRow.ordinal.desc() if newest else m.TurnRow.ordinal
        turns = turns_of(self._db.execute(whole_turns().where(*where).order_by(order).limit(limit)).mappings())
        return turns[::-1] if newest else turns

    def ordinal(self, session: SessionId, turn: str) -> int | None:
        found: int | None = self._db.scalar(
            self._select(m.TurnRow.ordinal).where(m.TurnRow.session_id == session, m.TurnRow.external_id == turn)
        )
        return found

    def facts(
        self,
        forest: ForestId,
        after: Sequence[object] | None,
        limit: int,
        *,
        session: SessionId | None,
        subjects: Collection[str] | None,
        attributes: Collection[str] | None,
        since: datetime | None,
        until: datetime | None,
        pinned: bool | None,
        superseded: bool | None,
        also: Sequence[sa.ColumnElement[bool]] = (),
    ) -> Sequence[Row]:
        """Rows of facts, the one that was learned last first, from the one after this ``seq``.

        None leaves a condition out. ``subjects`` are normalized names; times are those when facts happened or, without
        a date, were mentioned. ``also`` are further conditions.
        """
        f, o = m.FactRow, m.OccurrenceRow
        at = sa.func.coalesce(f.time_start, f.mentioned_at)
        said = self._select(o.fact_id).where(o.session_id == session)
        statement = narrowed(
            self._select(*f.__table__.c).where(f.forest_id == forest, *also),
            (session, lambda _: f.fact_id.in_(said)),
            (subjects, f.subject_key.in_),
            (attributes, f.attribute.in_),
            (since, at.__ge__),
            (until, at.__lt__),
            (pinned, f.pinned.__eq__),
            (superseded, f.superseded_by.is_not(None).__eq__),
        )
        return self._db.execute(paged(statement, [f.seq], after, limit, newest=True)).all()

    def sources(self, facts: Sequence[UUID]) -> Mapping[UUID, tuple[FactSource, ...]]:
        o, t, s = m.OccurrenceRow, m.TurnRow, m.Session
        found = self._db.execute(
            self._select(o.fact_id, s.external_id.label("session"), t.external_id.label("turn"), t.ordinal)
            .distinct()
            .select_from(o)
            .join(
                t,
                sa.and_(
                    t.tenant_id == o.tenant_id, t.session_id == o.session_id, t.ordinal == sa.any_(o.turn_ordinals)
                ),
            )
            .join(s, sa.and_(s.tenant_id == o.tenant_id, s.session_id == o.session_id))
            .where(among(o.fact_id, facts))
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
        r = m.Tree
        statement = narrowed(self._trees(forest), (kind, r.kind.__eq__))
        return self._db.execute(paged(statement, [r.kind, r.scope_key], after, limit)).all()

    def _trees(self, forest: ForestId) -> sa.Select[*tuple[Any, ...]]:
        r, n, s = m.Tree, m.NodeRow, m.NodeSummary
        return (
            self._select(
                r.tree_id.label("id"),
                *(r.kind, r.label, r.scope_key, r.height, r.k, r.root_id, r.due_at, n.time_start, n.time_end),
                r.leaf_count.label("leaves"),
                sa.func.coalesce(s.text_, "").label("summary"),
                *(sa.func.coalesce(column, "").label(column.key) for column in (r.title, r.title_source)),
            )
            .join(n, sa.and_(n.tenant_id == r.tenant_id, n.node_id == r.root_id))
            .outerjoin(s, sa.and_(s.tenant_id == n.tenant_id, s.node_id == n.node_id))
            .where(r.forest_id == forest, r.state == "active")
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
        same = self._nodes().where(m.NodeRow.tree_id == node.tree_id, m.NodeRow.level == node.level)
        return self._db.execute(paged(same, ORDER, place_of(node), 1, newest=not later)).first()

    def children(self, node: NodeId, after: Sequence[object] | None, limit: int) -> Sequence[Row]:
        """A node's children in the order of their keys, from the one after this key."""
        return self._db.execute(paged(self._nodes().where(m.NodeRow.parent_id == node), ORDER, after, limit)).all()

    def _nodes(self, chars: int | None = None) -> sa.Select[*tuple[Any, ...]]:
        """Nodes with their texts, or with so many characters of each."""
        n, s, c, x = m.NodeRow, m.NodeSummary, m.Cell, m.FactRow
        text = sa.func.coalesce(s.text_, x.text, c.text, "")
        return (
            self._select(
                *n.__table__.c,
                n.node_id.label("id"),
                n.leaf_count.label("leaves"),
                (n.version == n.clean_version).label("fresh"),
                (text if chars is None else sa.func.left(text, chars)).label("text"),
                sa.case(
                    (x.fact_id.is_not(None), "fact"),
                    (c.cell_id.is_not(None), "cell"),
                    else_=sa.func.coalesce(s.source, ""),
                ).label("source"),
                x.fact_id,
            )
            .outerjoin(s, sa.and_(s.tenant_id == n.tenant_id, s.node_id == n.node_id))
            .outerjoin(c, sa.and_(c.tenant_id == n.tenant_id, c.cell_id == n.payload_id))
            .outerjoin(x, sa.and_(x.tenant_id == n.tenant_id, x.fact_id == n.payload_id))
        )


def fact_of(row: Row, sources: Mapping[UUID, tuple[FactSource, ...]]) -> StoredFact:
    given = {"statement": from_document(row.statement), "sources": sources.get(row.fact_id, ())}
    return record_of(StoredFact, row, id=row.fact_id, known_since=row.created_at, **given)


def spanning(kind: type[T], row: Row, **given: Any) -> T:
    """A record from a row with an interval in microseconds: of a tree its root's."""
    moments = (None if value is None else from_micros(value) for value in (row.time_start, row.time_end))
    return record_of(kind, row, **dict(zip(("start", "end"), moments, strict=True)), **given)


def place_of(row: Row) -> Sequence[object]:
    """A node's key: its place on its level."""
    return [row.key_time, row.key_ordinal, row.key_item, row.key_id]
