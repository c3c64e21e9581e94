"""Statements of the room: facts that words may mean, and turns that say them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from memforest_core.assistant.rows import PeopleRows
from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, ForestId, SessionId, TenantId
from memforest_core.domain.people import KnownPerson, name_key
from memforest_core.models.calls import Vectors
from memforest_core.recall.rows.chains import TimelineRows
from memforest_core.store import tables as m
from memforest_core.store.rows import among
from memforest_core.store.statements import from_document
from memforest_core.store.vectors import VectorRows

# A turn says other things when another fact rests on it: that is looked up in its own cells and in the fact's.
_SAYING = sa.text("""
    SELECT DISTINCT o.fact_id, o.session_id, s.external_id AS session, t.external_id AS turn, t.ordinal, s.note,
           EXISTS (SELECT 1 FROM memforest.cell c
                     JOIN memforest.occurrence p ON p.tenant_id = :t AND p.cell_id = c.cell_id
                    WHERE c.tenant_id = :t AND c.session_id = o.session_id
                      AND (c.cell_id = o.cell_id OR t.ordinal BETWEEN c.first_turn AND c.last_turn)
                      AND t.ordinal = ANY(p.turn_ordinals) AND p.fact_id <> ALL(CAST(:facts AS uuid[]))) AS mixed
      FROM memforest.occurrence o
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = o.session_id
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = o.session_id AND t.ordinal = ANY(o.turn_ordinals)
     WHERE o.tenant_id = :t AND o.fact_id = ANY(CAST(:facts AS uuid[])) AND NOT t.erased
     ORDER BY s.external_id, t.ordinal, o.fact_id
    """)

_CORRECTED_TO = sa.text("""
    WITH RECURSIVE old AS (
        SELECT x.fact_id, x.superseded_by AS newer, x.text FROM memforest.fact x
         WHERE x.tenant_id = :t AND x.forest_id = :f AND x.superseded_by = ANY(CAST(:facts AS uuid[]))
        UNION
        SELECT x.fact_id, old.newer, x.text FROM old
          JOIN memforest.fact x ON x.tenant_id = :t AND x.superseded_by = old.fact_id AND x.forest_id = :f)
    SELECT DISTINCT ON (fact_id) fact_id, newer, text FROM old
     WHERE fact_id <> ALL(CAST(:facts AS uuid[])) ORDER BY fact_id, newer
    """)

# A note is said by whom it is about.
_PINNED = sa.text("""
    SELECT x.fact_id, x.statement, n.quote, n.occurred_at FROM memforest.fact x
      LEFT JOIN LATERAL (
           SELECT k.quote, t.occurred_at FROM memforest.occurrence o
             JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = o.session_id AND s.note
             JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = o.session_id
                                  AND t.ordinal = ANY(o.turn_ordinals) AND NOT t.erased
             JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
            WHERE o.tenant_id = :t AND o.fact_id = x.fact_id AND t.speaker_id = ANY(CAST(:speakers AS text[]))
            ORDER BY t.occurred_at DESC LIMIT 1) n ON true
     WHERE x.tenant_id = :t AND x.forest_id = :f AND x.pinned AND x.superseded_at IS NULL
       AND (n.quote IS NOT NULL OR (x.attribute = '' AND x.subject_key = ANY(CAST(:subjects AS text[]))))
     ORDER BY x.seq DESC LIMIT :n
    """)

_OF_ALIAS = sa.text("""
    SELECT DISTINCT o.fact_id FROM memforest.session s
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id AND NOT t.erased
                           AND t.speaker_id = ANY(CAST(:speakers AS text[])) AND t.name = ANY(CAST(:names AS text[]))
      JOIN memforest.occurrence o ON o.tenant_id = :t AND o.session_id = s.session_id
     WHERE s.tenant_id = :t AND s.forest_id = :f AND s.note
    """)


@dataclass(frozen=True, slots=True)
class PinnedFact:
    """A pinned fact; of a note with its words and when they were said."""

    id: FactId
    statement: Statement
    quote: str | None
    said_at: datetime | None


@dataclass(frozen=True, slots=True)
class NearFact:
    """A fact with the vector of its text, if that is known."""

    id: FactId
    statement: Statement
    subject_key: str
    vector: Vectors | None


@dataclass(frozen=True, slots=True)
class Saying:
    """A turn that says one of some facts; ``mixed`` when it says others too."""

    fact_id: FactId
    session_id: SessionId
    session: str
    turn: str
    ordinal: int
    note: bool
    mixed: bool


class ProfileRows(PeopleRows):
    """Rows of one transaction of this room."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self.states = TimelineRows(connection, tenant)

    def near_facts(self, forest: ForestId, ids: Collection[UUID], model: str) -> list[NearFact]:
        """Those of these facts that exist, with their vectors by the embedding ``model``."""
        fact = m.FactRow
        rows = self._db.execute(
            self._select(fact.fact_id, fact.statement, fact.subject_key, fact.text_hash)
            .where(fact.forest_id == forest, among(fact.fact_id, ids))
            .order_by(fact.seq.desc())
        ).all()
        keys = [(forest, bytes(row.text_hash)) for row in rows]
        vectors = VectorRows(self._db, self._tenant).vectors_by_hash(model, keys)
        return [
            NearFact(FactId(row.fact_id), from_document(row.statement), row.subject_key, vectors.get(key))
            for row, key in zip(rows, keys, strict=True)
        ]

    def pinned(
        self, forest: ForestId, subjects: Collection[str], speakers: Collection[str], limit: int
    ) -> list[PinnedFact]:
        """Pinned facts about these subjects (normalized names) that set no state, and all that notes of these speakers
        say, the one learned last first."""
        found = self._run(_PINNED, f=forest, subjects=sorted(subjects), speakers=sorted(speakers), n=limit)
        return [
            PinnedFact(FactId(row.fact_id), from_document(row.statement), row.quote, row.occurred_at) for row in found
        ]

    def of_alias(self, forest: ForestId, person: KnownPerson, name: str) -> list[UUID]:
        """The facts of the notes that give somebody a name."""
        names = [each for each in person.names if name_key(each) == name_key(name)]
        return list(self._run(_OF_ALIAS, f=forest, speakers=list(person.ids), names=names).scalars())

    def corrected_to(self, forest: ForestId, facts: Collection[FactId]) -> list[tuple[FactId, FactId, str]]:
        """Facts that were corrected to one of these, directly or by way of others: their ids, to which of these, and
        their texts."""
        found = self._run(_CORRECTED_TO, f=forest, facts=list(facts))
        return [(FactId(row.fact_id), FactId(row.newer), row.text) for row in found]

    def saying(self, facts: Collection[FactId]) -> list[Saying]:
        """The turns with words that say these facts, in order."""
        return [Saying(**row._mapping) for row in self._run(_SAYING, facts=list(facts))]
