"""What HTTP costs beside the library: recall and enqueue, many writers, and clients that wait.

A node runs in a process of its own; the library connects to it from this process, and ``memforest serve`` from others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil

from benchmarks.harness import Report, Row, parser, say
from memforest_core.client.api import MemForest
from memforest_core.client.embedded.directory import running_node
from memforest_core.client.remote.aio import AsyncRemoteMemForest
from memforest_core.client.remote.client import RemoteMemForest
from memforest_core.errors import InvalidInput
from memforest_core.service.keys.service import Keys
from memforest_core.settings import load_settings
from memforest_core.work.waiting import WaitTimeout

OWNER = "bench"
WRITERS = 16
WARM_UP = 20


def main() -> None:
    """Print one row for each measurement."""
    options = parser(__doc__ or "")
    options.add_argument("--calls", type=int, default=200, help="of each kind (default: %(default)s)")
    options.add_argument("--turns", type=int, default=400, help="stored before (default: %(default)s)")
    options.add_argument("--seconds", type=float, default=10.0, help="that writers write (default: %(default)s)")
    options.add_argument("--waiting", type=int, default=200, help="clients that wait (default: %(default)s)")
    options.add_argument("--wait", type=float, default=8.0, help="seconds that they wait (default: %(default)s)")
    options.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="that serve (default: %(default)s)")
    given = options.parse_args()
    report = Report(given.seed, given.json)
    with tempfile.TemporaryDirectory(prefix="memforest-http-") as place, _node(Path(place)) as addresses:
        rows = list(_rows(given, addresses))
    measured = {"calls": given.calls, "turns": given.turns, "seconds": given.seconds, "writers": WRITERS}
    report.end(rows, measured)


def _rows(given: argparse.Namespace, addresses: Mapping[str, str]) -> Iterator[Row]:
    rng = random.Random(given.seed)
    with MemForest.connect(load_settings()) as library:
        keys = Keys(library.services.engine)
        key = keys.create(library.tenant, "bench", scope="admin", requests_per_minute=1_000_000)
        _fill(library, given.turns, rng)
        for processes in given.processes:
            with _server(addresses, processes) as (address, pids):
                remote = RemoteMemForest(address, key.secret)
                if processes == 1:
                    yield from _overhead(library, remote, given.calls, rng)
                    yield asyncio.run(_waiting(address, key.secret, given, pids[0]))
                yield _writers(remote, given.seconds, processes)
                remote.close()


def _fill(library: MemForest, turns: int, rng: random.Random) -> None:
    say(f"storing {turns} turns")
    for number in range(turns // 20):
        library.enqueue(OWNER, f"s-{number}", [_turn(rng, number * 20 + n) for n in range(20)])
    library.flush(OWNER)


def _turn(rng: random.Random, number: int) -> Any:
    place = rng.choice(["Lisbon", "Ghent", "Davis", "Kyoto", "Quito"])
    content = f"On day {number} I went to {place} and bought ticket {rng.randrange(10_000)} for the museum."
    return {"role": "user", "name": "Bob", "content": content, "timestamp": 1_700_000_000 + 60 * number}


def _overhead(library: MemForest, remote: RemoteMemForest, calls: int, rng: random.Random) -> Iterator[Row]:
    """The same calls by turns over the library and over HTTP."""
    faces: dict[str, Any] = {"library": library, "http": remote}

    def recall(face: Any, number: int) -> None:
        face.recall(OWNER, f"Which ticket did Bob buy on day {number}?", k=10)

    def enqueue(face: Any, number: int) -> None:
        face.enqueue(OWNER, f"new-{id(face)}-{number}", [_turn(rng, number)])

    def quota(face: Any, _number: int) -> None:
        face.quota()

    measures: dict[str, Callable[[Any, int], None]] = {"recall": recall, "enqueue": enqueue, "quota": quota}
    for name, call in measures.items():
        say(f"{name}: {calls} calls each")
        spent: dict[str, list[float]] = {face: [] for face in faces}
        for number in range(WARM_UP + calls):
            # Each goes first every other time: what a call leaves to the workers slows down the next one.
            for face, memory in sorted(faces.items(), reverse=number % 2 == 1):
                started = time.perf_counter()
                call(memory, number)
                if number >= WARM_UP:
                    spent[face].append((time.perf_counter() - started) * 1_000)
        library.flush(OWNER)  # what this left to the workers would slow down the next measure
        own, over = median(spent["library"]), median(spent["http"])
        differences = [b - a for a, b in zip(spent["library"], spent["http"], strict=True)]
        yield {
            "measured": name,
            "n": calls,
            "library_p50_ms": round(own, 2),
            "http_p50_ms": round(over, 2),
            "overhead_p50_ms": round(median(differences), 2),
        }


def _writers(remote: RemoteMemForest, seconds: float, processes: int) -> Row:
    """How many sessions of one turn are stored a second by many writers at once."""
    say(f"{WRITERS} writers, {processes} server processes")
    ends = time.monotonic() + seconds

    def write(writer: int) -> int:
        stored = 0
        while time.monotonic() < ends:
            remote.enqueue(f"writer-{writer}", f"{processes}-{stored}", [{"role": "user", "content": "A short turn."}])
            stored += 1
        return stored

    started = time.monotonic()
    with ThreadPoolExecutor(WRITERS) as pool:
        stored = sum(pool.map(write, range(WRITERS)))
    rate = stored / (time.monotonic() - started)
    return {"measured": "enqueues_a_second", "processes": processes, "n": stored, "a_second": round(rate, 1)}


async def _waiting(address: str, key: str, given: argparse.Namespace, pid: int) -> Row:
    """Clients that all wait for facts that don't come; what the server's memory does, and what others get meanwhile."""
    clients: int = given.waiting
    say(f"{clients} clients wait")
    process = psutil.Process(pid)
    connections = httpx.AsyncClient(limits=httpx.Limits(max_connections=clients + 8))
    async with AsyncRemoteMemForest(address, key, client=connections) as remote:
        before = process.memory_info().rss

        async def wait(number: int) -> None:
            turn: Any = {"role": "user", "content": "Held back."}
            await remote.append("waiting", f"w-{number}", turn)
            with suppress(WaitTimeout):
                await remote.wait("waiting", f"w-{number}", "summaries", timeout_s=given.wait)

        waits = [asyncio.create_task(wait(number)) for number in range(clients)]
        await asyncio.sleep(given.wait / 4)
        spent, most = [], before
        while not all(each.done() for each in waits):
            started = time.perf_counter()
            await remote.quota()
            spent.append((time.perf_counter() - started) * 1_000)
            most = max(most, process.memory_info().rss)
            await asyncio.sleep(0.1)
        await asyncio.gather(*waits)
        after = process.memory_info().rss
    return {
        "measured": "waiting_clients",
        "clients": clients,
        "rss_before_mb": round(before / 1e6, 1),
        "rss_most_mb": round(most / 1e6, 1),
        "rss_after_mb": round(after / 1e6, 1),
        "quota_p50_ms_meanwhile": round(median(spent), 2) if spent else None,
    }


@contextmanager
def _node(place: Path) -> Iterator[dict[str, str]]:
    """A node in a process of its own, and the variables with which others reach it; they are set here too."""
    command = [sys.executable, "-m", "memforest_core.cli", "up", "--data", str(place), "--no-serve", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as node:
        assert node.stdout is not None
        announced = json.loads(node.stdout.readline())
        if running_node(place) is None:
            raise InvalidInput("The node did not start.")
        os.environ.update(announced["environment"])
        try:
            yield dict(announced["environment"])
        finally:
            node.terminate()


@contextmanager
def _server(environment: Mapping[str, str], processes: int) -> Iterator[tuple[str, list[int]]]:
    """``memforest serve``; its address, and the ids of the processes that answer."""
    command = [sys.executable, "-m", "memforest_core.cli", "serve", "--port", "0", "--json"]
    command += ["--processes", str(processes)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
    ) as server:
        assert server.stdout is not None
        announced = json.loads(server.stdout.readline())
        _until_ready(announced["address"])
        children = [child.pid for child in psutil.Process(server.pid).children()]
        try:
            yield announced["address"], children or [server.pid]
        finally:
            server.terminate()


def _until_ready(address: str) -> None:
    for _ in range(300):
        with suppress(httpx.TransportError):
            if httpx.get(f"{address}/ready", timeout=30).status_code == httpx.codes.OK:
                return
        time.sleep(0.2)
    raise InvalidInput(f"The server at {address} does not answer.")


if __name__ == "__main__":
    main()
