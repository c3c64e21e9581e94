"""Memory of one worker process and of a producer while a long session and a large backfill run; and over many sessions.

``early_mb`` is the resident size after a tenth of the work, ``peak_mb`` the largest afterwards: flat memory means that
their difference does not grow with the work. The worker reads with the offline provider and the built-in embedding, so
that its own models are in both figures. ``steps``: a worker process, then an embedded node (its own process, without
Postgres and Valkey), with a chat model over HTTP through litellm; ``steps_mb`` has the size after each 100 sessions,
``files_mb`` what of it are pages of files (programs, and an embedded node's index), which the system takes back when it
needs memory. ``workers``: several worker processes under one command, which share what their parent imported: the
memory of all of them and the parent, what is shared counted once (PSS), by the number of workers.
Exit code 1 if a process grew by more than ``--most-growth-mb``, or was larger than its ``most_mb``.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.chaos.conversations import Conversation, conversations
from benchmarks.harness import Report, Row, parser, say
from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.client.api import MemForest
from memforest_core.client.producer import MemForestClient
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.settings import load_settings
from tests.harness.processes import Deployment, deployment, serving
from tests.harness.servers import SessionServers, session_servers
from tests.harness.stack import make_template

DETAILS = ("kayaks", "lamps", "stamps", "chairs", "kites", "maps", "drums", "bowls")
STEP = 100
CONCURRENCY = 8
PROCESSES = 4
ONE, SEVERAL, EMBEDDED = "worker with litellm", "workers with litellm, each", "embedded node with litellm"
MOST_MB = {ONE: 350.0, SEVERAL: 350.0, EMBEDDED: 450.0}
MOST_GROWTH_MB = 60.0
"""From a tenth of the work, or the first hundred sessions, to the end: over 900 sessions 67 kB each."""
WAIT_TIMEOUT_S = 600.0
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


class Size(NamedTuple):
    """What a process holds, in MB, and what of it are pages of files."""

    mb: float
    files_mb: float


def size_of(pid: int) -> Size:
    """The size of a process of its own."""
    now = psutil.Process(pid).memory_info()
    return Size(now.rss / 1e6, now.shared / 1e6)


def share_of(supervisor: int) -> Size:
    """The memory of a command's processes, what they share counted once, by the number of its workers."""
    parent = psutil.Process(supervisor)
    workers = parent.children()
    maps = [each for process in (parent, *workers) for each in process.memory_maps()]
    files = sum(each.pss for each in maps if each.path.startswith("/"))
    return Size(sum(each.pss for each in maps) / 1e6 / len(workers), files / 1e6 / len(workers))


def in_steps(
    name: str,
    told: Sequence[Conversation],
    write: Callable[[Sequence[Conversation]], None],
    size: Callable[[], Size],
) -> Row:
    """The size after each hundred sessions; ``write`` sends some and waits until nothing is left to do."""
    started = time.perf_counter()
    sizes, files = [], []
    for first in range(0, len(told), STEP):
        write(told[first : first + STEP])
        now = size()
        sizes.append(round(now.mb, 1))
        files.append(round(now.files_mb, 1))
        say(f"{name}: {first + STEP} sessions, {sizes[-1]:.0f} MB")
    return {
        "case": name,
        "units": len(told),
        "steps_mb": sizes,
        "files_mb": files,
        "early_mb": sizes[0],
        "peak_mb": max(sizes),
        "growth_mb": round(sizes[-1] - sizes[0], 1),
        "most_mb": MOST_MB[name],
        "seconds": round(time.perf_counter() - started, 1),
    }


def worker_in_steps(servers: SessionServers, directory: Path, told: Sequence[Conversation], processes: int) -> Row:
    """One worker process of a deployment, or several under one command."""
    with deployment(servers, directory) as running:
        worker = running.start_worker(concurrency=CONCURRENCY, processes=processes)
        client = running.client()

        def write(some: Sequence[Conversation]) -> None:
            client.enqueue_many((one.owner, one.session_id, one.turns) for one in some)
            for owner in {one.owner for one in some}:
                client.flush(owner, WAIT_TIMEOUT_S)

        name, size = (ONE, size_of) if processes == 1 else (SEVERAL, share_of)
        made = in_steps(name, told, write, lambda: size(worker.pid))
        client.close()
    return made | {"processes": processes}


def embedded_in_steps(directory: Path, told: Sequence[Conversation]) -> Row:
    """A node in this process, which should be one of its own."""
    configure_logs(logging.ERROR)
    with serving("tests.harness.model_server", "--port", "0") as url:
        model = {"model": "openai/test-model", "api_base": url, "api_key": "test"}
        with MemForest.embedded(directory, load_settings(llm=model), concurrency=CONCURRENCY) as memory:

            def write(some: Sequence[Conversation]) -> None:
                for one in some:
                    memory.ingest(one.owner, one.session_id, one.turns, wait="none")
                for owner in {one.owner for one in some}:
                    memory.flush(owner, WAIT_TIMEOUT_S)

            return in_steps(EMBEDDED, told, write, lambda: size_of(os.getpid()))


def main(arguments: list[str]) -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--turns", type=int, default=10_000, help="turns of the long session")
    options.add_argument("--sessions", type=int, default=5_000, help="sessions of the backfill")
    options.add_argument("--steps", type=int, default=1_000, metavar="N", help="sessions in steps of 100")
    options.add_argument(
        "--processes", type=int, default=PROCESSES, metavar="N", help="workers under one command (default: %(default)s)"
    )
    options.add_argument("--only", choices=("work", "steps"), help="one half (default: both)")
    options.add_argument(
        "--most-growth-mb", type=float, default=MOST_GROWTH_MB, metavar="MB", help="(default: %(default)s)"
    )
    chosen = options.parse_args(arguments)
    report = Report(chosen.seed, chosen.json)
    rows: list[Row] = []
    with session_servers() as servers, tempfile.TemporaryDirectory(prefix="memforest-bench-") as directory:
        make_template(servers)
        if chosen.only != "steps":
            rows += of_work(servers, Path(directory), chosen.turns, chosen.sessions)
        if chosen.only != "work":
            told = conversations(chosen.steps, chosen.seed)
            for processes in (1, chosen.processes):
                place = Path(directory) / f"steps-{processes}"
                place.mkdir()
                rows.append(worker_in_steps(servers, place, told, processes))
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
                rows.append(own.submit(embedded_in_steps, Path(directory) / "embedded", told).result())
    for row in rows:
        row["within"] = within(row, chosen.most_growth_mb)
    report.end(rows, {"variety": VARIETY, "most_growth_mb": chosen.most_growth_mb})
    sys.exit(0 if all(row["within"] for row in rows) else 1)


def within(row: Row, most_growth_mb: float) -> bool:
    """Whether a process grew no more than that, and was never larger than its row's ``most_mb``, if it has one."""
    growth, peak, most = (float(str(row.get(name, "inf"))) for name in ("growth_mb", "peak_mb", "most_mb"))
    return growth <= most_growth_mb and peak <= most


def of_work(servers: SessionServers, directory: Path, turns: int, sessions_: int) -> list[Row]:
    """A worker at a long session and at a backfill, and the producer of the latter."""
    rows: list[Row] = []
    place = directory / "work"
    place.mkdir()
    with deployment(servers, place, offline=True) as running:
        worker = running.start_worker(concurrency=CONCURRENCY)
        client = running.client()
        client.enqueue("ann", "long", [turn(number) for number in range(turns)])
        cells = running.scalar("SELECT count(*) FROM memforest.cell")
        rows.append(measured("worker, one long session", cells, lambda: placed(running), worker.pid))
        before = placed(running)
        rows.append(producing(client, sessions_))
        rows.append(measured("worker, backfill", sessions_, lambda: placed(running) - before, worker.pid))
        client.close()
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
