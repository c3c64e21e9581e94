"""Facts as mem0's memories: found by their ids alone, page by page with their number, through their corrections."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.errors import NotFound
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
    session: str | None
    """Of the turn that said it first, as are the turn's id and metadata."""
    turn: str | None
    metadata: Mapping[str, Any]


def unknown(id_: str) -> NotFound:
    """The error for an id that names no memory."""
    return NotFound(f"There is no memory {id_!r:.60}: take an id from an answer of add, search or get_all.")


class MemoryRows(TenantRows):
    """Reads of one transaction of a tenant."""

    def found(self, ids: Collection[UUID]) -> dict[UUID, Memory]:
        """The memories with these ids, of any owner."""
        return {each.id: each for each in self._read(self._memories().where(among(m.FactRow.fact_id, ids)))}

    def corrected_to(self, fact: UUID) -> list[Memory]:
        """The memories that were corrected to this one."""
        return self._read(self._memories().where(m.FactRow.superseded_by == fact).order_by(m.FactRow.seq))

    def versions(self, id_: str) -> Sequence[Memory]:
        """A memory as it was and is, the oldest first: by the id of any of its versions. Raises NotFound."""
        try:
            memory = self.found([UUID(id_)])[UUID(id_)]
        except (ValueError, KeyError):
            raise unknown(id_) from None
        while memory.superseded_by is not None and (newer := self.found([memory.superseded_by])):
            memory = newer[memory.superseded_by]
        versions, older = [memory], self.corrected_to(memory.id)
        while older:
            versions = older + versions
            older = [each for one in older for each in self.corrected_to(one.id)]
        return versions

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
        return count, self._read(self._memories().where(*where).order_by(f.seq.desc()).offset(offset).limit(limit))

    def _read(self, memories: sa.Select[*tuple[Any, ...]]) -> list[Memory]:
        return [Memory(**row._mapping) for row in self._db.execute(memories)]

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
        own = (f.fact_id.label("id"), w.owner, f.text, f.created_at, f.superseded_by)
        metadata = sa.func.coalesce(first.c.metadata, sa.literal({}, first.c.metadata.type)).label("metadata")
        return (
            sa.select(*own, first.c.session, first.c.turn, metadata)
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
