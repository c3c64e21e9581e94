"""Workers, leases and the id-only view across tenants, in Postgres."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from operator import itemgetter

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import TenantId, WorkerId
from memforest_core.store import tables as m
from memforest_core.store.engine import NO_TENANT, transaction
from memforest_core.store.reads import Read, Reader, Rows
from memforest_core.store.repeating import repeated
from memforest_core.store.rows import TenantRows, seconds_from_now
from memforest_core.work.jobs import LeaseLimits, WorkKind, WorkState

_RECONCILE_LOCK = 0x6D667263
_WAITING = sa.text("SELECT tenant_id FROM memforest.waiting(:kind)")
_NEXT_WAITING = sa.text("SELECT tenant_id, lane FROM memforest.next_waiting(:kind, :after, :most)")
VERSION = version("memforest")

_ALIVE = """SELECT worker_id FROM memforest.worker
             WHERE heartbeat_at > clock_timestamp() - make_interval(secs => :dead_after)"""

_LOST = f"(lease_until <= clock_timestamp() OR worker_id NOT IN ({_ALIVE}))"

_LEASE_ENDS = "lost_leases = least(lost_leases + 1, 1000), lease_token = NULL, lease_until = NULL, worker_id = NULL"


def _freeing(
    table: str, key: str, doing: str, change: str, held: str = "state = 'running'", only: str = "", more: str = ""
) -> sa.TextClause:
    """The statement that frees work whose lease is lost. Work that loses its workers often may be what kills them: past
    the limit it waits for a person, and its error says what they were ``doing``."""
    return sa.text(f"""
        WITH lost AS MATERIALIZED (
            SELECT {key}{more} FROM memforest.{table} WHERE tenant_id = :t AND {held} AND {_LOST}
             ORDER BY {key} FOR NO KEY UPDATE SKIP LOCKED)
        UPDATE memforest.{table}
           SET {change}, attempts = greatest(attempts - 1, 0), {_LEASE_ENDS},
               error_code = CASE WHEN lost_leases + 1 > :max_lost THEN 'lease_lost' ELSE error_code END,
               error_text = CASE WHEN lost_leases + 1 > :max_lost
                                 THEN 'Its workers died too often while {doing}.' ELSE error_text END
         WHERE tenant_id = :t AND {key} IN (SELECT {key} FROM lost {only})
        """)  # noqa: S608 - constants of this module


_DEAD_OR_READY = "state = CASE WHEN lost_leases + 1 > :max_lost THEN 'dead' ELSE 'ready' END"

_FREEING = (
    # A window is freed as a whole: without its first cell the rest could not be claimed.
    _freeing(
        *("cell", "cell_id", "extracting it"),
        f"{_DEAD_OR_READY}, outcome = CASE WHEN lost_leases + 1 > :max_lost THEN 'dead' ELSE outcome END",
        more=", session_id, window_ordinal",
        only="""WHERE NOT EXISTS (
                SELECT 1 FROM memforest.cell other
                 WHERE other.tenant_id = :t AND other.session_id = lost.session_id
                   AND other.window_ordinal = lost.window_ordinal AND other.state = 'running'
                   AND other.cell_id NOT IN (SELECT cell_id FROM lost))""",
    ),
    sa.text(f"""
        UPDATE memforest.index_row SET state = 'ready', {_LEASE_ENDS}
         WHERE tenant_id = :t AND point_id IN (
            SELECT point_id FROM memforest.index_row
             WHERE tenant_id = :t AND {m.BEHIND} AND state = 'running' AND {_LOST} FOR NO KEY UPDATE SKIP LOCKED)
        """),  # noqa: S608 - constants of this module
    _freeing(
        *("node", "node_id", "refreshing it", "dead = lost_leases + 1 > :max_lost"),
        held="version > clean_version AND lease_token IS NOT NULL",
    ),
    _freeing(
        *("maintenance", "task_id", "at it"),
        f"{_DEAD_OR_READY}, finished_at = CASE WHEN lost_leases + 1 > :max_lost THEN clock_timestamp() END",
    ),
    _freeing("webhook_delivery", "delivery_id", "posting it", _DEAD_OR_READY),
)

_REOPEN_PICK = sa.text("""
    SELECT c.session_id, c.window_ordinal FROM memforest.cell c
     WHERE c.tenant_id = :t AND c.retry_at <= clock_timestamp() AND c.ordinal = c.window_ordinal
       AND NOT EXISTS (SELECT 1 FROM memforest.cell other
                        WHERE other.tenant_id = :t AND other.session_id = c.session_id
                          AND other.window_ordinal = c.window_ordinal AND NOT (other.state = 'done' AND other.placed))
     ORDER BY c.retry_at LIMIT :n FOR NO KEY UPDATE SKIP LOCKED
    """)

# After the lock, the state of all cells is checked again: a correction or an erasure may have come in between. A window
# with a locked cell is left to the next round.
_REOPEN_HOLD = sa.text("""
    SELECT c.cell_id FROM unnest(CAST(:sessions AS uuid[]), CAST(:windows AS int[])) AS w(session, head)
      JOIN memforest.cell c ON c.tenant_id = :t AND c.session_id = w.session AND c.window_ordinal = w.head
     WHERE c.state = 'done' AND c.placed ORDER BY c.cell_id FOR NO KEY UPDATE OF c SKIP LOCKED
    """)

_REOPEN = sa.text("""
    UPDATE memforest.cell c
       SET state = 'ready', retry_at = NULL, attempts = 0, lost_leases = 0, lane = 1,
           available_at = clock_timestamp()
      FROM unnest(CAST(:sessions AS uuid[]), CAST(:windows AS int[])) AS w(session, head)
     WHERE c.tenant_id = :t AND c.session_id = w.session AND c.window_ordinal = w.head
       AND EXISTS (SELECT 1 FROM memforest.cell head
                    WHERE head.tenant_id = :t AND head.session_id = w.session AND head.ordinal = w.head
                      AND head.retry_at <= clock_timestamp())
       AND NOT EXISTS (SELECT 1 FROM memforest.cell other
                        WHERE other.tenant_id = :t AND other.session_id = w.session AND other.window_ordinal = w.head
                          AND NOT (other.state = 'done' AND other.placed
                                   AND other.cell_id = ANY(CAST(:held AS uuid[]))))
    """)


class JobRows(TenantRows):
    """Rows of one upkeep transaction of a tenant."""

    def free_lost(self, limits: LeaseLimits) -> int:
        """Free work whose lease ended with its deadline or its worker; how much. Past the limit of lost leases, which
        are counted apart from failures, it is dead-lettered."""
        return sum(
            self._run(statement, dead_after=limits.dead_after_s, max_lost=limits.max_lost_leases).rowcount
            for statement in _FREEING
        )

    def reopen_verbatim(self, limit: int) -> int:
        """At most ``limit`` windows stored word by word that are in the trees as a whole, and whose time has come,
        become ready for extraction again; how many cells."""
        picked = self._run(_REOPEN_PICK, n=limit).all()
        if not picked:
            return 0
        windows = {"sessions": [row.session_id for row in picked], "windows": [row.window_ordinal for row in picked]}
        held = self._run(_REOPEN_HOLD, **windows).scalars().all()
        return self._run(_REOPEN, held=held, **windows).rowcount

    def release_held(self) -> int:
        """Open last cells whose quiet period is over become ready, but those that a turn is being added to; how
        many."""
        c = m.Cell
        held = (c.tenant_id == self._tenant, c.state == WorkState.HELD)
        past = sa.select(c.cell_id).where(*held, c.available_at <= sa.func.clock_timestamp())
        free = past.order_by(c.cell_id).with_for_update(key_share=True, skip_locked=True)
        change = sa.update(c).where(*held, c.cell_id.in_(free)).values(state=WorkState.READY)
        return self._db.execute(change).rowcount


_BY_TURNS = frozenset({WorkKind.EXTRACT, WorkKind.REFRESH})
"""What thousands of tenants may have at once. Of the others little waits for long: ``waiting`` finds it by itself."""


def _tenants(rows: Rows) -> list[TenantId]:
    return [TenantId(tenant) for (tenant,) in rows]


class JobStore:
    """Upkeep, within a tenant and across tenants (ids only)."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._named: dict[WorkKind, TenantId] = {}
        """The tenant after which the next query goes on."""
        self.upkeep = partial(JobRows.opened, engine)
        """One transaction of a tenant."""

    def waiting(self, kind: WorkKind) -> list[TenantId]:
        """Tenants that have work of a kind that can be claimed now: the live lane first, else at random."""
        return Reader(self._engine, NO_TENANT).one(Read(_WAITING, {"kind": kind.value}, _tenants))

    def next_waiting(self, kind: WorkKind, most: int, *, turn: bool = True) -> list[TenantId]:
        """At most so many tenants of ``waiting``: the live lane first, else at random.

        For extraction and refresh a query costs the same however many tenants have work; each goes on after the tenants
        of the one before it, so that every tenant has its turn; without ``turn`` nobody's is used up. A process begins
        at a random tenant.
        """
        if kind not in _BY_TURNS or kind not in self._named:
            found = self.waiting(kind)[:most]
            if found and turn:
                self._named[kind] = found[-1]
            return found
        values = {"kind": kind.value, "after": self._named[kind], "most": most}
        named = Reader(self._engine, NO_TENANT).one(Read(_NEXT_WAITING, values, list))
        if named and turn:
            self._named[kind] = TenantId(named[-1][0])
        random.shuffle(named)
        return [TenantId(tenant) for tenant, _ in sorted(named, key=itemgetter(1))]

    def lost(self, limits: LeaseLimits) -> list[TenantId]:
        """Tenants that have leases which ended without a finish."""
        lost = sa.text("SELECT tenant_id FROM memforest.lost(make_interval(secs => :s))")
        with transaction(self._engine) as connection:
            return [TenantId(row) for row in connection.scalars(lost, {"s": limits.dead_after_s})]

    @repeated
    def register(self, worker: WorkerId, name: str, queues: Sequence[str], connections: int = 0) -> None:
        """Note a new worker process, and how many connections it may open."""
        with transaction(self._engine) as connection:
            statement = insert(m.Worker).values(
                worker_id=worker, name=name, queues=list(queues), connections=connections, version=VERSION
            )
            fresh = {"heartbeat_at": sa.func.clock_timestamp()}
            connection.execute(statement.on_conflict_do_update(index_elements=["worker_id"], set_=fresh))

    @repeated
    def delete_name(self, name: str) -> int:
        """Delete the rows of workers with this name, which the caller replaces; how many."""
        with transaction(self._engine) as connection:
            return connection.execute(sa.delete(m.Worker).where(m.Worker.name == name)).rowcount

    @repeated
    def beat(self, worker: WorkerId) -> bool:
        """Renew a worker's heartbeat on the database's clock; False when its row is gone."""
        with transaction(self._engine) as connection:
            beaten = connection.execute(
                sa.update(m.Worker).where(m.Worker.worker_id == worker).values(heartbeat_at=sa.func.clock_timestamp())
            )
            return beaten.rowcount == 1

    @repeated
    def leave(self, worker: WorkerId) -> None:
        """Delete a worker's row; its leases end at once."""
        with transaction(self._engine) as connection:
            connection.execute(sa.delete(m.Worker).where(m.Worker.worker_id == worker))

    @repeated
    def delete_dead(self, dead_after_s: float) -> int:
        """Delete the rows of workers without a heartbeat for this long; how many."""
        with transaction(self._engine) as connection:
            long_ago = m.Worker.heartbeat_at < seconds_from_now(-dead_after_s)
            return connection.execute(sa.delete(m.Worker).where(long_ago)).rowcount

    @contextmanager
    def reconciling(self) -> Iterator[bool]:
        """True inside for the one worker that may reconcile now."""
        with transaction(self._engine) as connection:
            yield bool(connection.scalar(sa.text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _RECONCILE_LOCK}))
