"""``memforest worker --processes``: dead processes are replaced at once, and nobody outlives the parent."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.harness.processes import MEMFOREST, Deployment, deployment, program
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.timing import until


def children(parent: subprocess.Popen[bytes]) -> list[int]:
    found = []
    for child in psutil.Process(parent.pid).children():
        with suppress(psutil.NoSuchProcess):  # it may end meanwhile
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
    return found


@contextmanager
def supervised(running: Deployment, processes: int) -> Iterator[subprocess.Popen[bytes]]:
    log = running.logs / "supervisor.log"
    command = (*MEMFOREST, "worker", "--processes", str(processes), "--concurrency", "2")
    pool = {"MEMFOREST_DATABASE__POOL_SIZE": "4", "MEMFOREST_DATABASE__MAX_OVERFLOW": "4"}
    with program(*command, log=log, guard=running.guard, **running.variables, **pool) as parent:
        try:
            until(lambda: alive(running) >= processes)
            yield parent
        finally:
            print(log.read_text(errors="replace")[-3_000:])


def alive(running: Deployment) -> int:
    return running.scalar(
        "SELECT count(*) FROM memforest.worker WHERE heartbeat_at > clock_timestamp() - interval '2 s'"
    )


@pytest.fixture
def running(servers: SessionServers, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(servers, tmp_path, offline=True) as made:
        yield made


def test_killed_processes_are_replaced_and_the_work_is_done(running: Deployment) -> None:
    """Given three processes, when each is killed with -9, then others replace them and take over their leases."""
    with supervised(running, 3) as parent:
        first = children(parent)
        assert len(first) == 3
        names = {str(row[0]) for row in running.rows("SELECT name FROM memforest.worker")}
        client = running.client()
        handles = [client.enqueue("ann", f"s{n}", said(f"I bought {n} pears.", f"You have {n}.")) for n in range(20)]
        for pid in first:
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)
        until(lambda: len(children(parent)) == 3 and not set(children(parent)) & set(first))
        for handle in handles:
            assert handle.wait("facts", 60.0).placed == 1
        until(lambda: alive(running) == 3)
        assert {str(row[0]) for row in running.rows("SELECT name FROM memforest.worker")} == names
        client.close()


def test_a_terminated_supervisor_ends_its_processes(running: Deployment) -> None:
    with supervised(running, 2) as parent:
        before = children(parent)
        parent.send_signal(signal.SIGTERM)
        assert parent.wait(20) == 0
        assert not any(psutil.pid_exists(pid) for pid in before)
        assert running.scalar("SELECT count(*) FROM memforest.worker") == 0


def test_nobody_outlives_a_killed_supervisor(running: Deployment) -> None:
    with supervised(running, 2) as parent:
        before = children(parent)
        parent.kill()
        parent.wait()
        until(lambda: not any(psutil.pid_exists(pid) for pid in before))


def test_a_worker_whose_call_hangs_past_every_deadline_ends_itself(servers: SessionServers, tmp_path: Path) -> None:
    """Given a unit of work that never comes back, then its process ends with a code of its own and frees the slot."""
    with deployment(servers, tmp_path, latency_s=60.0, MEMFOREST_WORKER__STUCK_S="1") as running:
        worker = running.start_worker(concurrency=2)
        client = running.client()
        client.enqueue("ann", "s1", said("I bought pears.", "Good."))

        assert worker.wait(30) == 70
        assert "unit_stuck" in running.log_tail()
        client.close()
