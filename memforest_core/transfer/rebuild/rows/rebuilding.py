"""Building a forest anew beside the live one, in Postgres: sessions are copied, compared, and at the end switched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import CellId, ForestId, NodeId, SessionId, TenantId, cell_id, session_id
from memforest_core.index.wanted_rows import want_indexed
from memforest_core.reduce.records import HELD, Rules
from memforest_core.store import tables as m
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import lock_forests, set_forest_state, visible
from memforest_core.store.removal import RemovalRows
from memforest_core.store.trees import bury_points, lock_nodes
from memforest_core.transfer.rebuild.records import Copied, Difference, Pair, Remaining, SourceForest
from memforest_core.transfer.rebuild.rows import sql
from memforest_core.transfer.rebuild.rows.plan import PlanRows

_FIRST = UUID(int=0)
_MOST_SESSIONS = 200
"""Sessions copied in one transaction, however short they are."""


class CopyRows(RemovalRows):
    """Rows of one transaction of a tenant that builds a forest anew."""

    def find(self, owner: str) -> SourceForest | None:
        """The owner's forest."""
        return self._source(m.Forest.owner == owner, visible())

    def forest(self, forest: ForestId) -> SourceForest | None:
        """A forest in whatever state."""
        return self._source(m.Forest.forest_id == forest)

    def _source(self, *where: sa.ColumnElement[bool]) -> SourceForest | None:
        row = self._db.execute(
            sa.select(m.Forest.forest_id, m.Forest.owner, m.Forest.state, m.Forest.rules).where(
                m.Forest.tenant_id == self._tenant, *where
            )
        ).first()
        return SourceForest(ForestId(row.forest_id), row.owner, row.state, row.rules) if row is not None else None

    def hidden(self, owner: str) -> Sequence[ForestId]:
        """Forests of the owner that are built beside the live one, or were."""
        found = self._db.scalars(
            sa.select(m.Forest.forest_id).where(
                m.Forest.tenant_id == self._tenant,
                m.Forest.owner == owner,
                m.Forest.state == "hidden",
                m.Forest.rules.has_key(HELD),
            )
        )
        return [ForestId(each) for each in found]

    def begin(self, pair: Pair, rules: Rules, *, forget_summaries: bool) -> bool:
        # A deletion looks for copies with the same lock.
        """Make the hidden forest, unless it is there; ``forget_summaries``: none of the source's is used again.

        False while a deletion is at the source.
        """
        lock_forests(self._db, self._tenant, [pair.source])
        if self._db.scalar(sql.BEING_DELETED_FROM, self._pair(pair)):
            return False
        statement = sql.BEGIN.bindparams(sa.bindparam("rules", type_=m.Forest.rules.type))
        self._db.execute(statement, self._pair(pair) | {"rules": dict(rules) | {HELD: 1}})
        self._db.execute(sql.COPY_SPEAKERS, self._pair(pair))
        if forget_summaries:
            self._db.execute(sql.FORGET_SUMMARIES, self._pair(pair))
        return True

    def kept(self, copy: ForestId) -> bool:
        """Whether the copy is hidden still, and stays so until this transaction ends: no deletion has taken it."""
        return self._db.scalar(sql.KEEP_COPY, {"t": self._tenant, "copy": copy}) is not None

    def sessions_after(self, source: ForestId, after: SessionId | None, turns: int) -> Sequence[SessionId]:
        """The next sessions in the order of ids, of about so many turns together; at least one while there is one."""
        values = {"t": self._tenant, "source": source, "after": after or _FIRST, "n": _MOST_SESSIONS}
        chosen: list[SessionId] = []
        total = 0
        for row in self._db.execute(sql.SESSIONS_AFTER, values):
            total += row.turn_count
            if chosen and total > turns:
                break
            chosen.append(SessionId(row.session_id))
        return chosen

    def differing(self, pair: Pair, limit: int, session: SessionId | None = None) -> Sequence[Difference]:
        """Sessions (or that one of the source) whose turns, cells, or candidates are not the same in both."""
        values = self._pair(pair) | {"n": limit, "session": session}
        return [
            Difference(
                SessionId(row.source) if row.source is not None else None,
                SessionId(row.copy) if row.copy is not None else None,
            )
            for row in self._db.execute(sql.DIFFERING, values)
        ]

    def copy_session(self, pair: Pair, session: SessionId) -> Copied:
        """Copy what the copy of a session lacks; cells that wait for extraction get a place that nobody works on."""
        values = self._pair(pair) | {"old": session}
        name = self._db.scalar(sql.LOCK_SESSION, values)
        if name is None:
            return Copied()
        new = session_id(pair.copy, name)
        values |= {"new": new}
        for statement in (sql.COPY_SESSION, sql.COPY_TURNS, sql.COPY_SPEAKERS, sql.COPY_VECTORS):
            self._db.execute(statement, values)
        return self._copy_cells(pair, new, values)

    def _copy_cells(self, pair: Pair, new: SessionId, values: dict[str, Any]) -> Copied:
        """Cells that are not there yet or only have a place, and the candidates of those that are extracted."""
        cells = self._db.execute(sql.CELLS, values).all()
        places = {row.ordinal: row.cell_id for row in self._db.execute(sql.DROP_PLACES, values)}
        bury_points(self._db, self._tenant, [places[gone] for gone in places.keys() - {c.ordinal for c in cells}])
        there = set(
            self._db.scalars(
                sa.select(m.Cell.ordinal).where(m.Cell.tenant_id == self._tenant, m.Cell.session_id == new)
            )
        )
        missing = [cell for cell in cells if cell.ordinal not in there]
        if not missing:
            return Copied()
        copies = {cell.cell_id: cell_id(new, cell.ordinal) for cell in missing}
        self._db.execute(
            sql.COPY_CELLS,
            values
            | {
                "olds": list(copies),
                "news": list(copies.values()),
                "states": [_state(cell, pair.extract) for cell in missing],
            },
        )
        done = [cell.cell_id for cell in missing if not cell.on_its_way and not pair.extract]
        candidates = self._db.execute(
            sql.COPY_CANDIDATES, {"t": self._tenant, "olds": done, "news": [copies[cell] for cell in done]}
        ).rowcount
        want_indexed(self._db, self._tenant, pair.copy, "cell", list(copies.values()), lane=1)
        return Copied(int(not there), len(missing), candidates)

    def lock(self, forest: ForestId) -> None:
        """Become the forest's only writer, waiting for whoever is."""
        lock_forests(self._db, self._tenant, [forest])

    def set_aside(self, session: SessionId) -> Sequence[CellId]:
        """Mark all that a session said as superseded; its cells."""
        self._db.execute(sql.SET_ASIDE, {"t": self._tenant, "session": session})
        cells = sa.select(m.Cell.cell_id).where(m.Cell.tenant_id == self._tenant, m.Cell.session_id == session)
        return [CellId(cell) for cell in self._db.scalars(cells)]

    def drop_session(self, forest: ForestId, session: SessionId) -> None:
        """Delete a session of which no fact is left: its tree, cells and turns; their points get tombstones."""
        values = {"t": self._tenant, "f": forest, "s": session}
        nodes = [NodeId(node) for node in self._db.scalars(sql.SESSION_NODES, values)]
        cells = self._db.scalars(
            sa.select(m.Cell.cell_id).where(m.Cell.tenant_id == self._tenant, m.Cell.session_id == session)
        ).all()
        lock_nodes(self._db, self._tenant, nodes)
        bury_points(self._db, self._tenant, [*nodes, *cells])
        for statement in sql.DROP_SESSION:
            self._db.execute(statement, values)

    def remaining(self, copy: ForestId) -> Remaining:
        """What the copy still has to do."""
        row = self._db.execute(sql.REMAINING, {"t": self._tenant, "f": copy}).one()
        return Remaining(row.extracting, row.placing, row.trees, row.points, row.dead)

    def make_due(self, copy: ForestId) -> None:
        """The copy is placed: its trees may be refreshed now."""
        self._db.execute(sql.MAKE_DUE, {"t": self._tenant, "f": copy})

    def carry_candidates(self, pair: Pair) -> int:
        """Give the copy what people have said explicitly and a new extraction left out; how many are to be placed."""
        return self._db.execute(sql.CARRY_CANDIDATES, self._pair(pair)).rowcount

    def carry_states(self, pair: Pair) -> int:
        """Give facts of the copy their pins and successors; how many facts changed."""
        changed = self._db.execute(sql.CARRY_STATES, self._pair(pair)).all()
        # What quotes a fact that is superseded now is written again.
        self.mark_payloads([row.fact_id for row in changed if row.changed])
        return len(changed)

    def busy(self, source: ForestId) -> bool:
        """Whether a deletion or a correction of the forest is not done, or a cell is being extracted."""
        return bool(self._db.scalar(sql.BUSY, {"t": self._tenant, "source": source}))

    def switch(self, pair: Pair) -> bool:
        """Make the copy the owner's forest and the source gone; False when they are not the same, and nothing is done.

        Holds both forests, and waits for sessions that are being accepted.
        """
        states = lock_forests(self._db, self._tenant, [pair.source, pair.copy])
        self._db.execute(sql.LOCK_SOURCE, self._pair(pair))
        if states.get(pair.copy) != "hidden" or states.get(pair.source) != "live":
            return False
        left = self.remaining(pair.copy)
        if not left.done or self.busy(pair.source) or self.differing(pair, 1):
            return False
        if self.carry_states(pair):
            # Their summaries are refreshed first, so that the switch shows nothing stale.
            return False
        for statement in (*sql.SWITCH, *sql.FOLLOW):
            self._db.execute(statement, self._pair(pair))
        return True

    def attribute(self, pair: Pair) -> None:
        """What was paid for the source's words is the copy's now: cached answers, and calls in the accounts."""
        for statement in sql.ATTRIBUTE:
            self._db.execute(statement, self._pair(pair))
        self._texts.drop_orphans(pair.copy)

    def set_gone(self, forest: ForestId) -> None:
        """The forest is nobody's."""
        set_forest_state(self._db, self._tenant, forest, "gone")

    def _pair(self, pair: Pair) -> dict[str, Any]:
        return {"t": self._tenant, "source": pair.source, "copy": pair.copy, "extract": pair.extract}


def _state(cell: sa.Row[Any], extract: bool) -> str:
    """In which state a cell's copy begins."""
    if cell.on_its_way:
        return "held"
    if extract:
        return "done" if cell.erased else "ready"
    return "dead" if cell.state == "dead" and not cell.placed else "done"


class CopyStore:
    """Opens transactions."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def copying(self, tenant: TenantId) -> Iterator[CopyRows]:
        """One transaction of a tenant that builds a forest anew."""
        with tenant_transaction(self._engine, tenant) as connection:
            yield CopyRows(connection, tenant)

    @contextmanager
    def planning(self, tenant: TenantId) -> Iterator[PlanRows]:
        """One transaction of a tenant that only reads."""
        with tenant_transaction(self._engine, tenant) as connection:
            yield PlanRows(connection, tenant)
