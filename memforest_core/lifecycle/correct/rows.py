"""Corrections in Postgres: the old fact, the new candidates, the task and the audit in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.facts import CORRECTED_ITEM, Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, TenantId
from memforest_core.lifecycle.correct.records import Occurrence, PinnedTurn, Pins, StoredFact
from memforest_core.models.calls import CallRecord
from memforest_core.store import tables as m
from memforest_core.store.call_ledger import record_calls
from memforest_core.store.owners import ForestRows
from memforest_core.store.removal import RemovalRows
from memforest_core.store.statements import from_document, to_document
from memforest_core.store.vectors import VectorRows, text_hash
from memforest_core.work.rows.operation_rows import OperationRows

# The cells are locked by the writer of the forest; a reader needs no lock, and waits for none.
_SOURCES = """
    SELECT o.cell_id, o.turn_ordinals, k.quote, c.state FROM memforest.occurrence o
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = o.cell_id
     WHERE o.tenant_id = :t AND o.fact_id = :fact AND o.item >= 0
     ORDER BY o.cell_id, o.item
    """

_READ_SOURCES = sa.text(_SOURCES)
_LOCK_SOURCES = sa.text(f"{_SOURCES} FOR NO KEY UPDATE OF c")

_FREE_ITEMS = sa.text("""
    SELECT cell_id, max(item) + 1 AS item FROM memforest.candidate
     WHERE tenant_id = :t AND cell_id = ANY(CAST(:cells AS uuid[])) AND item >= :first GROUP BY cell_id
""")

# A window is extracted as a whole: if one of its cells were extracted again, that would contradict the correction.
_STOP_RETRIES = sa.text("""
    UPDATE memforest.cell c SET retry_at = NULL
      FROM (SELECT DISTINCT session_id, window_ordinal FROM memforest.cell
             WHERE tenant_id = :t AND cell_id = ANY(CAST(:cells AS uuid[]))) w
     WHERE c.tenant_id = :t AND c.session_id = w.session_id AND c.window_ordinal = w.window_ordinal
       AND c.retry_at IS NOT NULL
""")

_SUPERSEDE = sa.text("""
    UPDATE memforest.fact SET superseded_by = CASE WHEN fact_id = :old THEN CAST(:new AS uuid) END,
           superseded_at = CASE WHEN fact_id = :old THEN clock_timestamp() END
     WHERE tenant_id = :t AND fact_id IN (:old, :new)
""")

_WAITING = sa.text("""
    SELECT count(*) AS candidates, coalesce(bool_or(c.state = 'dead'), false) AS dead
      FROM (SELECT DISTINCT cell_id FROM memforest.occurrence
             WHERE tenant_id = :t AND fact_id = ANY(CAST(:facts AS uuid[]))) s
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = s.cell_id AND k.item >= :first
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = s.cell_id
     WHERE NOT EXISTS (SELECT 1 FROM memforest.occurrence o
                        WHERE o.tenant_id = :t AND o.cell_id = k.cell_id AND o.item = k.item)
""")

_PIN_NEW = sa.text("""
    UPDATE memforest.fact n SET pinned = true FROM memforest.fact o
     WHERE n.tenant_id = :t AND n.fact_id = :new AND o.tenant_id = :t AND o.fact_id = :old AND o.pinned
""")
_UNPIN_OLD = sa.text("""
    UPDATE memforest.fact o SET pinned = false
     WHERE o.tenant_id = :t AND o.fact_id = :old AND o.pinned
       AND EXISTS (SELECT 1 FROM memforest.fact n WHERE n.tenant_id = :t AND n.fact_id = :new)
""")


class CorrectionRows(ForestRows):
    """Rows of one transaction."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self._locked = False
        self.tasks = OperationRows(connection, tenant)
        self.vectors = VectorRows(connection, tenant)

    def owner_of(self, forest: ForestId) -> str | None:
        """Whose forest it is; None when it is gone."""
        owner: str | None = self._db.scalar(self._select(m.Forest.owner).where(m.Forest.forest_id == forest))
        return owner

    def lock_forest(self, forest: ForestId) -> str | None:
        """As in all rows; from then on the cells of facts that are read are locked too."""
        self._locked = True
        return super().lock_forest(forest)

    def fact(self, forest: ForestId, fact: FactId) -> StoredFact | None:
        x = m.FactRow
        own = self._select(x.statement, x.superseded_by).where(x.fact_id == fact, x.forest_id == forest)
        row = self._db.execute(own).first()
        if row is None:
            return None
        sources = self._run(_LOCK_SOURCES if self._locked else _READ_SOURCES, fact=fact).all()
        return StoredFact(
            id=fact,
            statement=from_document(row.statement),
            sources=tuple(Occurrence(CellId(each.cell_id), tuple(each.turn_ordinals), each.quote) for each in sources),
            superseded_by=FactId(row.superseded_by) if row.superseded_by else None,
            busy=any(each.state != "done" for each in sources),
        )

    def touched_by(self, fact: FactId) -> Mapping[str, int]:
        """How much a correction touches: rows that rest on the fact, and nodes to summarize again."""
        said = m.OccurrenceRow
        own = self._select(said.cell_id).where(said.fact_id == fact)
        cells = self._db.scalars(own).all()
        nodes, trees = RemovalRows(self._db, self._tenant).nodes_above([fact])
        return {"occurrences": len(cells), "cells": len(set(cells)), "trees": len(trees), "nodes": len(nodes)}

    def record_call(self, call: CallRecord, forest: ForestId) -> None:
        record_calls(self._db, self._tenant, [call], forest, None)

    def supersede(self, fact: FactId, by: FactId, says: Statement, sources: Sequence[Occurrence]) -> None:
        """Add the successor's statement to the cell of each source for the reducer to place, and supersede the fact
        from now on; ``by`` is the id that the successor will have.

        Summaries above it are written again, and what is stored word by word of these cells is not extracted again. A
        successor that was itself superseded before is so no longer. The caller has locked the forest.
        """
        cells = list(dict.fromkeys(source.cell_id for source in sources))
        free: dict[UUID, int] = dict.fromkeys(cells, CORRECTED_ITEM)
        free |= {row.cell_id: row.item for row in self._run(_FREE_ITEMS, cells=cells, first=CORRECTED_ITEM)}
        same = {
            "tenant_id": self._tenant,
            "statement": to_document(says),
            "text_hash": text_hash(says.text),
            "routing_hash": text_hash(says.routing_text),
        }
        added: list[dict[str, Any]] = []
        for source in sources:
            item, turns = free[source.cell_id], list(source.turn_ordinals)
            added.append(
                same | {"cell_id": source.cell_id, "item": item, "turn_ordinals": turns, "quote": source.quote}
            )
            free[source.cell_id] += 1
        self._db.execute(sa.insert(m.CandidateRow), added)
        own = self._update_rows(m.Cell).where(m.Cell.cell_id.in_(cells))
        self._db.execute(own.values(placed=False))
        self._run(_STOP_RETRIES, cells=cells)
        self._run(_SUPERSEDE, old=fact, new=by)
        RemovalRows(self._db, self._tenant).mark_payloads([fact, by])

    def set_pinned(self, fact: FactId, pinned: bool) -> None:
        self._db.execute(self._update_rows(m.FactRow).where(m.FactRow.fact_id == fact).values(pinned=pinned))

    def words(self, forest: ForestId, session: str, turn: str | None) -> tuple[SessionId, int | None] | None:
        """A session by the caller's id, or a turn of it with words, by its ordinal; None when it is not there."""
        s, t = m.Session, m.TurnRow
        own = (s.tenant_id == self._tenant, s.forest_id == forest, s.external_id == session)
        if turn is None:
            found = self._db.scalar(sa.select(s.session_id).where(*own))
            return None if found is None else (SessionId(found), None)
        same = sa.and_(t.tenant_id == s.tenant_id, t.session_id == s.session_id, t.external_id == turn, ~t.erased)
        row = self._db.execute(sa.select(t.session_id, t.ordinal).join(s, same).where(*own)).first()
        return None if row is None else (SessionId(row.session_id), row.ordinal)

    def set_words_pinned(self, session: SessionId, ordinal: int | None, pinned: bool) -> None:
        """Pin or unpin a session or a turn. The caller has locked the forest."""
        table: type[m.Session] | type[m.TurnRow] = m.Session if ordinal is None else m.TurnRow
        own = self._update_rows(table).where(table.session_id == session)
        own = own if ordinal is None else own.where(m.TurnRow.ordinal == ordinal)
        self._db.execute(own.values(pinned=pinned))

    def pins(self, forest: ForestId, limit: int) -> Pins:
        """What is pinned in a forest: sessions and turns by the caller's ids, facts by age; at most so many of each."""
        s, t, x = m.Session, m.TurnRow, m.FactRow
        sessions = self._select(s.external_id).where(s.forest_id == forest, s.pinned)
        same = sa.and_(s.tenant_id == t.tenant_id, s.session_id == t.session_id)
        turns = (
            sa.select(s.external_id.label("session"), t.external_id.label("turn"))
            .join(s, same)
            .where(t.tenant_id == self._tenant, t.pinned, s.forest_id == forest)
            .order_by(s.external_id, t.ordinal)
        )
        facts = self._select(x.fact_id).where(x.forest_id == forest, x.pinned)
        return Pins(
            tuple(self._db.scalars(sessions.order_by(s.external_id).limit(limit))),
            tuple(PinnedTurn(row.session, row.turn) for row in self._db.execute(turns.limit(limit))),
            tuple(FactId(fact) for fact in self._db.scalars(facts.order_by(x.seq).limit(limit))),
        )

    def waiting(self, facts: Sequence[FactId]) -> tuple[int, bool]:
        """How many candidates in the cells that say these facts have no fact yet, and whether such a cell is dead."""
        row = self._run(_WAITING, facts=list(facts), first=CORRECTED_ITEM).one()
        return row.candidates, row.dead

    def move_pin(self, fact: FactId, to: FactId) -> None:
        """Pin the new fact instead of the old one, if the old one was pinned and the new one exists."""
        for statement in (_PIN_NEW, _UNPIN_OLD):
            self._run(statement, old=fact, new=to)
