"""A deployment of real processes for one test: workers, a model server, a Qdrant server, one database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from memforest_core.client import MemForestClient
from memforest_core.settings import Settings, load_settings
from tests.support.servers import SessionServers
from tests.support.stack import database

READY_TIMEOUT_S = 40.0


def environment(**values: str) -> dict[str, str]:
    """An environment without any MemForest settings but these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMFOREST_")}
    return kept | values


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


@dataclass
class Deployment:
    """Addresses of the parts, and the workers that were started."""

    settings: Settings
    variables: Mapping[str, str]
    logs: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def client(self) -> MemForestClient:
        return MemForestClient(self.settings)

    def start_worker(self, *, concurrency: int = 4) -> subprocess.Popen[bytes]:
        """Start ``memforest worker`` for all queues; it is enlisted when this returns."""
        path = self.logs / f"worker-{len(self.workers)}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "memforest_core.cli",
                    "worker",
                    "--queues",
                    "extract,reduce,refresh,maintain",
                    "--concurrency",
                    str(concurrency),
                ],
                env=environment(**self.variables),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.workers.append(process)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while b"worker_ready" not in path.read_bytes():
            assert process.poll() is None, self.log_tail()
            assert time.monotonic() < deadline, self.log_tail()
            time.sleep(0.05)
        return process

    def log_tail(self) -> str:
        """The end of every worker's log, for a failed assertion."""
        return "\n".join(path.read_text(errors="replace")[-2_000:] for path in sorted(self.logs.glob("*.log")))

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """kill -9, as the machine would."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def rows(self, statement: str, **values: object) -> list[sa.Row[tuple[object, ...]]]:
        """Rows of a query as the owner of the tables, across tenants."""
        url = self.settings.database.migration_url
        assert url is not None
        engine = sa.create_engine(url.get_secret_value())
        try:
            with engine.connect() as connection:
                return list(connection.execute(sa.text(statement), values).all())
        finally:
            engine.dispose()

    def scalar(self, statement: str, **values: object) -> int:
        """One number of a query."""
        return int(self.rows(statement, **values)[0][0])

    def stop(self) -> None:
        """Kill what is left."""
        for process in self.workers:
            if process.poll() is None:
                self.kill(process)


@contextmanager
def deployment(
    servers: SessionServers,
    directory: Path,
    *,
    latency_s: float = 0.0,
    faults: Mapping[str, float] | None = None,
    seed: int = 0,
    offline: bool = False,
    **variables: str,
) -> Iterator[Deployment]:
    """Servers for one test; workers are started by the test.

    Leases and rounds are short, so that what is lost is found within seconds.
    """
    with ExitStack() as stack:
        address = stack.enter_context(database(servers))
        index = stack.enter_context(
            serving("tests.support.qdrant_http", "--path", str(directory / "qdrant"), "--port", "0")
        )
        assert address.migration_url is not None
        values = {
            "MEMFOREST_DATABASE__URL": address.url.get_secret_value(),
            "MEMFOREST_DATABASE__MIGRATION_URL": address.migration_url.get_secret_value(),
            "MEMFOREST_BROKER__URL": servers.broker_url,
            "MEMFOREST_INDEX__KIND": "qdrant",
            "MEMFOREST_INDEX__URL": index if index.startswith("http") else f"http://127.0.0.1:{index}",
            "MEMFOREST_WORKER__HEARTBEAT_S": "0.5",
            "MEMFOREST_WORKER__DEAD_AFTER_S": "2",
            "MEMFOREST_WORKER__RECONCILE_S": "1",
            "MEMFOREST_REFRESH__QUIET_S": "0.3",
            "MEMFOREST_REFRESH__MAX_STALENESS_S": "3",
        }
        if not offline:
            model = stack.enter_context(
                serving(
                    "tests.support.model_server",
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
        values |= variables
        logs = directory / "logs"
        logs.mkdir()
        running = Deployment(settings_from(values), values, logs)
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
        place[last] = value
    return load_settings(**groups)
