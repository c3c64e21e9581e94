"""Facts as mem0's memories: found by their ids alone, page by page with their number, through their corrections."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.store import tables as m
from memforest_core.store.owners import visible
from memforest_core.store.rows import TenantRows, among


@dataclass(frozen=True, slots=True)
class Place:
    """What a request is about."""

    owner: str
    """``user_id``, else ``agent_id``: as ``memforest ingest --format mem0`` has it."""
    session: str | None = None
    """``run_id``."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What its turns have: the caller's, and the ids that are no owner's."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A fact as a memory of mem0."""

    id: UUID
    owner: str
    text: str
    created_at: datetime
    superseded_by: UUID | None
    superseded_at: datetime | None
    session: str | None
    """Of the turn that said it first, as are the turn's id and metadata."""
    turn: str | None
    metadata: Mapping[str, Any]


class MemoryRows(TenantRows):
    """Reads of one transaction of a tenant."""

    def found(self, ids: Collection[UUID]) -> dict[UUID, Memory]:
        """The memories with these ids, of any owner."""
        rows = self._db.execute(self._memories().where(among(m.FactRow.fact_id, ids)))
        return {row.fact_id: _memory(row) for row in rows}

    def corrected_to(self, fact: UUID) -> list[Memory]:
        """The memories that were corrected to this one."""
        rows = self._db.execute(self._memories().where(m.FactRow.superseded_by == fact).order_by(m.FactRow.seq))
        return [_memory(row) for row in rows]

    def page(self, place: Place, offset: int, limit: int) -> tuple[int, Sequence[Memory]]:
        """How many memories hold at a place, and some of them, the one that was learned last first."""
        f, s, o, t = m.FactRow, m.Session, m.OccurrenceRow, m.TurnRow
        where = [m.Forest.owner == place.owner, f.superseded_by.is_(None)]
        if place.session is not None or place.metadata:
            said = (
                sa.select(o.fact_id)
                .join(s, sa.and_(s.tenant_id == o.tenant_id, s.session_id == o.session_id))
                .join(t, _turn_of(o, t))
                .where(o.tenant_id == f.tenant_id, o.fact_id == f.fact_id)
            )
            if place.session is not None:
                said = said.where(s.external_id == place.session)
            if place.metadata:
                said = said.where(t.metadata_.contains(dict(place.metadata)))
            where.append(said.exists())
        held = sa.select(sa.func.count()).select_from(f).join(m.Forest, _forest_of(f))
        count = self._db.scalar(held.where(f.tenant_id == self._tenant, visible(), *where)) or 0
        newest = self._memories().where(*where).order_by(f.seq.desc()).offset(offset).limit(limit)
        return count, [_memory(row) for row in self._db.execute(newest)]

    def _memories(self) -> sa.Select[*tuple[Any, ...]]:
        f, w, s, o, t = m.FactRow, m.Forest, m.Session, m.OccurrenceRow, m.TurnRow
        first = (
            sa.select(s.external_id.label("session"), t.external_id.label("turn"), t.metadata_.label("metadata"))
            .select_from(o)
            .join(s, sa.and_(s.tenant_id == o.tenant_id, s.session_id == o.session_id))
            .join(t, _turn_of(o, t))
            .where(o.tenant_id == f.tenant_id, o.fact_id == f.fact_id)
            .order_by(t.occurred_at, t.session_id, t.ordinal)
            .limit(1)
            .lateral()
        )
        own = (f.fact_id, f.text, f.created_at, f.superseded_by, f.superseded_at)
        return (
            sa.select(*own, w.owner, first.c.session, first.c.turn, first.c.metadata)
            .select_from(f)
            .join(w, _forest_of(f))
            .outerjoin(first, sa.true())
            .where(f.tenant_id == self._tenant, visible())
        )


def _forest_of(fact: type[m.FactRow]) -> sa.ColumnElement[bool]:
    return sa.and_(m.Forest.tenant_id == fact.tenant_id, m.Forest.forest_id == fact.forest_id)


def _turn_of(said: type[m.OccurrenceRow], turn: type[m.TurnRow]) -> sa.ColumnElement[bool]:
    return sa.and_(
        turn.tenant_id == said.tenant_id,
        turn.session_id == said.session_id,
        turn.ordinal == sa.any_(said.turn_ordinals),
    )


def _memory(row: sa.Row[*tuple[Any, ...]]) -> Memory:
    return Memory(
        row.fact_id,
        row.owner,
        row.text,
        row.created_at,
        row.superseded_by,
        row.superseded_at,
        row.session,
        row.turn,
        row.metadata or {},
    )
