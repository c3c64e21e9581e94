"""deploy/systemd: what systemd reads is well formed, and each unit's command starts for real with its variables."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path

import pytest

from memforest_core.work.messages import Queue
from memforest_workers.worker import STOP_DEADLINE_S
from tests.acceptance.test_first_deployment import answered, run, until
from tests.harness.processes import Deployment, deployment, environment, free_port
from tests.harness.sayings import said
from tests.harness.servers import SessionServers

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "deploy/systemd"
PROGRAM = "/opt/memforest/bin/memforest"
SERVICES = sorted(path.name for path in PLACE.glob("*.service"))
KNOWN = {
    "Unit": {"Description", "After", "Wants", "StartLimitIntervalSec"},
    "Service": {
        *("Type", "EnvironmentFile", "Environment", "ExecStart", "Restart", "RestartSec", "TimeoutStopSec", "KillMode"),
        *("User", "Group", "NoNewPrivileges", "CapabilityBoundingSet", "ProtectSystem", "ProtectHome", "PrivateTmp"),
        *("PrivateDevices", "ProtectKernelTunables", "ProtectKernelModules", "ProtectControlGroups", "UMask"),
        *("RestrictAddressFamilies", "RestrictNamespaces", "LockPersonality", "SystemCallArchitectures"),
        *("StateDirectory", "StateDirectoryMode"),
    },
    "Install": {"WantedBy"},
    "Timer": {"OnCalendar", "RandomizedDelaySec", "Persistent"},
}
"""Sections and their settings, as systemd.unit(5), .service(5), .exec(5), .kill(5) and .timer(5) name them."""


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


@pytest.mark.parametrize("name", [*SERVICES, "memforest-backup.timer"])
def test_a_unit_has_only_settings_that_systemd_knows(name: str) -> None:
    unit = Unit(name)
    for section in unit.sections():
        assert set(unit[section]) <= KNOWN[section]
    if name.endswith(".service"):
        service = unit["Service"]
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
    workers = []
    try:
        for queue in Queue:
            command = Unit("memforest-worker@.service").command(queue.value, CONCURRENCY="2")
            log = running.logs / f"{queue.value}.log"
            with log.open("wb") as out:
                workers.append(subprocess.Popen(command, env=environment(**running.variables), stdout=out, stderr=out))
            running.guard.watch(workers[-1].pid)
        client = running.client()
        handle = client.enqueue("ann", "s1", said("I bought a pear.", "You have one."))
        assert handle.wait("facts", 120.0).placed == 1, running.log_tail()
        client.close()
    finally:
        for worker in workers:
            worker.terminate()
        assert [worker.wait(60) for worker in workers] == [0] * len(workers)
    saved = Unit("memforest-backup.service").command(BACKUPS=str(tmp_path), INVOCATION_ID="night")
    made = run(*saved, **running.variables)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "night" / "manifest.json").exists()


def test_flower_starts(running: Deployment, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "flower.log"
    own = {"FLOWER_BASIC_AUTH": "ops:secret", "FLOWER_PORT": str(port)}
    with log.open("wb") as out:
        page = subprocess.Popen(
            Unit("memforest-flower.service").command(),
            env=environment(**running.variables, **own),
            stdout=out,
            stderr=out,
        )
    running.guard.watch(page.pid)
    try:
        until(lambda: answered(port, "healthcheck") == 200, page, log)
    finally:
        page.terminate()
        page.wait(30)
