"""Turns that an appended one is compared with, and its topic, in the transaction that stores it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID, uuid4

import numpy as np
import sqlalchemy as sa

from memforest_core.assistant.topics.rows import title_of
from memforest_core.domain.ids import CellId, FactId, ForestId, ScopeState, SessionId, TreeId, TreeKind
from memforest_core.domain.topic_choice import Before
from memforest_core.domain.turns import Turn
from memforest_core.models.calls import Embedded, Vectors
from memforest_core.store import tables as m
from memforest_core.store.call_ledger import record_calls
from memforest_core.store.rows import TenantRows
from memforest_core.store.topics import BEGINNING
from memforest_core.store.vectors import from_bytes, to_bytes, to_half

NEWEST = 256
"""Newest turns of an owner that a turn is compared with, besides those of the nearest cells and facts."""

# Of this forest: the search came before the transaction, and the owner may have another one since.
_ALIVE = """JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = w.tree_id AND r.forest_id = :f
              AND r.kind = 'scene' AND r.state IN ('active', 'candidate')"""

# A new session goes on with what its owner talked of last.
_BEFORE = sa.text(f"""
    (SELECT w.tree_id, w.occurred_at FROM memforest.turn_topic w {_ALIVE}
      WHERE w.tenant_id = :t AND w.session_id = :session ORDER BY w.ordinal DESC LIMIT 1)
    UNION ALL
    (SELECT w.tree_id, w.occurred_at FROM memforest.turn_topic w {_ALIVE}
      WHERE w.tenant_id = :t AND w.forest_id = :f
      ORDER BY w.occurred_at DESC, w.session_id DESC, w.ordinal DESC LIMIT 1)
     LIMIT 1
    """)  # noqa: S608 - constants

_COMPARED = sa.text(f"""
    WITH near AS (
        SELECT c.session_id, u.ordinal, c.cell_id FROM memforest.cell c
         CROSS JOIN LATERAL generate_series(c.first_turn, c.last_turn) AS u(ordinal)
         WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:cells AS uuid[]))
        UNION
        SELECT o.session_id, u.ordinal, NULL FROM memforest.occurrence o
         CROSS JOIN LATERAL unnest(o.turn_ordinals) AS u(ordinal)
         WHERE o.tenant_id = :t AND o.fact_id = ANY(CAST(:facts AS uuid[]))),
    compared AS (
        SELECT w.session_id, w.ordinal, w.tree_id, w.vector, w.vector_model, near.cell_id
          FROM near JOIN memforest.turn_topic w
            ON w.tenant_id = :t AND w.session_id = near.session_id AND w.ordinal = near.ordinal
        UNION ALL
       (SELECT w.session_id, w.ordinal, w.tree_id, w.vector, w.vector_model, NULL FROM memforest.turn_topic w
         WHERE w.tenant_id = :t AND w.forest_id = :f ORDER BY w.occurred_at DESC LIMIT :n))
    SELECT DISTINCT ON (w.session_id, w.ordinal) w.tree_id, w.cell_id,
           CASE w.vector_model WHEN :model THEN w.vector END AS vector
      FROM compared w {_ALIVE} ORDER BY w.session_id, w.ordinal, w.cell_id
    """)  # noqa: S608 - constants

_HELD = sa.text(f"""
    SELECT r.cold_at IS NOT NULL AS cold, r.title, began.*, NULL AS summary
      FROM memforest.tree r LEFT JOIN LATERAL ({BEGINNING}) began ON true
     WHERE r.tenant_id = :t AND r.tree_id = :tree AND r.state IN ('active', 'candidate') FOR KEY SHARE OF r
    """)  # noqa: S608 - constants


class MatchingRows(TenantRows):
    """Rows of the transaction that stores an appended turn."""

    def before(self, forest: ForestId, session: SessionId) -> Before | None:
        """The last turn of the session that has a topic, or else of the forest."""
        row = self._run(_BEFORE, session=session, f=forest).first()
        return None if row is None else Before(row.tree_id, row.occurred_at)

    def compared(
        self, forest: ForestId, cells: Sequence[CellId], facts: Sequence[FactId], model: str
    ) -> list[tuple[TreeId, Vectors | None, CellId | None]]:
        """The newest turns and those of these cells and facts: topic, vector by this model if there is one, and which
        of the cells it is in."""
        found = self._run(_COMPARED, f=forest, cells=list(cells), facts=list(facts), model=model, n=NEWEST)
        return [
            (TreeId(row.tree_id), None if row.vector is None else from_bytes(row.vector), row.cell_id) for row in found
        ]

    def hold(self, topic: UUID) -> tuple[str, bool] | None:
        """A topic's title, and whether it is cold; None when it has ended. It does not end before the transaction."""
        row = self._run(_HELD, tree=topic).first()
        return None if row is None else (title_of(row), row.cold)

    def begin(self, forest: ForestId, k: int, dimension: int, said_at: datetime) -> TreeId:
        """A new topic, which has no facts yet."""
        topic, now = TreeId(uuid4()), sa.func.clock_timestamp()
        scope = {"kind": TreeKind.SCENE.value, "scope_key": str(topic), "label": "", "k": k}
        spans = {"time_start": said_at, "time_end": said_at, "begun_at": now, "state": ScopeState.CANDIDATE.value}
        own = {"tenant_id": self._tenant, "tree_id": topic, "forest_id": forest}
        zero = to_bytes(np.zeros(dimension, np.float32))
        self._db.execute(sa.insert(m.Tree).values(**own, **scope, **spans, centroid=zero))
        return topic

    def give(
        self, forest: ForestId, session: SessionId, turn: Turn, topic: UUID, made: Embedded | None, model: str
    ) -> None:
        """Give a turn its topic, and store its vector by this model and what that cost."""
        place = {"forest_id": forest, "session_id": session, "ordinal": turn.ordinal, "occurred_at": turn.occurred_at}
        vector = {} if made is None else {"vector": to_half(made.vectors[0]), "vector_model": model}
        own = {"tenant_id": self._tenant, "tree_id": topic, "matched": True}
        self._db.execute(sa.insert(m.TurnTopic).values(**own, **place, **vector))
        if made is not None:
            record_calls(self._db, self._tenant, [made.record], forest, session)
