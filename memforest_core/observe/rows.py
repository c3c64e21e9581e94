"""Rows for status, top, tree, cost and metrics, read off the hot paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ProgrammingError

from memforest_core.domain.ids import ForestId, TenantId, TreeId
from memforest_core.errors import InvalidSettings
from memforest_core.ingest.accept.rows import AcceptRows
from memforest_core.ingest.extract.offline.english_text import is_english
from memforest_core.observe.reading.rows import ORDER, ReadingRows, narrowed, paged, spanning
from memforest_core.observe.records import (
    CallFilter,
    CostBy,
    DrawnNode,
    LoggedCall,
    ModelCalls,
    QueueDepth,
    Spent,
    SpentOn,
    Totals,
    TreeOverview,
    Trouble,
    WorkerBeat,
)
from memforest_core.store import tables as m
from memforest_core.store.engine import transaction
from memforest_core.store.owners import visible
from memforest_core.store.rows import record_of
from memforest_core.store.schema import current_revision
from memforest_core.work.rows.pace import explained

UNDEFINED_FUNCTION = "42883"

_CALL = m.LlmCall.__table__.c

_SUMS = (
    sa.func.count().label("calls"),
    sa.func.count().filter(_CALL.outcome != "ok").label("failed"),
    *(
        sa.cast(sa.func.coalesce(sa.func.sum(_CALL[name]), 0), sa.BigInteger).label(name)
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens")
    ),
    sa.cast(sa.func.coalesce(sa.func.sum(_CALL.cost_usd), 0), sa.Double).label("cost_usd"),
)

_DEAREST: tuple[sa.ColumnElement[Any], ...] = (sa.desc("cost_usd"), sa.desc("prompt_tokens"), sa.desc("calls"))

# What was deleted has no name any more, but its calls were paid for: they keep the id.
_OWNER = sa.func.coalesce(m.Forest.owner, sa.cast(_CALL.forest_id, sa.Text), "")
_SESSION = sa.func.coalesce(m.Session.external_id, sa.cast(_CALL.session_id, sa.Text), "")
_HOUR = sa.func.to_char(sa.func.timezone("UTC", _CALL.at), 'YYYY-MM-DD"T"HH24')
_DAY = sa.func.to_char(sa.func.timezone("UTC", _CALL.at), "YYYY-MM-DD")
_NAMES: dict[CostBy, tuple[sa.ColumnElement[str], sa.ColumnElement[str]]] = {
    CostBy.SESSION: (_SESSION, _OWNER),
    CostBy.OWNER: (_OWNER, sa.literal("")),
    CostBy.STEP: (_CALL.step, sa.literal("")),
    CostBy.DAY: (_DAY, sa.literal("")),
    CostBy.HOUR: (_HOUR, sa.literal("")),
    CostBy.MODEL: (_CALL.model, sa.literal("")),
}

# The beginnings of the latest sessions, in the users' words: enough to tell their languages.
_BEGINNINGS = sa.text("""
    SELECT (SELECT string_agg(left(coalesce(t.content, c.text), 100), E'\\n' ORDER BY t.ordinal) FROM memforest.turn t
              LEFT JOIN memforest.cell c ON t.pack IS NOT NULL AND c.tenant_id = :t AND c.session_id = t.session_id
                                        AND c.first_turn = t.ordinal
             WHERE t.tenant_id = :t AND t.session_id = s.session_id AND t.role = 'user' AND t.ordinal < 8) AS text
      FROM memforest.session s
     WHERE s.tenant_id = :t AND (CAST(:f AS uuid) IS NULL OR s.forest_id = :f)
     ORDER BY s.updated_at DESC LIMIT 200
    """)


class ObserveRows(ReadingRows):
    """Reads of one transaction of a tenant. Without a forest they count the whole tenant."""

    def now(self) -> datetime:
        moment: datetime = self._db.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return moment.astimezone(UTC)

    def revision(self) -> str | None:
        return current_revision(self._db)

    def workers(self, dead_after_s: float) -> list[WorkerBeat]:
        """Worker processes, oldest first; one that was silent for longer than ``dead_after_s`` is not alive."""
        return _workers(self._db, dead_after_s)

    def backlog(self) -> list[QueueDepth]:
        """The work of this tenant that waits, runs or is dead."""
        return _backlog(self._db, self._tenant)

    def forests(self) -> int:
        statement = sa.select(sa.func.count()).where(m.Forest.tenant_id == self._tenant, visible())
        return self._db.execute(statement).scalar_one()

    def totals(self, forest: ForestId | None) -> Totals:
        """How much there is, and how much is still to do."""
        cell_state = sa.case((m.Cell.state != "done", m.Cell.state), (m.Cell.placed, "placed"), else_="extracted")
        verbatim = sa.func.count().filter(m.Cell.outcome == "verbatim")
        cells = self._db.execute(
            sa.select(cell_state.label("state"), sa.func.count().label("n"), verbatim.label("verbatim"))
            .where(*self._mine(m.Cell, forest))
            .group_by(sa.text("1"))
        ).all()
        indexed = sa.func.count().filter(m.IndexRow.kind == "cell", m.IndexRow.indexed_version > 0)
        points = self._db.execute(
            sa.select(m.IndexRow.state, sa.func.count().label("n"), indexed.label("cells"))
            .where(*self._mine(m.IndexRow, forest))
            .group_by(m.IndexRow.state)
        ).all()
        return Totals(
            cells={row.state: row.n for row in cells},
            verbatim_cells=sum(row.verbatim for row in cells),
            indexed_cells=sum(row.cells for row in points),
            index_rows={row.state: row.n for row in points},
            **self._counts(forest),
        )

    def _counts(self, forest: ForestId | None) -> dict[str, int]:
        """The other fields of ``Totals``, by their names."""

        def of(table: type[m.Base], what: sa.ColumnElement[Any], *where: sa.ColumnElement[bool]) -> Any:
            return sa.select(what).select_from(table).where(*self._mine(table, forest), *where).scalar_subquery()

        one = sa.func.count()
        nodes = (
            sa.select(one)
            .select_from(m.NodeRow)
            .join(m.Tree, sa.and_(m.Tree.tenant_id == m.NodeRow.tenant_id, m.Tree.tree_id == m.NodeRow.tree_id))
            .where(m.NodeRow.version > m.NodeRow.clean_version, *self._mine(m.Tree, forest))
        )
        counts = self._db.execute(
            sa.select(
                of(m.Session, one).label("sessions"),
                of(m.Session, sa.func.coalesce(sa.func.sum(m.Session.turn_count), 0)).label("turns"),
                of(m.FactRow, one).label("facts"),
                of(m.Tree, one, m.Tree.state == "active").label("trees"),
                of(m.Tree, one, m.Tree.due_at.is_not(None)).label("dirty_trees"),
                of(m.Tree, one, m.Tree.due_at <= sa.func.clock_timestamp()).label("due_trees"),
                nodes.scalar_subquery().label("dirty_nodes"),
            )
        ).one()
        return {name: int(count) for name, count in counts._mapping.items()}

    def not_english(self, forest: ForestId | None, means: str) -> tuple[str, ...]:
        """A sentence when some of the latest sessions are not in English; ``means`` says what that means for them."""
        if not means:
            return ()
        found = self._db.execute(_BEGINNINGS, {"t": self._tenant, "f": forest}).scalars().all()
        others = sum(not is_english(text or "") for text in found)
        latest = f"{others} of the latest {len(found)} sessions are not in English"
        return (f"{latest}: {means}.",) if others else ()

    def troubles(self, forest: ForestId | None) -> list[Trouble]:
        """What failed and why, the most frequent first."""

        def failed(kind: str, table: type[m.Cell] | type[m.IndexRow]) -> sa.Select[Any]:
            state = sa.case((table.state == "dead", table.state), else_="waiting")
            code = sa.func.coalesce(table.error_code, "")
            dead_or_waiting = sa.or_(
                table.state == "dead", sa.and_(table.state == "ready", table.error_code.is_not(None))
            )
            return sa.select(
                sa.literal(kind).label("kind"), state.label("state"), code.label("code"), table.error_text
            ).where(*self._mine(table, forest), dead_or_waiting)

        w = sa.union_all(failed("cell", m.Cell), failed("index row", m.IndexRow)).subquery()
        statement = (
            sa.select(
                *(w.c.kind, w.c.state, w.c.code),
                sa.func.coalesce(sa.func.max(w.c.error_text), "").label("reason"),
                sa.func.count().label("count"),
            )
            .group_by(w.c.kind, w.c.state, w.c.code)
            .order_by(sa.desc("count"), w.c.kind, w.c.state, w.c.code)
        )
        found = [record_of(Trouble, row) for row in self._db.execute(statement)]
        mine = sa.and_(*self._mine(m.Cell, forest))
        slow = explained(self._db, self._tenant, None, "what waits", mine)
        return found if slow is None else [Trouble("model", "waiting", slow.code, slow.message, 1), *found]

    def model_calls(self, forest: ForestId | None) -> list[ModelCalls]:
        median = sa.func.percentile_cont(0.5).within_group(_CALL.latency_ms)
        statement = (
            sa.select(
                _CALL.step,
                _CALL.model,
                *_SUMS,
                median.label("latency_p50_ms"),
                sa.func.sum(_CALL.latency_ms).label("latency_total_ms"),
            )
            .where(*self._mine(m.LlmCall, forest))
            .group_by(_CALL.step, _CALL.model)
            .order_by(_CALL.step, _CALL.model)
        )
        return [record_of(ModelCalls, row) for row in self._db.execute(statement)]

    def overviews(self, forest: ForestId, tree: TreeId | None = None) -> list[TreeOverview]:
        """Active trees, by kind, then by time; or only this one."""
        r, d = m.Tree, m.NodeRow.__table__.alias()
        dirty = (
            sa.select(sa.func.count())
            .where(d.c.tenant_id == r.tenant_id, d.c.tree_id == r.tree_id, d.c.version > d.c.clean_version)
            .scalar_subquery()
        )
        statement = self._trees(forest).add_columns(dirty.label("dirty_nodes"))
        if tree is not None:
            statement = statement.where(r.tree_id == tree)
        ordered = statement.order_by(r.kind, m.NodeRow.time_start.nulls_last(), r.label, r.tree_id)
        return [spanning(TreeOverview, row) for row in self._db.execute(ordered)]

    def nodes(self, tree: TreeId, lowest_level: int) -> Sequence[DrawnNode]:
        """A tree's nodes from ``lowest_level`` up: higher levels first, each level in key order."""
        n, c, e = m.NodeRow, m.Cell, m.Session
        statement = (
            self._nodes()
            .add_columns(sa.func.coalesce(e.external_id, "").label("session_id"))
            .outerjoin(e, sa.and_(e.tenant_id == c.tenant_id, e.session_id == c.session_id))
            .where(n.tree_id == tree, n.level >= lowest_level)
            .order_by(n.level.desc(), *ORDER)
        )
        return [spanning(DrawnNode, row, dirty=not row.fresh) for row in self._db.execute(statement)]

    def spent(self, since: datetime) -> Spent:
        """All calls since then."""
        statement = sa.select(*_SUMS).where(_CALL.tenant_id == self._tenant, _CALL.at >= since)
        return record_of(Spent, self._db.execute(statement).one())

    def spent_on(self, by: CostBy, which: CallFilter) -> list[SpentOn]:
        """Spending by one thing: days and hours in order, all else the dearest first."""
        name, owner = _NAMES[by]
        dearest = () if by in (CostBy.DAY, CostBy.HOUR) else _DEAREST
        statement = self._calls(which, name.label("name"), owner.label("owner"), *_SUMS)
        found = self._db.execute(statement.group_by(sa.text("1, 2")).order_by(*dearest, sa.text("1, 2")))
        return [record_of(SpentOn, row, spent=record_of(Spent, row)) for row in found]

    def calls(self, which: CallFilter, after: Sequence[object] | None, limit: int) -> list[LoggedCall]:
        """Single calls, the newest first, from the one after this time and id."""
        own = (_CALL[each.name] for each in fields(LoggedCall) if each.name in _CALL)
        names = (_CALL.call_id.label("id"), _OWNER.label("owner"), _SESSION.label("session_id"))
        statement = self._calls(which, *(column for column in own if column.name != "session_id"), *names)
        newest = paged(statement, [_CALL.at, _CALL.call_id], after, limit, newest=True)
        return [record_of(LoggedCall, row) for row in self._db.execute(newest)]

    def _calls(self, which: CallFilter, *columns: sa.ColumnElement[Any]) -> sa.Select[*tuple[Any, ...]]:
        """The calls of a filter with the forests and sessions that they belong to."""
        f, s = m.Forest, m.Session
        every = (
            sa.select(*columns)
            .select_from(m.LlmCall)
            .outerjoin(f, sa.and_(f.tenant_id == _CALL.tenant_id, f.forest_id == _CALL.forest_id))
            .outerjoin(s, sa.and_(s.tenant_id == _CALL.tenant_id, s.session_id == _CALL.session_id))
            .where(_CALL.tenant_id == self._tenant)
        )
        return narrowed(
            every,
            (which.owner, f.owner.__eq__),
            (which.session_id, s.external_id.__eq__),
            (which.step, _CALL.step.__eq__),
            (which.outcome, _CALL.outcome.__eq__),
            (which.since, _CALL.at.__ge__),
            (which.until, _CALL.at.__lt__),
        )

    def _mine(self, table: type[m.Base], forest: ForestId | None) -> list[sa.ColumnElement[bool]]:
        columns = table.__table__.c
        mine = [columns.tenant_id == self._tenant]
        return mine if forest is None else [*mine, columns.forest_id == forest]


class ObserveStore:
    """Reads numbers of all tenants."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def backlog(self) -> list[QueueDepth]:
        """The work of all tenants that waits, runs or is dead. Raises StoreUnavailable, InvalidSettings."""
        with transaction(self._engine) as connection:
            return _backlog(connection, None)

    def workers(self, dead_after_s: float) -> list[WorkerBeat]:
        """Worker processes, as ``ObserveRows.workers``. Raises StoreUnavailable, InvalidSettings."""
        with transaction(self._engine) as connection:
            return _workers(connection, dead_after_s)

    def fills(self, tenants: Sequence[TenantId], limit: int) -> dict[TenantId, float]:
        """Cells that wait for extraction, as a share of those that may: the tenant's own limit, or else ``limit``.

        Counted as ``enqueue`` counts them, which refuses from 1 on. Raises StoreUnavailable.
        """
        found: dict[TenantId, float] = {}
        for tenant in tenants:
            with AcceptRows.opened(self._engine, tenant) as rows:
                most = rows.limits().max_waiting_cells or limit
                found[tenant] = rows.waiting_cells(most + 1) / most
        return found


def _backlog(connection: sa.Connection, tenant: TenantId | None) -> list[QueueDepth]:
    statement = sa.text("""
        SELECT tenant_id AS tenant, kind, state, items, oldest_s FROM memforest.backlog()
         WHERE CAST(:t AS text) IS NULL OR tenant_id = :t ORDER BY tenant_id, kind, state
        """)
    try:
        rows = connection.execute(statement, {"t": tenant}).all()
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) == UNDEFINED_FUNCTION:
            raise InvalidSettings("The database is at an older version: run memforest db upgrade.") from None
        raise
    return [record_of(QueueDepth, row) for row in rows]


def _workers(connection: sa.Connection, dead_after_s: float) -> list[WorkerBeat]:
    silent_s = sa.extract("epoch", sa.func.clock_timestamp() - m.Worker.heartbeat_at).cast(sa.Double)
    statement = sa.select(
        *(m.Worker.name, m.Worker.queues, m.Worker.version, m.Worker.started_at),
        sa.func.greatest(0, silent_s).label("silent_s"),
        (silent_s <= dead_after_s).label("alive"),
    )
    ordered = statement.order_by(m.Worker.started_at, m.Worker.worker_id)
    return [record_of(WorkerBeat, row) for row in connection.execute(ordered)]
