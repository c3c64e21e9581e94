"""hindsight's API server with its worker inside, on the embedded Postgres; called over HTTP as its clients do."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg

from benchmarks.peers.child import CALLERS
from benchmarks.peers.sessions import Session
from benchmarks.peers.systems import PeerUnavailable, environment_of, last_line, until
from tests.harness.processes import free_port

START_S = 300.0
QUIET_S = 2.0
"""Without an open operation for this long, nothing is left to do: its poller runs twice a second."""
WORK_S = 1_800.0
OPEN = ("pending", "processing")
RETAIN = ("retain", "batch_retain")


class Hindsight:
    """Defaults, but for what has no place here: the reranker, whose model is loaded from a hub, and telemetry.

    The worker's id is fixed, as its own warning advises: without that nothing would take up what a kill leaves.
    """

    def __init__(self, directory: Path, model_url: str, postgres_url: str) -> None:
        self.sent: set[str] = set()
        self.accepted: set[str] = set()
        self._postgres_url = postgres_url
        self._log = directory / "log"
        self._port = free_port()
        self._program = environment_of("hindsight") / "hindsight-api"
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=120.0)
        self._concurrent = ThreadPoolExecutor(1)
        self._adding: Future[None] | None = None
        variables = {
            "DATABASE_URL": postgres_url,
            "LLM_PROVIDER": "openai",
            "LLM_API_KEY": "test-key",
            "LLM_MODEL": "test-model",
            "LLM_BASE_URL": model_url,
            "EMBEDDINGS_PROVIDER": "openai",
            "EMBEDDINGS_OPENAI_API_KEY": "test-key",
            "EMBEDDINGS_OPENAI_MODEL": "all-minilm",
            "EMBEDDINGS_OPENAI_BASE_URL": model_url,
            "RERANKER_PROVIDER": "rrf",
            "WORKER_ID": "peers",
        }
        self._environment = os.environ | {f"HINDSIGHT_API_{name}": value for name, value in variables.items()}

    def start(self) -> None:
        """See System."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [str(self._program), "--host", "127.0.0.1", "--port", str(self._port)],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if not until(self._ready, START_S):
            raise PeerUnavailable(f"hindsight did not start within {START_S:g} s: {last_line(self._log)}")

    def add(self, sessions: Sequence[Session]) -> None:
        """See System."""
        self._adding = self._concurrent.submit(self._hand_over_all, sessions)

    def await_facts(self) -> None:
        """See System."""
        assert self._adding is not None
        self._adding.result()
        self._await_none_open(RETAIN, 0.0)

    def settle(self, owners: Sequence[str]) -> None:
        """See System."""
        self._await_none_open((), QUIET_S)

    def recall(self, owner: str, question: str, k: int) -> tuple[list[str], float]:
        """See System."""
        started = time.perf_counter()
        answer = self._client.post(f"/v1/default/banks/{owner}/memories/recall", json={"query": question})
        took = time.perf_counter() - started
        if answer.status_code == httpx.codes.NOT_FOUND:
            return [], took
        return [each["text"] for each in answer.raise_for_status().json()["results"][:k]], took

    def kill(self) -> None:
        """See System."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        if self._adding is not None:
            self._adding.result()

    def stop(self) -> None:
        """See System."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise PeerUnavailable(f"hindsight ended at its start: {last_line(self._log)}")
        try:
            return self._client.get("/health").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def _hand_over_all(self, sessions: Sequence[Session]) -> None:
        with ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(self._hand_over, sessions))

    def _hand_over(self, session: Session) -> None:
        talk = "\n".join(f"{turn['role']}: {turn['content']}" for turn in session.turns)
        said = datetime.fromtimestamp(float(session.turns[0]["timestamp"]), UTC).isoformat()
        item = {"content": talk, "timestamp": said, "document_id": session.session_id}
        path = f"/v1/default/banks/{session.owner}/memories"
        self.sent.add(session.session_id)
        try:
            self._client.post(path, json={"items": [item], "async": True}).raise_for_status()
        except httpx.TransportError:
            return  # killed: not accepted
        self.accepted.add(session.session_id)

    def _await_none_open(self, kinds: Sequence[str], quiet_s: float) -> None:
        """Until no operation of these kinds (or any) was open for ``quiet_s``."""
        idle_since = time.monotonic()
        deadline = idle_since + WORK_S
        while time.monotonic() < deadline:
            if self._open(kinds):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since >= quiet_s:
                return
            time.sleep(0.1)
        raise PeerUnavailable(f"hindsight was still at work after {WORK_S:g} s.")

    def _open(self, kinds: Sequence[str]) -> int:
        """Operations that are not over, of these kinds or of any."""
        statement = "SELECT count(*) FROM async_operations WHERE status = ANY(%s)"
        values: list[Any] = [list(OPEN)]
        if kinds:
            statement, values = statement + " AND operation_type = ANY(%s)", [*values, list(kinds)]
        with psycopg.connect(self._postgres_url) as connection:
            found = connection.execute(statement, values).fetchone()
        assert found is not None
        return int(found[0])
