"""Statements about the session of a forest that runs: the one that turns without a session id go to."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import ForestId, SessionId, session_id
from memforest_core.store import tables as m
from memforest_core.store.rows import TenantRows
from memforest_core.work.jobs import WorkState


class RunningRows(TenantRows):
    """Rows of one transaction; its row is locked after the forest's and before any session's."""

    def name(self, forest: ForestId) -> str | None:
        """The id of the session that runs."""
        own = sa.select(m.RunningSession.external_id).where(*self._of(forest))
        found: str | None = self._db.scalar(own)
        return found

    def lock(self, forest: ForestId, otherwise: str) -> str:
        """The id of the session that runs, locked by this transaction; ``otherwise`` when none did."""
        self._db.execute(
            insert(m.RunningSession)
            .values(tenant_id=self._tenant, forest_id=forest, external_id=otherwise)
            .on_conflict_do_nothing()
        )
        own = sa.select(m.RunningSession.external_id).where(*self._of(forest)).with_for_update()
        return str(self._db.execute(own).scalar_one())

    def begin(self, forest: ForestId, name: str) -> None:
        """From now on this session runs."""
        new = insert(m.RunningSession).values(tenant_id=self._tenant, forest_id=forest, external_id=name)
        since = {"external_id": name, "started_at": sa.func.clock_timestamp()}
        self._db.execute(new.on_conflict_do_update(index_elements=["tenant_id", "forest_id"], set_=since))

    def end(self, forest: ForestId, name: str) -> bool:
        """No session runs any more, if this one did; whether it did."""
        gone = sa.delete(m.RunningSession).where(*self._of(forest), m.RunningSession.external_id == name)
        return bool(self._db.execute(gone).rowcount)

    def turns(self, forest: ForestId, name: str) -> tuple[int, datetime | None]:
        """How many turns a session has, 0 before its first one, and when the last one was said."""
        s, t = m.Session, m.TurnRow
        last = sa.and_(t.tenant_id == s.tenant_id, t.session_id == s.session_id, t.ordinal == s.turn_count - 1)
        own = sa.select(s.turn_count, t.occurred_at).outerjoin(t, last)
        row = self._db.execute(own.where(s.tenant_id == self._tenant, s.session_id == session_id(forest, name))).first()
        return (0, None) if row is None else (row.turn_count, row.occurred_at)

    def release(self, session: SessionId) -> int:
        """Close a session's open last cell now; how many became ready."""
        c = m.Cell
        own = [c.tenant_id == self._tenant, c.session_id == session, c.state == WorkState.HELD]
        self._db.execute(sa.select(c.cell_id).where(*own).order_by(c.cell_id).with_for_update(key_share=True)).all()
        ready = {"state": WorkState.READY, "available_at": sa.func.clock_timestamp()}
        return self._db.execute(sa.update(c).where(*own).values(**ready)).rowcount

    def _of(self, forest: ForestId) -> tuple[sa.ColumnElement[bool], ...]:
        return (m.RunningSession.tenant_id == self._tenant, m.RunningSession.forest_id == forest)
