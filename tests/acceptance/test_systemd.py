"""deploy/systemd: what systemd reads is well formed, and each unit's command starts for real with its variables."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import ExitStack
from pathlib import Path

import pytest

from memforest_core.work.messages import Queue
from memforest_workers.worker import STOP_DEADLINE_S
from tests.acceptance.test_first_deployment import run
from tests.harness.processes import Deployment, deployment, program
from tests.harness.sayings import said
from tests.harness.servers import SessionServers

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "deploy/systemd"
PROGRAM = "/opt/memforest/bin/memforest"
SERVICES = sorted(path.name for path in PLACE.glob("*.service"))


class Unit(RawConfigParser):
    """A unit file; a setting may stand several times."""

    def __init__(self, name: str) -> None:
        super().__init__(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
        self.optionxform = str  # type: ignore[assignment,method-assign]
        self.text = (PLACE / name).read_text()
        self.read_string(self.text)

    def command(self, instance: str = "", **variables: str) -> list[str]:
        """ExecStart as systemd would run it, with our program."""
        words = shlex.split(self["Service"]["ExecStart"])
        assert words[0] == PROGRAM
        for line in re.findall(r"^Environment=(.*)$", self.text, re.MULTILINE):
            variables = dict(word.split("=", 1) for word in shlex.split(line)) | variables
        filled = [re.sub(r"\$\{?(\w+)\}?", lambda m: variables[m[1]], word) for word in words[1:]]
        return [sys.executable, "-m", "memforest_core.cli", *(word.replace("%i", instance) for word in filled)]


@pytest.fixture
def running(servers: SessionServers, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(servers, tmp_path, offline=True) as made:
        yield made


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_a_user_without_rights_and_comes_again(name: str) -> None:
    service = Unit(name)["Service"]
    assert (service["User"], service["NoNewPrivileges"], service["ProtectSystem"]) == ("memforest", "yes", "strict")
    assert service.get("Type") == "oneshot" or service["Restart"] == "always"


def test_a_worker_has_the_time_to_leave() -> None:
    patience = Unit("memforest-worker@.service")["Service"]["TimeoutStopSec"]
    assert int(patience.removesuffix("s")) >= STOP_DEADLINE_S + 10


@pytest.mark.timeout(300)  # seven processes start
def test_the_schema_and_a_worker_of_each_queue_start(running: Deployment, tmp_path: Path) -> None:
    """Given the units' commands, when the migration ran and a worker of each queue is started, then a session becomes
    facts, and a backup is made."""
    migrated = run(*Unit("memforest-migrate.service").command(), **running.variables)
    assert migrated.returncode == 0, migrated.stderr
    with ExitStack() as workers:
        started = []
        for queue in Queue:
            command = Unit("memforest-worker@.service").command(queue.value, CONCURRENCY="2")
            log = running.logs / f"{queue.value}.log"
            started.append(workers.enter_context(program(*command, log=log, guard=running.guard, **running.variables)))
        client = running.client()
        handle = client.enqueue("ann", "s1", said("I bought a pear.", "You have one."))
        assert handle.wait("facts", 120.0).placed == 1, running.log_tail()
        client.close()
    assert [worker.returncode for worker in started] == [0] * len(started)
    saved = Unit("memforest-backup.service").command(BACKUPS=str(tmp_path), INVOCATION_ID="night")
    made = run(*saved, **running.variables)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "night" / "manifest.json").exists()
