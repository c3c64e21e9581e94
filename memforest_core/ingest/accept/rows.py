"""Statements that accept sessions, in one transaction: ours or the caller's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session as OrmSession

from memforest_core.domain.cells import MAX_WINDOW_TURNS, CellCut
from memforest_core.domain.ids import ForestId, SessionId, TenantId, cell_id, session_id
from memforest_core.domain.turns import Role, Turn
from memforest_core.errors import InvalidInput, InvalidSettings
from memforest_core.index.rows import want_indexed
from memforest_core.ingest.accept.records import SessionHead, TenantLimits
from memforest_core.store import tables as m
from memforest_core.store.copying import adding, columns_of, given_to, in_columns
from memforest_core.store.engine import is_same_database, set_tenant, store_errors
from memforest_core.store.owners import ForestRef, find_forest
from memforest_core.store.rows import TenantRows, among, record_of, seconds_from_now
from memforest_core.store.turn_rows import row_of, turns_of, whole_turns
from memforest_core.store.vectors import VectorRows, cell_hash
from memforest_core.work.jobs import Lane, WorkState

SAMPLE_WINDOWS = 200
"""Waiting windows whose cells are counted one by one."""

_OF_CELL = ("ordinal", "first_turn", "last_turn", "char_start", "char_end", "text", "time_start", "time_end")
"""Columns that a cut cell has as they are."""

_NOT_A_TRANSACTION = {"25P01": "commits each statement by itself", "25P02": "has failed already"}
"""SQL states of a caller's connection that can't carry an insert."""


class AcceptRows(TenantRows):
    """Rows of one accepting transaction. The row of the session that runs is locked after the forest's and before any
    session's."""

    def find_forest(self, owner: str) -> ForestRef | None:
        """The owner's forest, which no other transaction freezes or deletes before this one ends."""
        return find_forest(self._db, self._tenant, owner, locked=True)

    def ensure_forest(self, owner: str, forest_id: ForestId, time_zone: str) -> ForestRef:
        """The owner's forest, created with this id and zone when missing."""
        self._db.execute(insert(m.Tenant).values(tenant_id=self._tenant).on_conflict_do_nothing())
        new = {"tenant_id": self._tenant, "forest_id": forest_id, "owner": owner, "time_zone": time_zone}
        self._db.execute(insert(m.Forest).values(**new).on_conflict_do_nothing())
        return self.find_forest(owner) or ForestRef(forest_id, owner, time_zone)

    def set_display_name(self, forest: ForestRef, name: str) -> None:
        """Change what the owner is called; the name is one of the owner's from now on."""
        own = sa.update(m.Forest).where(m.Forest.tenant_id == self._tenant, m.Forest.forest_id == forest.id)
        self._db.execute(own.values(display_name=name))
        self._add_speakers(forest.id, {(forest.owner, name): None})

    def lock_session(
        self,
        forest: ForestRef,
        external_id: str,
        started_at: datetime,
        lane: Lane,
        trace: str | None,
        *,
        note: bool = False,
    ) -> SessionHead:
        """The session's row, created when missing (with this lane and trace, as a note or not), locked until the
        transaction ends."""
        id_ = session_id(forest.id, external_id)
        new = insert(m.Session).values(
            tenant_id=self._tenant,
            session_id=id_,
            forest_id=forest.id,
            external_id=external_id,
            time_zone=forest.time_zone,
            started_at=started_at,
            lane=int(lane),
            trace=trace,
            note=note,
        )
        making = new.on_conflict_do_nothing().returning(m.Session.session_id)
        there = sa.select(m.Session.__table__).where(m.Session.tenant_id == self._tenant, m.Session.session_id == id_)
        row = None
        while row is None:
            # A session that was deleted between the two statements is begun again.
            made = self._db.execute(making).first()
            row = self._db.execute(there.with_for_update(key_share=True)).first()
        return record_of(SessionHead, row, id=id_, created=made is not None)

    def describe_session(
        self, session: SessionId, metadata: Mapping[str, object] | None, channel: str | None, time_zone: str | None
    ) -> None:
        """Replace the metadata, the channel and the zone of a session; None leaves one as it is."""
        values: dict[Any, object] = {} if time_zone is None else {m.Session.time_zone: time_zone}
        if metadata is not None:
            values[m.Session.metadata_] = dict(metadata)
        if channel is not None:
            values[m.Session.channel] = channel
        if values:
            self._change_session(session, values)

    def _change_session(self, session: SessionId, values: Mapping[Any, object]) -> None:
        own = sa.update(m.Session).where(m.Session.tenant_id == self._tenant, m.Session.session_id == session)
        self._db.execute(own.values(dict(values)))

    def _turns(self, *where: sa.ColumnElement[bool]) -> list[Turn]:
        t = m.TurnRow
        own = whole_turns().where(t.tenant_id == self._tenant, *where).order_by(t.ordinal)
        return turns_of(self._db.execute(own).mappings())

    def turns(self, session: SessionId, first: int = 0) -> list[Turn]:
        """Stored turns in order, from ordinal ``first``."""
        return self._turns(m.TurnRow.session_id == session, m.TurnRow.ordinal >= first)

    def turn_named(self, session: SessionId, turn_id: str) -> Turn | None:
        """The stored turn with this id."""
        found = self._turns(m.TurnRow.session_id == session, m.TurnRow.external_id == turn_id)
        return found[0] if found else None

    def held_tail(self, session: SessionId) -> tuple[int, int] | None:
        """(ordinal, first turn) of the session's open last cell, locked; None when it is closed."""
        c = m.Cell
        held = (c.tenant_id == self._tenant, c.session_id == session, c.state == WorkState.HELD)
        row = self._db.execute(sa.select(c.ordinal, c.first_turn).where(*held).with_for_update()).first()
        return (row.ordinal, row.first_turn) if row else None

    def add_turns(self, forest: ForestId, session: SessionId, turns: Sequence[Turn], *, note: bool) -> None:
        """Store new turns, and note their human speakers; a name of a ``note`` has no date: nobody spoke under it."""
        new = in_columns([{"session_id": session, **row_of(turn)} for turn in turns])
        self._db.execute(adding("turn", tuple(new)), given_to("turn", self._tenant, {}, new))
        people: dict[tuple[str, str], datetime | None] = {}
        for turn in turns:
            if turn.role is Role.USER:
                who = turn.speaker_id, turn.name
                people[who] = None if note else min(turn.occurred_at, people.get(who) or turn.occurred_at)
        if people:
            self._add_speakers(forest, people)

    def _add_speakers(self, forest: ForestId, people: Mapping[tuple[str, str], datetime | None]) -> None:
        """Note names of human speakers, and since when; the time of a known name stays."""
        self._db.execute(
            insert(m.Speaker).on_conflict_do_nothing(),
            [
                {"tenant_id": self._tenant, "forest_id": forest, "speaker_id": speaker, "name": name, "since": since}
                for (speaker, name), since in sorted(people.items())
            ],
        )

    def put_cells(
        self, forest: ForestId, session: SessionId, cells: Sequence[CellCut], lane: Lane, held_for_s: float | None
    ) -> None:
        """Store cells, ready for extraction, and mark them for indexing; with ``held_for_s``, a last cell that is not
        full stays open for that many seconds."""
        stays_open = held_for_s is not None and not cells[-1].full
        ids, count = [cell_id(session, cell.ordinal) for cell in cells], len(cells)
        new: dict[str, list[Any]] = columns_of(cells, *_OF_CELL) | {
            "cell_id": ids,
            "forest_id": [forest] * count,
            "session_id": [session] * count,
            "window_ordinal": [cell.window for cell in cells],
            "text_hash": [cell_hash(cell.text, cell.time_start) for cell in cells],
            "lane": [int(lane)] * count,
            "state": [WorkState.READY] * count,
        }
        if stays_open:
            new["state"][-1] = WorkState.HELD
        c = m.Cell
        held = c.state == WorkState.HELD
        shorter = sa.select(c.text_hash).where(c.tenant_id == self._tenant, among(c.cell_id, ids), held)
        replaced = self._db.scalars(shorter).all()
        upsert = adding("cell", tuple(new))
        renewed = ("last_turn", "text", "text_hash", "time_start", "time_end", "state", "window_ordinal")
        fresh = {name: upsert.excluded[name] for name in renewed} | {"available_at": sa.func.clock_timestamp()}
        key = ["tenant_id", "cell_id"]
        renewing = upsert.on_conflict_do_update(index_elements=key, set_=fresh, where=held)
        self._db.execute(renewing, given_to("cell", self._tenant, {}, new))
        if stays_open:
            last = sa.update(c).where(c.tenant_id == self._tenant, c.cell_id == ids[-1])
            self._db.execute(last.values(available_at=seconds_from_now(held_for_s or 0.0)))
        want_indexed(self._db, self._tenant, forest, "cell", ids, lane=int(lane))
        # After the index row was locked: no indexer can still store the vector of the shorter text.
        VectorRows(self._db, self._tenant).drop_unused(forest, [bytes(each) for each in replaced])

    def set_counts(self, session: SessionId, turns: int, cells: int) -> None:
        """Update the session's counters."""
        now = sa.func.clock_timestamp()
        self._change_session(session, {"turn_count": turns, "cell_count": cells, "updated_at": now})

    def running(self, forest: ForestId) -> str | None:
        """The id of the session that runs."""
        own = sa.select(m.RunningSession.external_id).where(*self._running(forest))
        found: str | None = self._db.scalar(own)
        return found

    def lock_running(self, forest: ForestId, otherwise: str) -> str:
        """The id of the session that runs, locked by this transaction; ``otherwise`` when none did."""
        new = insert(m.RunningSession).values(tenant_id=self._tenant, forest_id=forest, external_id=otherwise)
        self._db.execute(new.on_conflict_do_nothing())
        own = sa.select(m.RunningSession.external_id).where(*self._running(forest)).with_for_update()
        return str(self._db.execute(own).scalar_one())

    def begin(self, forest: ForestId, name: str) -> None:
        """From now on this session runs."""
        new = insert(m.RunningSession).values(tenant_id=self._tenant, forest_id=forest, external_id=name)
        since = {"external_id": name, "started_at": sa.func.clock_timestamp()}
        self._db.execute(new.on_conflict_do_update(index_elements=["tenant_id", "forest_id"], set_=since))

    def end(self, forest: ForestId, name: str) -> bool:
        """No session runs any more, if this one did; whether it did."""
        gone = sa.delete(m.RunningSession).where(*self._running(forest), m.RunningSession.external_id == name)
        return bool(self._db.execute(gone).rowcount)

    def turns_so_far(self, forest: ForestId, name: str) -> tuple[int, datetime | None]:
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

    def _running(self, forest: ForestId) -> tuple[sa.ColumnElement[bool], ...]:
        return (m.RunningSession.tenant_id == self._tenant, m.RunningSession.forest_id == forest)

    def limits(self) -> TenantLimits:
        """The tenant's own limits."""
        row = self._db.execute(sa.select(m.Tenant.__table__).where(m.Tenant.tenant_id == self._tenant)).first()
        return record_of(TenantLimits, row) if row else TenantLimits()

    def set_limits(self, limits: TenantLimits) -> None:
        """Change the tenant's own limits; a tenant that is not known yet gets its row."""
        values = asdict(limits)
        new = insert(m.Tenant).values(tenant_id=self._tenant, **values)
        self._db.execute(new.on_conflict_do_update(index_elements=["tenant_id"], set_=values))

    def waiting_cells(self, most: int) -> int:
        """How many of the tenant's cells wait for extraction, from at most ``most`` windows: exact up to two hundred;
        beyond, their number times what the next two hundred hold on average."""
        row = self._run(_WAITING, most=most, sample=min(most, SAMPLE_WINDOWS), window=MAX_WINDOW_TURNS).one()
        return int(row.sampled * max(row.windows, SAMPLE_WINDOWS) / SAMPLE_WINDOWS)

    def stored_turns(self, span_s: float) -> tuple[int, float]:
        """Turns that the tenant stored within the last ``span_s`` seconds, and the age of the oldest (0: none). The
        second turn of an appended cell counts at the time of the first."""
        row = self._run(_STORED_TURNS, span=span_s).one()
        return int(row.turns), float(row.oldest_s)


# Hidden forests are not counted: operations copy into them what was accepted before. No window has more than
# ``:window`` cells: counting them never reads on into a long session.
_WAITING = sa.text("""
    SELECT (SELECT count(*) FROM (
                SELECT 1 FROM memforest.cell c
                 WHERE c.tenant_id = :t AND c.state = 'ready' AND c.ordinal = c.window_ordinal
                   AND EXISTS (SELECT 1 FROM memforest.forest f WHERE f.tenant_id = :t AND f.forest_id = c.forest_id
                                  AND f.state IN ('live', 'frozen')) LIMIT :most) w) AS windows,
           (SELECT coalesce(sum((SELECT count(*) FROM memforest.cell c
                                  WHERE c.tenant_id = :t AND c.session_id = head.session_id
                                    AND c.ordinal >= head.ordinal AND c.ordinal < head.ordinal + :window
                                    AND c.window_ordinal = head.ordinal AND c.state = 'ready')), 0)
              FROM (SELECT session_id, ordinal FROM memforest.cell
                     WHERE tenant_id = :t AND state = 'ready' AND ordinal = window_ordinal
                     ORDER BY lane, forest_id LIMIT :sample) head) AS sampled
    """)

# A session that began before the span has stored in it what came after its last cell from before.
_STORED_TURNS = sa.text("""
    WITH span AS (SELECT clock_timestamp() - make_interval(secs => :span) AS start)
    SELECT coalesce(sum(s.turn_count - coalesce(b.turns, 0)), 0) AS turns,
           coalesce(extract(epoch FROM clock_timestamp() - min(
               CASE WHEN s.created_at >= span.start THEN s.created_at ELSE s.updated_at END)), 0)::float8 AS oldest_s
      FROM span CROSS JOIN memforest.session s
      LEFT JOIN LATERAL (
           SELECT c.last_turn + 1 AS turns FROM memforest.cell c
            WHERE c.tenant_id = :t AND c.session_id = s.session_id AND c.created_at < span.start
            ORDER BY c.ordinal DESC LIMIT 1) b ON s.created_at < span.start
     WHERE s.tenant_id = :t AND s.updated_at >= span.start
       AND EXISTS (SELECT 1 FROM memforest.forest f WHERE f.tenant_id = :t AND f.forest_id = s.forest_id
                      AND f.state IN ('live', 'frozen'))
    """)


@contextmanager
def accepting(engine: sa.Engine, tenant: TenantId, joined: object | None = None) -> Iterator[AcceptRows]:
    """One transaction; with ``joined`` (the caller's SQLAlchemy connection or session) it neither
    commits nor closes, and leaves the transaction's settings as it found them."""
    if joined is None:
        with AcceptRows.opened(engine, tenant) as rows:
            yield rows
        return
    outer = joined.connection() if isinstance(joined, OrmSession) else joined
    if not isinstance(outer, sa.Connection):
        raise InvalidInput(
            "Pass an open SQLAlchemy connection or session as the transaction to join.", code="invalid_transaction"
        )
    if outer.dialect.name != "postgresql":
        raise InvalidInput(
            f"The transaction to join is one of {outer.dialect.name}: begin it on MemForest's Postgres database.",
            code="invalid_transaction",
        )
    with store_errors(joined=True), _caller_errors():
        before = outer.scalar(sa.text("SELECT current_setting('memforest.tenant', true)"))
        if not is_same_database(engine, outer):
            raise InvalidSettings(
                "The transaction to join is one of another database: begin it on the database in"
                " MEMFOREST_DATABASE__URL, or leave it out."
            )
        with outer.begin_nested():
            set_tenant(outer, tenant)
            yield AcceptRows(outer, tenant)
        set_tenant(outer, TenantId(before or ""))


@contextmanager
def _caller_errors() -> Iterator[None]:
    """Tell the caller when it is their transaction that cannot go on, not Postgres."""
    try:
        yield
    except exc.ResourceClosedError:
        reason = "is closed"
    except exc.DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None)
        if state not in _NOT_A_TRANSACTION:
            raise
        reason = _NOT_A_TRANSACTION[state]
    else:
        return
    raise InvalidInput(f"The transaction to join {reason}: begin a new one.", code="invalid_transaction")
