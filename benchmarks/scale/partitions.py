"""The five largest tables plain and partitioned by the tenant's hash: sizes, statements, deletions, vacuums.

The figures of docs/adr/0030-tables-are-not-partitioned.md. One tenant is filled as the pipeline leaves it; both layouts
get copies of its rows for every other tenant, with the keys and indexes of the real tables, without their foreign keys.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import psutil
import sqlalchemy as sa

from benchmarks.harness import Database, Report, Row, database, parser, say
from benchmarks.recall_latency.filling import fill
from benchmarks.recall_latency.world import World

TABLES = ("node_summary", "node", "fact", "candidate", "placement")
"""By total size, the largest first."""
LOOKUPS = 300
SESSIONS = 15
DELETED = 3
"""Tenants deleted one after the other, each followed by a vacuum, as the worker's task does it (erase/vacuuming.py)."""
MEASURED = (
    "load_s: seconds to insert all rows; heap_mb (with TOAST), index_mb: of the five tables; relations: tables and"
    " indexes; lookup_ms: median of one prepared statement that reads eight nodes with their summaries by key;"
    " first_ms: of its first run in a new session, which opens whatever it may need; locks: held meanwhile; across_ms:"
    " the nodes that are due, of all tenants; insert_ms: median of 20 placements in a transaction; delete, vacuum:"
    " medians for one whole tenant from all five tables, and for the vacuum after it; cpu_s: of the session's process;"
    " blocks: pages that were looked at"
)
_NODES = """
    SELECT n.version, s.text FROM {schema}.node n JOIN {schema}.node_summary s USING (tenant_id, node_id)
     WHERE n.tenant_id = %s AND n.node_id = ANY(%s)
"""
_DUE = "SELECT DISTINCT tenant_id FROM {schema}.node WHERE version > clean_version LIMIT 100"


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to store the tables, in a schema of its own."""

    schema: str
    partitions: int
    """0 for plain tables."""

    def create(self, connection: sa.Connection) -> None:
        """Empty tables with the keys and indexes of the real ones."""
        connection.exec_driver_sql(f"CREATE SCHEMA {self.schema}")
        for table in TABLES:
            name = f"{self.schema}.{table}"
            by = " PARTITION BY HASH (tenant_id)" if self.partitions else ""
            connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE memforest.{table} INCLUDING ALL){by}")
            for part in range(self.partitions):
                connection.exec_driver_sql(
                    f"CREATE TABLE {name}_{part} PARTITION OF {name}"
                    f" FOR VALUES WITH (MODULUS {self.partitions}, REMAINDER {part})"
                )

    def load(self, connection: sa.Connection, tenants: int) -> None:
        """The filled tenant's rows, once for each of the tenants."""
        for table in TABLES:
            columns = connection.exec_driver_sql(
                "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute WHERE attrelid = %s::regclass"
                " AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> 'tenant_id'",
                (f"memforest.{table}",),
            ).scalar_one()
            connection.exec_driver_sql(
                f"INSERT INTO {self.schema}.{table} (tenant_id, {columns})"
                f" SELECT 'tenant-' || n, {columns} FROM memforest.{table}, generate_series(1, %s) AS n",
                (tenants,),
            )

    def vacuum(self, connection: sa.Connection) -> None:
        """As after a deletion."""
        for table in TABLES:
            connection.exec_driver_sql(f"VACUUM (INDEX_CLEANUP ON) {self.schema}.{table}")

    def delete(self, connection: sa.Connection, tenant: str) -> None:
        """All rows of a tenant."""
        for table in TABLES:
            connection.exec_driver_sql(f"DELETE FROM {self.schema}.{table} WHERE tenant_id = %s", (tenant,))


def seconds(step: Callable[[], object]) -> float:
    """How long a step takes."""
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def sizes(connection: sa.Connection, schema: str) -> Row:
    """What the layout takes."""
    row = connection.exec_driver_sql(
        "SELECT sum(pg_table_size(oid)) FILTER (WHERE relkind = 'r') / 1e6 AS heap,"
        " sum(pg_relation_size(oid)) FILTER (WHERE relkind = 'i') / 1e6 AS indexes,"
        " count(*) FILTER (WHERE relkind IN ('r', 'i')) AS relations"
        " FROM pg_class WHERE relnamespace = %s::regnamespace",
        (schema,),
    ).one()
    return {"heap_mb": round(float(row.heap), 1), "index_mb": round(float(row.indexes), 1), "relations": row.relations}


def read(engine: sa.Engine, layout: Layout, keys: Sequence[object], tenants: int, rng: random.Random) -> Row:
    """Statements of one tenant, of a new session at first, and those that look across tenants."""
    statement = _NODES.format(schema=layout.schema)

    def lookup() -> None:
        chosen = (f"tenant-{rng.randint(1, tenants)}", rng.sample(list(keys), 8))
        connection.exec_driver_sql(statement, chosen).all()

    first = []
    for _ in range(SESSIONS):
        engine.dispose()
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")
            first.append(seconds(lookup))
    with engine.connect() as connection:
        times = [seconds(lookup) for _ in range(LOOKUPS)]
        locks = connection.exec_driver_sql("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()").scalar_one()
        due = _DUE.format(schema=layout.schema)
        across = [seconds(lambda: connection.exec_driver_sql(due).all()) for _ in range(30)]
    return {
        "lookup_ms": round(1e3 * median(times), 3),
        "first_ms": round(1e3 * median(first), 2),
        "locks": locks,
        "across_ms": round(1e3 * median(across), 3),
    }


def inserted(engine: sa.Engine, layout: Layout, tenants: int, rng: random.Random) -> float:
    """Milliseconds of 20 new placements in a transaction."""
    statement = (
        f"INSERT INTO {layout.schema}.placement (tenant_id, tree_id, payload_id, session_id, leaf_id)"
        " SELECT %s, tree_id, gen_random_uuid(), session_id, NULL FROM memforest.placement LIMIT 20"
    )

    def insert() -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql(statement, (f"tenant-{rng.randint(1, tenants)}",))

    return round(1e3 * median(seconds(insert) for _ in range(LOOKUPS // 3)), 3)


def spent(connection: sa.Connection, step: Callable[[], object]) -> tuple[float, float, int]:
    """Seconds, processor seconds of the session, and blocks that the database touched, of a step."""
    session = psutil.Process(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())

    def cpu_and_blocks() -> tuple[float, int]:
        times = session.cpu_times()
        connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
        touched = connection.exec_driver_sql(
            "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"
        ).scalar_one()
        return times.user + times.system, int(touched)

    before = cpu_and_blocks()
    took = seconds(step)
    after = cpu_and_blocks()
    return took, after[0] - before[0], after[1] - before[1]


def measured(running: Database, layout: Layout, tenants: int, seed: int) -> Row:
    """Fill a layout, use it, and drop it."""
    rng = random.Random(seed)
    with running.owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        layout.create(connection)
        keys = connection.exec_driver_sql("SELECT node_id FROM memforest.node_summary LIMIT 2000").scalars().all()
        load = spent(connection, lambda: layout.load(connection, tenants))
        row: Row = {"layout": layout.schema, "load_s": round(load[0], 1), "load_cpu_s": round(load[1], 1)}
        running.tidy()
        row |= sizes(connection, layout.schema)
    row |= read(running.owner, layout, keys, tenants, rng)
    row["insert_ms"] = inserted(running.owner, layout, tenants, rng)
    with running.owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        layout.vacuum(connection)
        deletes, vacuums = [], []
        for nth in range(1, DELETED + 1):
            deletes.append(spent(connection, partial(layout.delete, connection, f"tenant-{nth}")))
            vacuums.append(spent(connection, partial(layout.vacuum, connection)))
        connection.exec_driver_sql(f"DROP SCHEMA {layout.schema} CASCADE")
    for name, each in (("delete", deletes), ("vacuum", vacuums)):
        took, cpu, blocks = (median(values) for values in zip(*each, strict=True))
        row |= {f"{name}_s": round(took, 2), f"{name}_cpu_s": round(cpu, 2), f"{name}_blocks": int(blocks)}
    say("  ".join(f"{name}={value}" for name, value in row.items()))
    return row


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--tenants", type=int, default=40, metavar="N", help="default: %(default)s")
    options.add_argument("--facts", type=int, default=5_000, metavar="N", help="of each (default: %(default)s)")
    options.add_argument("--partitions", type=int, default=16, metavar="N", help="of each table (default: %(default)s)")
    options.add_argument("--rounds", type=int, default=2, metavar="N", help="both, in turn (default: %(default)s)")
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    layouts = (Layout("plain", 0), Layout("hashed", chosen.partitions))
    with database() as running:
        fill(running, None, World(chosen.seed), "owner", chosen.facts, chosen.seed)
        with running.owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("ALTER SYSTEM SET autovacuum = off")
            connection.exec_driver_sql("SELECT pg_reload_conf()")
        running.tidy()
        rows = [measured(running, layout, chosen.tenants, chosen.seed) for layout in layouts * chosen.rounds]
    parameters = {"tenants": chosen.tenants, "facts": chosen.facts, "partitions": chosen.partitions}
    report.end(rows, {"what": MEASURED, "tables": TABLES, **parameters})


if __name__ == "__main__":
    main()
