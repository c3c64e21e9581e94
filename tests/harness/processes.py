"""A deployment of real processes for one test: workers, a model server, a Qdrant server, one database."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, AnyStr

import httpx
import psutil
import sqlalchemy as sa

from memforest_core.client.producer import MemForestClient
from memforest_core.settings import Settings, load_settings
from tests.harness.guard import Guard
from tests.harness.servers import SessionServers
from tests.harness.stack import database, owner_of

MEMFOREST = (sys.executable, "-m", "memforest_core.cli")
READY_TIMEOUT_S = 90.0
CLI = ("memforest_core.cli",)
"""The module behind ``memforest``."""
ALL_QUEUES = "extract,reduce,refresh,maintain"


def environment(**values: str) -> dict[str, str]:
    """An environment without any MemForest settings but these."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MEMFOREST_")}
    return own | values


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[str]:
    """Run a support server as a process; what it prints first (its address), until the end."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


@contextmanager
def program(
    *command: str | Path,
    log: Path | None = None,
    guard: Guard | None = None,
    cwd: Path | None = None,
    exactly: Mapping[str, str] | None = None,
    **variables: str,
) -> Iterator[subprocess.Popen[Any]]:
    """A program with these settings until the end of the block; its output goes to a log, or else to pipes of text."""
    output = subprocess.PIPE if log is None else log.open("wb")
    process: subprocess.Popen[Any] = subprocess.Popen(
        list(map(str, command)),
        cwd=cwd,
        env=environment(**variables) if exactly is None else exactly,
        stdout=output,
        stderr=output if log is None else subprocess.STDOUT,
        text=log is None,
    )
    if guard is not None:
        guard.watch(process.pid)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(READY_TIMEOUT_S)
        process.kill()
        process.wait()


def next_line(process: subprocess.Popen[AnyStr], timeout_s: float = 120.0, *, errors: bool = False) -> AnyStr:
    """The next line of a process' output. It is read on a thread: ``select`` does not see what is already buffered."""
    stream = process.stderr if errors else process.stdout
    assert stream is not None
    lines: SimpleQueue[AnyStr] = SimpleQueue()
    Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    try:
        return lines.get(timeout=timeout_s)
    except Empty:
        raise AssertionError(f"no line within {timeout_s:.0f} s") from None


def announcement(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The line of JSON that a command writes once it is ready."""
    line = next_line(process)
    assert line, f"ended with {process.wait()} before it was ready"
    found: dict[str, Any] = json.loads(line)
    return found


def free_port(count: int = 1) -> int:
    """The first of ``count`` free ports in a row. The kernel chooses none of them for others: its range is above."""
    while True:
        port = random.randrange(20_000, 32_000)
        with ExitStack() as listeners, suppress(OSError):
            for each in range(count):
                listeners.enter_context(socket.create_server(("127.0.0.1", port + each)))
            return port


class IndexServer:
    """A Qdrant server that can be stopped and started at the same address, with the same points."""

    def __init__(self, directory: Path, *, checked: bool = True) -> None:
        self._directory = directory
        self._more = () if checked else ("--unchecked",)
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where it is, or will be."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """The variables with which workers find it."""
        return {"MEMFOREST_INDEX__KIND": "qdrant", "MEMFOREST_INDEX__URL": self.url}

    def start(self) -> None:
        """Serve; returns when it listens."""
        self._run("tests.harness.qdrant_http", "--port", str(self._port), *self._more)

    def _run(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, "--path", str(self._directory), *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip(), "the index server did not start"

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class OwnedIndex(IndexServer):
    """The engine in a process that serves it over a Unix domain socket: workers of one machine without a Qdrant
    server."""

    def __init__(self, directory: Path, model: str, dimension: int) -> None:
        super().__init__(directory)
        self._embedding = (model, dimension)

    @property
    def settings(self) -> dict[str, str]:
        """The variables with which workers find it."""
        return {"MEMFOREST_INDEX__KIND": "qdrant_edge", "MEMFOREST_INDEX__PATH": str(self._directory)}

    def start(self) -> None:
        """Serve; returns when it listens."""
        model, dimension = self._embedding
        self._run("tests.harness.index_owner", "--model", model, "--dimension", str(dimension))


@dataclass
class Deployment:
    """Addresses of the parts, and the workers that were started."""

    settings: Settings
    variables: Mapping[str, str]
    logs: Path
    index: IndexServer
    model: str | None
    """Address of the model server."""
    guard: Guard
    """Ends workers and index when this process is killed."""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    supervisors: set[int] = field(default_factory=set)
    """Process ids of those that supervise others and do no work themselves."""

    def client(self) -> MemForestClient:
        return MemForestClient(self.settings)

    def launch_worker(
        self, *, concurrency: int = 4, processes: int = 1, queues: str = ALL_QUEUES, launcher: Sequence[str] = CLI
    ) -> subprocess.Popen[bytes]:
        """Start ``memforest worker`` without waiting; ``launcher`` is the module (and its arguments)."""
        with self._log(len(self.workers)).open("wb") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", *launcher, "worker"),
                    *("--queues", queues),
                    *("--concurrency", str(concurrency), "--processes", str(processes)),
                ],
                env=environment(**self.variables),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.guard.watch(process.pid)
        self.workers.append(process)
        if processes > 1:
            self.supervisors.add(process.pid)
        return process

    def await_worker(self, process: subprocess.Popen[bytes], processes: int = 1) -> None:
        """Until all its processes are registered."""
        path = self._log(self.workers.index(process))
        deadline = time.monotonic() + READY_TIMEOUT_S
        while path.read_bytes().count(b"worker_ready") < processes:
            assert process.poll() is None, self.log_tail()
            assert time.monotonic() < deadline, self.log_tail()
            time.sleep(0.05)

    def start_worker(self, *, concurrency: int = 4, processes: int = 1) -> subprocess.Popen[bytes]:
        """Start ``memforest worker`` for all queues; it is registered when this returns."""
        process = self.launch_worker(concurrency=concurrency, processes=processes)
        self.await_worker(process, processes)
        return process

    def worker_pids(self) -> list[int]:
        """The processes that do work, in order: a supervisor's children, or the one process itself."""
        found: list[int] = []
        for worker in self.workers:
            if worker.poll() is not None:
                continue
            if worker.pid in self.supervisors:
                found += sorted(child.pid for child in psutil.Process(worker.pid).children())
            else:
                found.append(worker.pid)
        return found

    def _log(self, number: int) -> Path:
        return self.logs / f"worker-{number}.log"

    def control_model(self, **changes: object) -> dict[str, int]:
        """Change the model server's latency_s or faults; how many requests it has had, and the peak at once."""
        assert self.model is not None
        answer = httpx.post(self.model.removesuffix("/v1") + "/control", json=changes, timeout=10.0)
        return {name: int(value) for name, value in answer.raise_for_status().json().items()}

    def log_tail(self) -> str:
        """The end of every worker's log, for a failed assertion."""
        return "\n".join(path.read_text(errors="replace")[-2_000:] for path in sorted(self.logs.glob("*.log")))

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """kill -9, as the machine would."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def rows(self, statement: str, **values: object) -> list[sa.Row[*tuple[Any, ...]]]:
        """Rows of a query as the owner of the tables, across tenants."""
        with self.owner.connect() as connection:
            return list(connection.execute(sa.text(statement), values).all())

    @cached_property
    def owner(self) -> sa.Engine:
        """What ``rows`` and ``scalar`` use."""
        return owner_of(self.settings.database)

    def scalar(self, statement: str, **values: object) -> int:
        """One number of a query."""
        return int(self.rows(statement, **values)[0][0])

    def stop(self) -> None:
        """Kill what is left."""
        self.owner.dispose()
        for process in self.workers:
            if process.poll() is None:
                self.kill(process)


SHORT = {
    "MEMFOREST_WORKER__HEARTBEAT_S": "0.5",
    "MEMFOREST_WORKER__DEAD_AFTER_S": "2",
    "MEMFOREST_WORKER__RECONCILE_S": "1",
    "MEMFOREST_REFRESH__QUIET_S": "0.3",
    "MEMFOREST_REFRESH__MAX_STALENESS_S": "3",
}
"""Leases and rounds of tests."""


@contextmanager
def deployment(
    servers: SessionServers,
    directory: Path,
    *,
    latency_s: float = 0.0,
    faults: Mapping[str, float] | None = None,
    seed: int = 0,
    offline: bool = False,
    without_index: bool = False,
    measured: bool = False,
    owned_index: tuple[str, int] | None = None,
    settings: Mapping[str, str] | None = None,
    **variables: str,
) -> Iterator[Deployment]:
    """Servers for one test; workers are started by the test, and so is the index if it is left out.

    ``settings`` and ``variables`` are environment variables of the workers.
    Leases and rounds are short, so that what is lost is found within seconds; not where time is ``measured``: there
    workers have the defaults, and the index server does not check requests against Qdrant's description. With
    ``owned_index``, the embedding model's name and dimension, one process has the engine and serves it over a socket.
    """
    with ExitStack() as stack:
        address = stack.enter_context(database(servers))
        guard = Guard()
        stack.callback(guard.close)
        index = IndexServer(directory / "qdrant", checked=not measured)
        if owned_index is not None:
            index = OwnedIndex(directory / "qdrant", *owned_index)
        stack.callback(index.kill)
        if not without_index:
            index.start()
            guard.watch(index.pid)
        assert address.migration_url is not None
        values = {
            "MEMFOREST_DATABASE__URL": address.url.get_secret_value(),
            "MEMFOREST_DATABASE__MIGRATION_URL": address.migration_url.get_secret_value(),
            "MEMFOREST_BROKER__URL": servers.broker_url,
            **index.settings,
            **({} if measured else SHORT),
        }
        model = None
        if not offline:
            model = stack.enter_context(
                serving(
                    "tests.harness.model_server",
                    "--port",
                    "0",
                    "--latency",
                    str(latency_s),
                    "--faults",
                    json.dumps(dict(faults or {})),
                    "--seed",
                    str(seed),
                )
            )
            values |= {
                "MEMFOREST_LLM__MODEL": "openai/test-model",
                "MEMFOREST_LLM__API_BASE": model,
                "MEMFOREST_LLM__API_KEY": "test-key",
            }
        values |= dict(settings or {}) | variables
        logs = directory / "logs"
        logs.mkdir()
        running = Deployment(settings_from(values), values, logs, index, model, guard)
        stack.callback(running.stop)
        yield running


def settings_from(values: Mapping[str, str]) -> Settings:
    """The settings that a process with these variables has."""
    groups: dict[str, object] = {}
    for name, value in values.items():
        place = groups
        *outer, last = name.removeprefix("MEMFOREST_").lower().split("__")
        for part in outer:
            place = place.setdefault(part, {})  # type: ignore[assignment]
        place[last] = json.loads(value) if value.startswith("{") else value
    return load_settings(**groups)
