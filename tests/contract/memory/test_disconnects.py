"""Clients that close their connection in the middle of something are no errors of the server."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import httpx
import pytest
from typer.testing import CliRunner

from memforest_core.cli.program import app
from tests.harness.processes import environment, free_port
from tests.harness.timing import until

SESSION = {"owner": "a", "session_id": "open", "turns": [{"role": "user", "content": "I live in Rome."}]}
LINE = json.dumps({**SESSION, "session_id": "streamed"})
OPEN = "owner=a&session_id=open"
REQUESTS = {
    "a GET that waits": ("GET", f"/v1/sessions/wait?{OPEN}&stage=summaries&timeout_s=1", "", ""),
    "a GET of a file": ("GET", "/v1/bundle?owner=a", "", ""),
    "half a JSON body": ("POST", "/v1/sessions", "application/json", '{"owner": "a", "ses'),
    "half a chat": ("POST", "/openai/v1/chat/completions", "application/json", '{"mod'),
    "half a request of mem0": ("POST", "/v3/memories/", "application/json", '{"filters'),
    "half a call of a tool": ("POST", "/mcp", "application/json", '{"jsonrpc": "2.0", "meth'),
    "half a line": ("POST", "/v1/sessions/stream", "application/x-ndjson", f"{LINE}\n{LINE[:20]}"),
    "half a bundle": ("POST", "/v1/bundle", "application/octet-stream", "abc"),
    "events": ("GET", f"/v1/sessions/events?{OPEN}", "", ""),
    "half a form": ("POST", "/login", "application/x-www-form-urlencoded", "key="),
}
ANSWERED_AT_ONCE = {"half a line", "events"}
COUNT = re.compile(r"^memforest_http_request_duration_seconds_count\S* (\S+)$", re.M)
RESET = b"\1\0\0\0\0\0\0\0"
"""SO_LINGER of no seconds: the connection ends with RST."""


@dataclass(frozen=True)
class Served:
    """A server as its command starts it."""

    process: subprocess.Popen[str]
    address: str
    metrics: str
    secret: str
    log: IO[str]

    def answered(self) -> float:
        """How many requests have ended."""
        counts = COUNT.findall(httpx.get(self.metrics).text)
        return sum(map(float, counts))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    program, data = [sys.executable, "-m", "memforest_core.cli"], ["--data", str(tmp_path / "data"), "--json"]
    variables = environment(MEMFOREST_SERVER__METRICS_PORT=str(port := free_port()))
    with (tmp_path / "log").open("w+") as log:
        command = [*program, "serve", "--port", "0", *data]
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=log, text=True) as process:
            try:
                assert process.stdout is not None
                address = json.loads(process.stdout.readline())["address"]
                until((tmp_path / "data" / "node.json").exists)
                made = CliRunner().invoke(app, ["keys", "create", "leaving", "--scope", "admin", *data])
                assert made.exit_code == 0, (made.stderr, made.exception)
                secret = json.loads(made.stdout)["secret"]
                yield Served(process, address, f"http://127.0.0.1:{port}/metrics", secret, log)
            finally:
                process.terminate()
                process.wait(60)


def check_metrics(served: Served) -> None:
    """They are on a port of their own."""
    httpx.get(f"{served.address}/health", timeout=60).raise_for_status()
    metrics = httpx.get(served.metrics).text
    assert 'memforest_http_request_duration_seconds_count{operation="health",status="200"}' in metrics
    assert 'memforest_queue_waiting_seconds{queue="extract"}' in metrics


def test_clients_that_leave_are_no_errors(served: Served) -> None:
    """Given requests of each kind, when their clients close or reset the connection before the body is whole or the answer
    has ended, then each request ends and the log of the server has no error and no traceback."""
    head = {"Authorization": f"Bearer {served.secret}"}
    httpx.post(f"{served.address}/v1/sessions", headers=head, json=SESSION, timeout=60).raise_for_status()
    check_metrics(served)
    parts = urlsplit(served.address)

    for name, (verb, path, kind, body) in REQUESTS.items():
        for reset in (False, True):
            before = served.answered()
            with socket.create_connection((str(parts.hostname), int(parts.port or 0))) as client:
                lines = [f"{verb} {path} HTTP/1.1", "Host: a", f"Authorization: Bearer {served.secret}"]
                lines += [f"Content-Type: {kind}", f"Content-Length: {len(body) + 1_000}"] if body else []
                client.sendall("\r\n".join([*lines, "Accept: application/json, text/event-stream", "", body]).encode())
                if name in ANSWERED_AT_ONCE:
                    assert client.recv(12) == b"HTTP/1.1 200"
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            while served.answered() == before:
                time.sleep(0.02)

    served.process.terminate()
    served.process.wait(60)
    served.log.seek(0)
    bad = [line for line in served.log if '"level": "error"' in line or "Traceback" in line]
    assert bad == []
