"""Memory of one worker process and of a producer while a long session and a large backfill run.

``early_mb`` is the resident size after a tenth of the work, ``peak_mb`` the largest afterwards: flat memory means that
their difference does not grow with the work. The worker reads with the offline provider and the built-in embedding, so
that its own models are in both figures.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from benchmarks.harness import Report, Row, parser, say
from benchmarks.support.processes import Deployment, deployment
from benchmarks.support.servers import session_servers
from benchmarks.support.stack import make_template
from memforest_core.client import MemForestClient
from memforest_core.domain.chat_messages import TurnInput

DETAILS = ("kayaks", "lamps", "stamps", "chairs", "kites", "maps", "drums", "bowls")
VARIETY = 500
"""Different sentences: equal ones share a vector, so that the time goes into the pipeline and not into the model."""


def turn(number: int) -> TurnInput:
    said = f"I bought {number % VARIETY} {DETAILS[number % len(DETAILS)]}." if number % 2 == 0 else "Good for you."
    return {"role": "user" if number % 2 == 0 else "assistant", "content": said, "timestamp": 1_700_000_000 + number}


def sessions(count: int, owners: int) -> Iterator[tuple[str, str, list[TurnInput]]]:
    """Two-turn sessions, made one at a time."""
    for number in range(count):
        yield f"owner-{number % owners}", f"s{number}", [turn(2 * number), turn(2 * number + 1)]


def measured(name: str, units: int, done: Callable[[], int], pid: int) -> Row:
    """Watch a process until ``done`` says that all units are."""
    process, started = psutil.Process(pid), time.perf_counter()
    early = peak = 0.0
    while (count := done()) < units:
        size = process.memory_info().rss / 1e6
        if count < units / 10:
            early = max(early, size)
        else:
            early = early or size
            peak = max(peak, size)
        time.sleep(0.5)
    took = time.perf_counter() - started
    say(f"{name}: {units} in {took:.0f} s, {early:.0f} MB early, {peak:.0f} MB at most")
    return {
        "case": name,
        "units": units,
        "early_mb": round(early, 1),
        "peak_mb": round(peak, 1),
        "growth_mb": round(peak - early, 1),
        "seconds": round(took, 1),
    }


def placed(running: Deployment) -> int:
    return running.scalar("SELECT count(*) FROM memforest.cell WHERE placed")


def producing(client: MemForestClient, count: int) -> Row:
    """Enqueue a backfill from a generator; the producer's own size."""
    process = psutil.Process()
    early = peak = 0.0
    started = time.perf_counter()
    for number, _handle in enumerate(client.enqueue_stream(sessions(count, 50))):
        if number % 200 == 0:
            size = process.memory_info().rss / 1e6
            early = max(early, size) if number <= count / 10 else early
            peak = max(peak, size)
    took = time.perf_counter() - started
    say(f"producer: {count} sessions in {took:.0f} s, {early:.0f} MB early, {peak:.0f} MB at most")
    return {
        "case": "producer of a backfill",
        "units": count,
        "early_mb": round(early, 1),
        "peak_mb": round(peak, 1),
        "growth_mb": round(peak - early, 1),
        "seconds": round(took, 1),
    }


def main(arguments: list[str]) -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--turns", type=int, default=10_000, help="turns of the long session")
    options.add_argument("--sessions", type=int, default=5_000, help="sessions of the backfill")
    chosen = options.parse_args(arguments)
    report = Report(chosen.seed, chosen.json)
    rows: list[Row] = []
    with session_servers() as servers, tempfile.TemporaryDirectory(prefix="memforest-bench-") as directory:
        make_template(servers)
        with deployment(servers, Path(directory), offline=True) as running:
            worker = running.start_worker(concurrency=8)
            client = running.client()
            client.enqueue("ann", "long", [turn(number) for number in range(chosen.turns)])
            cells = running.scalar("SELECT count(*) FROM memforest.cell")
            rows.append(measured("worker, one long session", cells, lambda: placed(running), worker.pid))
            before = placed(running)
            rows.append(producing(client, chosen.sessions))
            rows.append(measured("worker, backfill", chosen.sessions, lambda: placed(running) - before, worker.pid))
            client.close()
    report.end(rows, {"variety": VARIETY})


if __name__ == "__main__":
    main(sys.argv[1:])
