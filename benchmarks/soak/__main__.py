"""``python -m benchmarks.soak``: everything at once for half an hour, with kill -9; exit code 1 if something broke."""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.harness import Report, Row, parser, say
from benchmarks.soak.acting import Chooser
from benchmarks.soak.driving import Caller, Driver, Killer, Seen, log_of, together, watched
from benchmarks.soak.ending import at_rest, check_now
from benchmarks.soak.known import Known
from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.client.embedded.servers import EmbeddedServers
from tests.harness.processes import deployment
from tests.harness.servers import SessionServers
from tests.harness.stack import make_template

MEASURED = (
    "callers (processes) ingest, append, remember, recall, read windows, digests, profiles and contexts, forget"
    " (turns, sessions, speakers, ranges, owners), correct, merge, export and import at random over a few owners,"
    " against real workers, Postgres, Valkey and the Qdrant engine over HTTP, with offline extraction; a random"
    " process, caller or worker, gets kill -9 every so often. Then every owner is told one thing more"
    " (not in actions). Each turn has a word of its own. At rest: what must be known is"
    " in turns and facts of its owner and recall finds it; forgotten words are in no table, point (sparse"
    " vectors too), key of Redis or bundle's copy; verify is clean, nothing is dead, no operation is without an end,"
    " and Postgres' log has no deadlock. words_either: said while the owner was deleted, so that either came first;"
    " forgotten_in_statistics: forgotten words in pg_stats; findings: all else"
)
REPORTED_S = 10.0
VACUUM_EVERY_S = 5
"""Rest includes the vacuum after the last deletion, which would else begin up to five minutes later."""


def played(options: argparse.Namespace, directory: Path) -> Row:
    """One soak."""
    seen = Seen()
    known = Known(options.owners, random.Random(f"{options.seed}/words"))
    with ExitStack() as undo:
        servers = undo.enter_context(EmbeddedServers.start(directory / "servers"))
        addresses = SessionServers(servers.postgres_url, servers.broker_url, servers.redis_url, servers)
        make_template(addresses)
        settings = {
            "MEMFOREST_DATABASE__POOL_SIZE": "4",
            "MEMFOREST_DATABASE__MAX_OVERFLOW": "4",
            "MEMFOREST_WORKER__VACUUM_EVERY_S": str(VACUUM_EVERY_S),
        }
        running = undo.enter_context(deployment(addresses, directory, offline=True, settings=settings))
        callers = [Caller(running, number) for number in range(options.processes)]
        for caller in callers:
            undo.callback(caller.close)
        log = undo.enter_context(log_of(directory))
        driver = Driver(known, Chooser(known, directory), seen, log, options.rate / len(callers))
        killer = Killer(
            running, callers, seen, random.Random(f"{options.seed}/kills"), options.kill_every, options.workers
        )
        killer.renew()
        for worker in running.workers:
            running.await_worker(worker)
        with ThreadPoolExecutor(len(callers)) as pool:
            list(pool.map(Caller.start, callers))
        started = time.monotonic()
        drives = [
            partial(driver.drive, caller, random.Random(f"{options.seed}/{number}"))
            for number, caller in enumerate(callers)
        ]
        with watched(running, driver.full), together([killer.kill, partial(_reported, seen), *drives]):
            time.sleep(options.minutes * 60)
        worked = time.monotonic() - started
        acted = dict(sorted(seen.actions.items()))
        killer.renew()
        driver.end(callers[0])
        rested = at_rest(running, seen)
        found = check_now(running, servers, known, seen, random.Random(options.seed))
    return {
        "owners": options.owners,
        "seconds": round(worked, 1),
        "rest_s": round(rested, 1),
        "actions": acted,
        "outcomes": dict(sorted(seen.outcomes.items())),
        "median_s": {kind: round(statistics.median(each), 3) for kind, each in sorted(seen.seconds.items())},
        "kills": dict(seen.kills),
        **found,
        "findings": seen.findings,
    }


def _reported(seen: Seen, stop: threading.Event) -> None:
    """Progress now and then."""
    while not stop.wait(REPORTED_S):
        say(f"{sum(seen.actions.values())} actions, {sum(seen.kills.values())} kills, {len(seen.findings)} findings")


def main() -> None:
    """Run from the command line; exit code 1 when there was a finding."""
    options = parser(__doc__ or "")
    options.add_argument("--minutes", type=float, default=30.0, metavar="M", help="(default: %(default)s)")
    options.add_argument("--owners", type=int, default=50, metavar="N", help="(default: %(default)s)")
    options.add_argument("--processes", type=int, default=3, metavar="N", help="callers (default: %(default)s)")
    options.add_argument("--workers", type=int, default=2, metavar="N", help="worker processes (default: %(default)s)")
    options.add_argument("--kill-every", type=float, default=20.0, metavar="S", help="seconds (default: %(default)s)")
    options.add_argument("--rate", type=float, default=4.0, metavar="N", help="actions a second (default: %(default)s)")
    options.add_argument(
        "--keep",
        dest="log_directory",
        type=Path,
        metavar="DIR",
        help="keep the log of actions and the parts' logs there",
    )
    requested = options.parse_args()
    configure_logs(logging.ERROR)
    report = Report(requested.seed, requested.json)
    with tempfile.TemporaryDirectory(prefix="memforest-soak-") as directory:
        try:
            row = played(requested, Path(directory))
        finally:
            if requested.log_directory is not None:
                _retain(Path(directory), requested.log_directory)
    for finding in row["findings"]:  # type: ignore[attr-defined]
        say(f"finding: {finding}"[:2_000])
    report.end([row], {"what": MEASURED, "minutes": requested.minutes, "kill_every_s": requested.kill_every})
    sys.exit(1 if row["findings"] else 0)


def _retain(directory: Path, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    for path in (directory / "actions.jsonl", *directory.glob("logs/*.log"), *directory.glob("servers/logs/*.log")):
        shutil.copy(path, to / path.name)


if __name__ == "__main__":
    main()
