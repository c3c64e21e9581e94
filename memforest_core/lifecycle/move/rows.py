"""A tenant moves to another database while both are used: all copying is one transaction there, of three passes.

The first copies everything and the second what changed meanwhile; during the third the tenant is refused here. Tables,
columns and keys are those of the schema: a new one needs nothing here.

The copy is refused there until this database has decided, in one row, that it gives the tenant up: before that the move
can be cancelled without a word from the other database, and at no time do both serve the tenant.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID, uuid4, uuid5

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import InvalidInput, InvalidSettings, InvariantViolated, NotFound, StoreUnavailable
from memforest_core.index.vector_index import PointKey, VectorIndex
from memforest_core.lifecycle.backup.rows import Loading, copying, cursor_of, saved_tables
from memforest_core.settings import DatabaseSettings
from memforest_core.store import tables as m
from memforest_core.store.copying import stored_table
from memforest_core.store.engine import NO_TENANT, is_same_database, place_of, tenant_transaction, unhurried
from memforest_core.store.rows import FIRST
from memforest_core.store.schema import current_revision, head_revision, hold_back_upgrades, opened_owner

WAIT_S = 60.0
"""How long transactions that began before may hold up the last pass."""
POLL_S = 0.02
POINTS = 1_000
"""Deleted from the index at once."""
LIVE = "READ COMMITTED"
DECIDED = 5
"""The version of the id under which a move is noted here once it can't be cancelled any more."""
KEYS = "api_key"
"""These stay here, so that callers with an old key hear where the tenant is."""
AUDIT = "audit"
"""It grows at its end alone, and no row of it can be deleted: the last pass copies it."""

Forests = Collection[UUID | None]
"""None is for what belongs to no forest."""
Sums = Mapping[UUID | None, tuple[int, object]]
"""The number of rows of each forest, and the sum of their hashes."""

_BIND = sa.text("SELECT set_config('memforest.tenant', :tenant, true), set_config('timezone', 'UTC', true)")
# Two movers would end each other's refusal; they would also wait for each other's transactions.
_ALONE = sa.text("SELECT pg_try_advisory_xact_lock(hashtextextended('memforest.move', 0))")
_MODEL = sa.text("SELECT model, dimension FROM memforest.collection WHERE live")
_BEGUN = sa.text("""
    SELECT l.pid, l.virtualtransaction FROM pg_locks l JOIN pg_stat_activity a USING (pid)
     WHERE l.locktype = 'virtualxid' AND a.datname = current_database() AND a.usesysid IS NOT NULL
       AND l.pid <> pg_backend_pid()
     UNION ALL SELECT 0, gid FROM pg_prepared_xacts WHERE database = current_database()
    """)
_TO_INDEX = sa.text("""
    UPDATE memforest.index_row SET state = 'ready', indexed_version = 0, attempts = 0, lease_token = NULL,
           lease_until = NULL, worker_id = NULL, available_at = clock_timestamp()
     WHERE tenant_id = :tenant AND NOT cold
    """)


def move(database: DatabaseSettings, to: str, tenant: TenantId, index: VectorIndex) -> tuple[int, float]:
    """Move a tenant to the database at the address ``to``, and delete its rows and points here; how many rows were
    copied, and for how many seconds it was refused, both 0 if only the end of an interrupted move was left.

    Run again after an interruption it goes on. Raises InvalidInput, InvalidSettings, NotFound, IndexUnavailable, and
    StoreUnavailable also while another process moves one or a transaction does not end.
    """
    if not to.startswith("postgresql"):
        raise InvalidInput("Name the other database as --to postgresql://OWNER@HOST/DATABASE.")
    done = 0, 0.0
    with opened_owner(database) as here, opened_owner(database, to) as there, _opened(here, tenant, LIVE) as held:
        place = place_of(to)
        with ExitStack() as undoing:
            with _opened(there, tenant, LIVE) as target:
                if not _arrived(here, held, target, tenant, place):
                    done = _copied(here, held, target, tenant, place, undoing)
                _, _, move_id = _state(target, tenant)
            _decide(here, tenant, move_id)
            undoing.pop_all()
        _serve(there, tenant, move_id)
        for points in _points(here, tenant, _decided(move_id)):
            index.delete(points)
        with _opened(here, tenant) as source:
            # Another process may have ended the move, and the tenant may be back.
            if _state(source, tenant)[1] == _decided(move_id):
                _clear(source, tenant, but=KEYS)
                _mark(source, tenant, place=place, move_id=None)
    return done


def cancel(database: DatabaseSettings, tenant: TenantId) -> None:
    """End the refusal of a tenant whose move was interrupted before its end was decided; what the other database has
    of it is never served, and a later move replaces it. Raises InvalidInput, StoreUnavailable."""
    with opened_owner(database) as here:
        with _opened(here, tenant, LIVE) as source:
            _, move_id, brought_by = _state(source, tenant)
        if move_id is None or move_id == brought_by:
            raise InvalidInput("This tenant is not being moved from here.")
        if move_id.version == DECIDED or not _serve(here, tenant, move_id):
            raise InvalidInput("The other database has this tenant by now: run the move again, to its end.")


def forget(database: DatabaseSettings, tenant: TenantId) -> None:
    """Delete the rest of a tenant that was moved: its keys, and where it went. Raises InvalidInput."""
    with opened_owner(database) as here, _opened(here, tenant) as source:
        place, move_id, _ = _state(source, tenant)
        if place is None or move_id is not None:
            raise InvalidInput("This tenant was not moved from here, or its move has not ended.")
        source.execute(sa.delete(m.ApiKey).where(m.ApiKey.tenant_id == tenant))
        _mark(source, tenant, place=None)


@contextmanager
def _opened(engine: sa.Engine, tenant: TenantId, level: str = "REPEATABLE READ") -> Iterator[sa.Connection]:
    """One transaction with a tenant's rows, also while all others are refused."""
    with tenant_transaction(engine, NO_TENANT, isolation_level=level) as connection:
        unhurried(connection)
        hold_back_upgrades(connection)
        connection.execute(_BIND, {"tenant": tenant})
        yield connection


def _points(here: sa.Engine, tenant: TenantId, decided: UUID | None) -> Iterator[list[PointKey]]:
    """The points of a tenant that was given up, page by page; no transaction waits for the index."""
    row, last = m.IndexRow, FIRST
    own = sa.select(row.forest_id, row.point_id).where(row.tenant_id == tenant).order_by(row.point_id).limit(POINTS)
    while True:
        with _opened(here, tenant) as source:
            found = source.execute(own.where(row.point_id > last)).all()
            given_up = _state(source, tenant)[1] == decided
        if not (found and given_up):
            return
        yield [PointKey(tenant, ForestId(forest), point) for forest, point in found]
        last = found[-1].point_id


def _state(connection: sa.Connection, tenant: TenantId) -> tuple[str | None, UUID | None, UUID | None]:
    """Where a tenant went or is going, the move that has not ended, and the one that brought it."""
    marks = sa.select(m.MovedTenant.place, m.MovedTenant.move_id, m.MovedTenant.brought_by)
    found = connection.execute(marks.where(m.MovedTenant.tenant == tenant)).first()
    return (None, None, None) if found is None else (found.place, found.move_id, found.brought_by)


def _mark(connection: sa.Connection, tenant: TenantId, **values: str | UUID | None) -> None:
    """Change what ``_state`` gives; a tenant with a ``place`` is refused there."""
    marked = insert(m.MovedTenant).values(tenant=tenant, **values)
    connection.execute(marked.on_conflict_do_update(index_elements=["tenant"], set_=values))


def _serve(engine: sa.Engine, tenant: TenantId, move_id: UUID | None) -> bool:
    """End the refusal by a move; whether it has not ended before."""
    return _changed(engine, tenant, [move_id], place=None, move_id=None)


def _decide(here: sa.Engine, tenant: TenantId, move_id: UUID | None) -> None:
    """Give the tenant up to the copy that this move made. Raises StoreUnavailable if it was cancelled."""
    if not _changed(here, tenant, [move_id, _decided(move_id)], move_id=_decided(move_id)):
        raise StoreUnavailable("The move was cancelled: run it again.")


def _changed(engine: sa.Engine, tenant: TenantId, moves: list[UUID | None], **values: UUID | None) -> bool:
    """Change what is noted of one of these moves; False if there is none."""
    mine = m.MovedTenant.tenant == tenant, m.MovedTenant.move_id.in_(moves)
    with _opened(engine, tenant, LIVE) as connection:
        return bool(connection.execute(sa.update(m.MovedTenant).where(*mine).values(**values)).rowcount)


def _decided(move_id: UUID | None) -> UUID | None:
    return None if move_id is None else uuid5(move_id, "decided")


def _clear(connection: sa.Connection, tenant: TenantId, but: str = "") -> None:
    """Delete a tenant's rows, but those of one table, and the audit."""
    for table in _tables()[::-1]:
        if table.name != but:
            connection.execute(sa.delete(table).where(table.c.tenant_id == tenant))


def _arrived(here: sa.Engine, held: sa.Connection, target: sa.Connection, tenant: TenantId, place: str) -> bool:
    """Whether the tenant came there by this move, which was interrupted then; else it may begin."""
    if is_same_database(here, target):
        raise InvalidInput("Both addresses are of one database: name the other one.")
    both = held, target
    if not all(each.scalar(_ALONE) for each in both):
        raise StoreUnavailable("Another process moves a tenant from or to one of these databases: wait for its end.")
    if not current_revision(held) == current_revision(target) == head_revision():
        raise InvalidSettings("Run memforest db upgrade of this version for both databases first.")
    if held.execute(_MODEL).all() != target.execute(_MODEL).all():
        raise InvalidSettings("The databases differ in their embedding model, or one had no worker yet.")
    (went, move_id, _), (back, arriving, brought_by) = (_state(each, tenant) for each in both)
    known, taken = (each.scalar(sa.select(sa.exists().where(m.Tenant.tenant_id == tenant))) for each in both)
    if went is not None and (move_id is None or went != place):
        raise InvalidInput(f"The tenant was moved, or is being moved, to {went}.")
    if went is None and not known:
        raise NotFound(f"There is no tenant {tenant!r:.80}.")
    arrived = move_id is not None and move_id in (brought_by, _decided(brought_by))
    if move_id is not None and move_id.version == DECIDED and not arrived:
        raise InvalidInput(f"The tenant was moved to {went}, and has left it since or is lost there.")
    if taken and not arrived and arriving is not None and (arriving, back) == (brought_by, place_of(str(here.url))):
        _clear(target, tenant)  # What a cancelled move from here has left was never served.
    elif taken and not arrived:
        raise InvalidInput(f"{place} has a tenant of this name: name another database.")
    return arrived


def _copied(
    here: sa.Engine, held: sa.Connection, target: sa.Connection, tenant: TenantId, place: str, undoing: ExitStack
) -> tuple[int, float]:
    """Copy and compare; ``undoing`` ends the refusal."""
    before: Sums = {}
    _serve(here, tenant, _state(held, tenant)[1])
    for last in (False, False, True):
        since, move_id = time.monotonic(), uuid4()
        if last:
            undoing.callback(_serve, here, tenant, move_id)
            with _opened(here, tenant) as refusing:
                _mark(refusing, tenant, place=place, move_id=move_id)
            _await_begun(held)
        with _opened(here, tenant) as source:
            now = _sums(source, tenant)
            changed = [forest for forest in {**now, **before} if now.get(forest) != before.get(forest)]
            _replace(source, target, tenant, changed, last)
            same = _sums(source, tenant, changed, last) == _sums(target, tenant, changed, last)
        before = now
        if not same or {f: n for f, (n, _) in now.items()} != {f: n for f, (n, _) in _sums(target, tenant).items()}:
            raise InvariantViolated("The copy differs from the rows here: nothing was moved.")
    target.execute(sa.delete(m.IndexRow).where(m.IndexRow.tenant_id == tenant, m.IndexRow.deleted))
    target.execute(_TO_INDEX, {"tenant": tenant})
    Loading(target).go_on_counting()
    _mark(target, tenant, place=place_of(str(here.url)), move_id=move_id, brought_by=move_id)
    return sum(count for count, _ in now.values()), time.monotonic() - since


def _await_begun(held: sa.Connection) -> None:
    """Wait for all transactions that may have begun before the tenant was refused. Raises StoreUnavailable."""
    deadline, begun = time.monotonic() + WAIT_S, None
    while begun is None or begun:
        seen = {tuple(row) for row in held.execute(_BEGUN)}
        begun = seen if begun is None else begun & seen
        if begun and time.monotonic() > deadline:
            pids = ", ".join(sorted({str(pid) for pid, _ in begun}))
            raise StoreUnavailable(f"Transactions of Postgres' processes {pids} do not end: move the tenant later.")
        time.sleep(POLL_S)


def _replace(source: sa.Connection, target: sa.Connection, tenant: TenantId, forests: Forests, audit: bool) -> None:
    """Give the target the source's rows of some forests instead of its own, and with ``audit`` those of the log."""
    for table in _tables()[::-1]:
        keys = list(table.primary_key)
        target.execute(sa.delete(table).where(sa.tuple_(*keys).in_(_chosen(table, keys, tenant, forests))))
    for table in _tables(audit):
        columns = _columns(table)
        read = _chosen(table, columns, tenant, forests).compile(dialect=source.dialect)
        # By way of another table, because Postgres copies none into one with row security.
        target.exec_driver_sql("DROP TABLE IF EXISTS pg_temp.arriving")
        like = sa.select(*columns).where(sa.false()).compile(dialect=target.dialect)
        target.exec_driver_sql(f"CREATE TEMP TABLE arriving ON COMMIT DROP AS {like}")
        with (
            copying(),
            cursor_of(source).copy(f"COPY ({read}) TO STDOUT (FORMAT binary)", read.params) as leaving,
            cursor_of(target).copy("COPY pg_temp.arriving FROM STDIN (FORMAT binary)") as entering,
        ):
            for block in leaving:
                entering.write(block)
        names = [each.name for each in columns]
        added = insert(table).from_select(names, sa.select(sa.table("arriving", *map(sa.column, names))))
        # After a move back the first part of the audit is there.
        target.execute(added.on_conflict_do_nothing() if table.name == AUDIT else added)


def _tables(audit: bool = False) -> list[sa.Table]:
    """The tables with a tenant, parents first; the audit only if wanted."""
    return [stored_table(name) for name, own in saved_tables() if "tenant_id" in own and (audit or name != AUDIT)]


def _columns(table: sa.Table) -> list[sa.Column[Any]]:
    return [each for each in table.c if each.computed is None]


def _parent(table: sa.Table) -> sa.ForeignKeyConstraint | None:
    """Of the references to another table the one with the fewest columns that are never null."""
    keys = sorted(table.foreign_key_constraints, key=lambda key: str(key.name))
    return min(keys, key=lambda key: (len(key.columns), any(each.nullable for each in key.columns)), default=None)


def _with_forest(table: sa.Table) -> tuple[sa.FromClause, sa.ColumnElement[Any]]:
    """A table joined to those above it, and the forest with which its rows are copied: that of the topmost."""
    top = here = table
    while (key := _parent(top)) is not None:
        top = key.referred_table
    joined: sa.FromClause = table
    while (key := _parent(here)) is not None and not (top.name == "forest" and "forest_id" in here.c):
        same = sa.and_(*(each.parent == each.column for each in key.elements))
        joined, here = joined.join(key.referred_table, same), key.referred_table
    return joined, here.c.forest_id if "forest_id" in here.c else sa.cast(sa.null(), sa.Uuid())


def _chosen(
    table: sa.Table, columns: Collection[sa.ColumnElement[Any]], tenant: TenantId, forests: Forests | None
) -> sa.Select[Any]:
    """Columns of the tenant's rows of some forests, or of all."""
    joined, forest = _with_forest(table)
    rows = sa.select(*columns).select_from(joined).where(table.c.tenant_id == tenant)
    if forests is None or table.name == AUDIT:
        return rows
    own = forest == sa.any_(sa.cast([each for each in forests if each is not None], ARRAY(sa.Uuid())))
    return rows.where(sa.or_(own, forest.is_(None)) if None in forests else own)


def _sums(connection: sa.Connection, tenant: TenantId, forests: Forests | None = None, audit: bool = False) -> Sums:
    """Of some forests what is equal for equal rows, in whichever database; of all what changes with any change of a
    row here, for which only the headers of rows are read."""
    parts = []
    for table in _tables(audit):
        values = ", ".join(map(str, _columns(table)))
        words = f"{table}.ctid::text || {table}.xmin::text" if forests is None else f"ROW({values})::text"
        hashed: Any = sa.literal_column(f"CAST(hashtextextended('{table.name} ' || {words}, 0) AS numeric)")
        forest = _with_forest(table)[1]
        columns = [forest.label("forest"), sa.func.count().label("n"), sa.func.sum(hashed).label("hash")]
        parts.append(_chosen(table, columns, tenant, forests).group_by(forest))
    every = sa.union_all(*parts).subquery()
    summed = sa.select(every.c.forest, sa.func.sum(every.c.n), sa.func.sum(every.c.hash)).group_by(every.c.forest)
    return {forest: (int(n), hashed) for forest, n, hashed in connection.execute(summed)}
