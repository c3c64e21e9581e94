"""Turns that an appended one is compared with, and its topic, in the transaction that stores it."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

import numpy as np
import sqlalchemy as sa

from memforest_core.assistant.topics.choice import Said
from memforest_core.assistant.topics.rows import title_of
from memforest_core.domain.ids import ForestId, ScopeState, SessionId, TreeId, TreeKind
from memforest_core.domain.turns import Turn
from memforest_core.models.calls import Embedded
from memforest_core.store import tables as m
from memforest_core.store.call_ledger import record_calls
from memforest_core.store.rows import TenantRows
from memforest_core.store.topics import BEGINNING
from memforest_core.store.vectors import from_bytes, to_bytes, to_half

NEWEST, EACH, MOST, CHARS = 1_024, 12, 256, 1_000
"""An owner's newest turns, of which as many stand for each topic, and for all together, with so much of their texts."""

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
    WITH newest AS (
        SELECT w.session_id, w.ordinal, w.occurred_at,
               row_number() OVER own AS nth,
               count(w.vector_model) FILTER (WHERE w.vector_model = :model)
                   OVER (own ROWS BETWEEN CURRENT ROW AND :each - 1 FOLLOWING) AS vectors
          FROM (SELECT w.session_id, w.ordinal, w.tree_id, w.occurred_at, w.vector_model FROM memforest.turn_topic w
                 WHERE w.tenant_id = :t AND w.forest_id = :f ORDER BY w.occurred_at DESC LIMIT :newest) w
        WINDOW own AS (PARTITION BY w.tree_id ORDER BY w.occurred_at DESC))
    SELECT w.tree_id, coalesce(left(t.content, :chars), r.title, '') AS text,
           CASE WHEN w.vector_model = :model THEN w.vector
                WHEN newest.nth = 1 AND newest.vectors = 0 THEN r.centroid END AS vector
      FROM (SELECT * FROM newest WHERE nth <= :each ORDER BY nth, occurred_at DESC LIMIT :most) newest
      JOIN memforest.turn_topic w
        ON w.tenant_id = :t AND w.session_id = newest.session_id AND w.ordinal = newest.ordinal
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = w.session_id AND t.ordinal = w.ordinal {_ALIVE}
    """)  # noqa: S608 - constants

# A topic does not end before the transaction that gives it a turn.
_GIVE = sa.text(f"""
    WITH held AS (
        SELECT r.* FROM memforest.tree r
         WHERE r.tenant_id = :t AND r.tree_id = :tree AND r.state IN ('active', 'candidate') FOR KEY SHARE),
    given AS (
        INSERT INTO memforest.turn_topic
               (tenant_id, session_id, ordinal, forest_id, tree_id, occurred_at, matched, vector, vector_model)
        SELECT :t, :session, :ordinal, :f, held.tree_id, :at, true, :vector, :model FROM held)
    SELECT r.cold_at IS NOT NULL AS cold, r.title, began.*, NULL AS summary
      FROM held r LEFT JOIN LATERAL ({BEGINNING}) began ON true
    """)  # noqa: S608 - constants


class MatchingRows(TenantRows):
    """Rows of the transaction that stores an appended turn."""

    def running(self, forest: ForestId, session: SessionId, since: datetime) -> TreeId | None:
        """The topic of the last turn of the session that has one, or else of the forest, unless that is too old."""
        row = self._run(_BEFORE, session=session, f=forest).first()
        return None if row is None or row.occurred_at < since else TreeId(row.tree_id)

    def compared(self, forest: ForestId, model: str) -> list[Said]:
        """Turns that stand for their topics. A topic without a vector by this model has that of its facts."""
        bounds = {"newest": NEWEST, "each": EACH, "most": MOST, "chars": CHARS}
        return [
            Said(row.tree_id, row.text, None if row.vector is None else from_bytes(row.vector))
            for row in self._run(_COMPARED, f=forest, model=model, **bounds)
        ]

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
        self, forest: ForestId, session: SessionId, topic: TreeId, turn: Turn, made: Embedded | None, model: str
    ) -> tuple[str, bool] | None:
        """Give a turn its topic, and store its vector by this model and what that cost. The topic's title, and whether
        it is cold; None, and nothing is stored, when it has ended."""
        place = {"f": forest, "session": session, "ordinal": turn.ordinal, "at": turn.occurred_at, "tree": topic}
        vector = None if made is None else to_half(made.vectors[0])
        row = self._run(_GIVE, **place, vector=vector, model=model if made else None).first()
        if row is not None and made is not None:
            record_calls(self._db, self._tenant, [made.record], forest, session)
        return None if row is None else (title_of(row), row.cold)
