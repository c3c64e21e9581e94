"""``memforest up`` looks after its servers: what is killed runs again, and what can't run ends the node."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from memforest_core import MemForest
from memforest_core.client.embedded import process
from memforest_core.settings import load_settings
from tests.harness.processes import MEMFOREST, program
from tests.harness.sayings import said

READY_S = 120.0


@dataclass
class Node:
    """A running ``memforest up``."""

    process: subprocess.Popen[bytes]
    directory: Path
    log: Path

    def server(self, part: str, name: str) -> psutil.Process:
        """The first process of a server of this node."""
        found = process.find_in(self.directory / part, {name})
        members = {each.pid for each in found}
        [first] = [each for each in found if each.ppid() not in members]
        return first

    def await_line(self, text: str, times: int = 1) -> None:
        deadline = time.monotonic() + READY_S
        while self.log.read_text(errors="replace").count(text) < times:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)


@contextmanager
def up(directory: Path) -> Iterator[Node]:
    log = directory / "up.log"
    with program(*MEMFOREST, "up", "--data", directory / "data", "--no-serve", "--json", log=log) as process:
        node = Node(process, directory / "data", log)
        node.await_line('"environment"')
        yield node


def check_a_stopped_server_is_named_once(node: Node) -> None:
    server = node.server("valkey", "valkey-server")
    named = f"Valkey (process {server.pid})"
    for times in (1, 2):
        server.send_signal(signal.SIGSTOP)
        node.await_line(f"{named} is stopped and answers nothing", times)
        server.send_signal(signal.SIGCONT)
        node.await_line(f"{named} answers again", times)
    assert node.log.read_text().count(f"{named} is stopped") == 2


def test_servers_that_are_killed_run_again_and_the_node_works_on(tmp_path: Path) -> None:
    with up(tmp_path) as node:
        addresses = json.loads((node.directory / "node.json").read_text())
        with MemForest.connect(load_settings(**addresses)) as memory:
            memory.enqueue("ann", "before", said("I live in Oslo."), wait="facts", timeout_s=READY_S)
            for part, name in (("pg", "postgres"), ("valkey", "valkey-server")):
                node.server(part, name).kill()
            node.await_line("Postgres is running again")
            node.await_line("Valkey is running again")
            memory.enqueue("ann", "after", said("I moved to Rome."), wait="facts", timeout_s=READY_S)
            assert memory.status("ann", "before").turns == 1
        check_a_stopped_server_is_named_once(node)
        node.process.terminate()
        assert node.process.wait(60) == 0


@pytest.mark.release
def test_a_server_that_does_not_start_again_ends_the_node_with_an_error(tmp_path: Path) -> None:
    with up(tmp_path) as node:
        (node.directory / "pg" / "global" / "pg_control").unlink()
        node.server("pg", "postgres").kill()
        assert node.process.wait(READY_S) not in (0, None)
        reported = node.log.read_text()
        assert "Postgres ended 5 times within 10 minutes: look at" in reported
        assert "Traceback" not in reported
    assert process.find_in(node.directory / "valkey", {"valkey-server"}) == []
