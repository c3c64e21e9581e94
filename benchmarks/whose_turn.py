"""What a look for whose turn it is costs, by how many tenants have cells that wait: a unit of work begins with it."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence

import sqlalchemy as sa

from benchmarks.harness import Database, Report, Row, database, parser, say
from benchmarks.write_path import reading
from memforest_core.domain.ids import TenantId
from memforest_core.work.jobs import WorkKind
from memforest_core.work.rows.jobs import JobStore
from memforest_workers.runtime import TENANTS_TRIED

TENANTS = (1, 100, 1_000, 5_000)
LOOKS = 100
CELLS = 20
"""Of each tenant: two windows of ten wait, in the lane of imports."""
MOST = 3.0
"""Times the pages with the fewest tenants that a bounded look with the most may touch: its indexes are higher."""
MEASURED = (
    "one look for tenants with windows to extract, all of them (JobStore.waiting) and the next ones as a worker asks"
    " (next_waiting): blocks that one touches, milliseconds of wall time (median) and of Postgres' CPU (mean), and"
    " answered: how many tenants it names. All tenants have an import whose windows wait. growth: blocks of the bounded"
    " look, the most tenants by the fewest"
)
_FILL = (
    """INSERT INTO memforest.tenant (tenant_id)
       SELECT 'tenant-' || n FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n""",
    """INSERT INTO memforest.forest (tenant_id, forest_id, owner)
       SELECT tenant_id, md5(tenant_id)::uuid, 'owner' FROM memforest.tenant t
        WHERE NOT EXISTS (SELECT 1 FROM memforest.forest f WHERE f.tenant_id = t.tenant_id)""",
    """INSERT INTO memforest.session (tenant_id, session_id, forest_id, external_id, time_zone, started_at, lane)
       SELECT tenant_id, forest_id, forest_id, 'import', 'UTC', now(), 1 FROM memforest.forest f
        WHERE NOT EXISTS (SELECT 1 FROM memforest.session s WHERE s.tenant_id = f.tenant_id)""",
    """INSERT INTO memforest.cell (tenant_id, cell_id, forest_id, session_id, ordinal, window_ordinal, first_turn,
                                   last_turn, text, text_hash, time_start, time_end, lane)
       SELECT tenant_id, md5(tenant_id || n)::uuid, forest_id, session_id, n, n - n % 10, 2 * n, 2 * n + 1, 'said',
              sha256('said'), now(), now(), 1
         FROM memforest.session s CROSS JOIN generate_series(0, CAST(:cells AS int) - 1) n
        WHERE NOT EXISTS (SELECT 1 FROM memforest.cell c WHERE c.tenant_id = s.tenant_id)""",
)


def grow(running: Database, first: int, last: int) -> None:
    """Add the tenants of these numbers, each with cells that wait."""
    with running.owner.begin() as connection:
        connection.execute(sa.text("SELECT set_config('memforest.across', 'on', true)"))
        for statement in _FILL:
            connection.execute(sa.text(statement), {"first": first, "last": last, "cells": CELLS})
    running.tidy()


def measure(running: Database, tenants: int, looks: int) -> list[Row]:
    """Look so often in each way; each look is a transaction, as a worker's."""
    jobs = JobStore(running.service)
    ways: dict[str, tuple[str, Callable[[], Sequence[TenantId]]]] = {
        "all": ("waiting('extract')", lambda: jobs.waiting(WorkKind.EXTRACT)),
        "next": (
            f"next_waiting('extract', 'tenant-{tenants // 2}', {TENANTS_TRIED})",
            lambda: jobs.next_waiting(WorkKind.EXTRACT, TENANTS_TRIED),
        ),
    }
    return [
        {"tenants": tenants, "look": name, "n": looks, "blocks": blocks(running, call), **looked(look, looks, running)}
        for name, (call, look) in ways.items()
    ]


def blocks(running: Database, call: str) -> int:
    """Pages that Postgres touches for one call of a function, in its cache or not; a call before reads the catalogs."""
    with running.owner.begin() as connection:
        explain = sa.text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM memforest.{call}")
        _, plan = (connection.scalar(explain)[0]["Plan"] for _ in range(2))
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def looked(look: Callable[[], Sequence[TenantId]], looks: int, running: Database) -> Row:
    """The cost of a look after the first, which begins anywhere."""
    url = running.owner.url.render_as_string(hide_password=False)
    answered, times = len(look()), []
    before = reading(url)
    for _ in range(looks):
        started = time.perf_counter()
        look()
        times.append(1_000 * (time.perf_counter() - started))
    used = reading(url).since(before)
    return {
        "answered": answered,
        "p50_ms": round(statistics.median(times), 2),
        "postgres_ms": round(1_000 * used.postgres_s / looks, 2),
    }


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--tenants", type=int, nargs="+", default=TENANTS, metavar="N", help="rising")
    options.add_argument("--looks", type=int, default=LOOKS, metavar="N", help="(default: %(default)s)")
    options.add_argument("--most", type=float, default=MOST, metavar="X", help="growth allowed (default: %(default)s)")
    chosen = options.parse_args()
    report, filled = Report(chosen.seed, chosen.json), 0
    rows: list[Row] = []
    with database() as running:
        for tenants in chosen.tenants:
            grow(running, filled + 1, tenants)
            filled = tenants
            made = measure(running, tenants, chosen.looks)
            for row in made:
                say("  ".join(f"{name}={value}" for name, value in row.items()))
            rows += made
    kept = grown(rows) <= chosen.most
    report.end(rows, {"what": MEASURED, "cells": CELLS, "growth": round(grown(rows), 2), "most": chosen.most})
    sys.exit(0 if kept else 1)


def grown(rows: Sequence[Row]) -> float:
    """Pages of the bounded look with the most tenants by those with the fewest that are more than it names; else 1."""
    known = [row for row in rows if row["look"] == "next" and int(str(row["tenants"])) > TENANTS_TRIED]
    return float(str(known[-1]["blocks"])) / float(str(known[0]["blocks"])) if known else 1.0


if __name__ == "__main__":
    main()
