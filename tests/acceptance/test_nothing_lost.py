"""Accepted sessions end ready, with every candidate attached once, whatever is killed or wiped meanwhile."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import redis

from tests.harness.processes import Deployment, deployment
from tests.harness.servers import SessionServers

SESSIONS = 12
KILLED = 2


def conversation(number: int) -> list[dict[str, object]]:
    """A session of 8 turns, different from every other."""
    locations = ["Oslo", "Lima", "Cairo", "Quito", "Perth", "Turin"]
    return [
        {
            "role": "user" if turn % 2 == 0 else "assistant",
            "content": f"I moved to {locations[(number + turn) % 6]} with {number * 10 + turn} boxes in week {turn}."
            if turn % 2 == 0
            else "That sounds like a lot of work.",
            "timestamp": 1_700_000_000 + number * 86_400 + turn * 60,
        }
        for turn in range(8)
    ]


def candidates(running: Deployment) -> set[tuple[str, int, int, str]]:
    """Every candidate, named by what does not depend on random ids."""
    return {
        (str(row[0]), int(row[1]), int(row[2]), str(row[3]))  # type: ignore[call-overload]
        for row in running.rows(
            """SELECT s.external_id, c.ordinal, k.item, k.statement->>'text' FROM memforest.candidate k
                 JOIN memforest.cell c USING (tenant_id, cell_id)
                 JOIN memforest.session s USING (tenant_id, session_id)"""
        )
    }


def settle(running: Deployment, timeout_s: float = 90.0) -> None:
    """Wait until nothing is left to do."""
    client = running.client()
    try:
        for number in range(SESSIONS):
            client.wait(f"owner-{number % 3}", f"s{number}", "summaries", timeout_s)
    finally:
        client.close()


def assert_each_once(running: Deployment) -> None:
    unattached = running.scalar(
        """SELECT count(*) FROM memforest.candidate k LEFT JOIN memforest.occurrence o USING (tenant_id, cell_id, item)
            WHERE o.fact_id IS NULL"""
    )
    assert unattached == 0
    assert running.scalar("SELECT count(*) FROM memforest.cell WHERE NOT placed") == 0
    assert running.scalar("SELECT count(*) FROM memforest.cell WHERE outcome = 'verbatim'") == 0
    doubled = running.scalar(
        """SELECT count(*) FROM (SELECT payload_id, tree_id FROM memforest.node WHERE level = 0
            GROUP BY 1, 2 HAVING count(*) > 1) d"""
    )
    assert doubled == 0


def enqueue_all(running: Deployment) -> None:
    client = running.client()
    try:
        for number in range(SESSIONS):
            client.enqueue(f"owner-{number % 3}", f"s{number}", conversation(number))
    finally:
        client.close()


@pytest.fixture(scope="module")
def calm(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, int, int, str]]:
    """The candidates of a run in which nothing happens."""
    with deployment(servers, tmp_path_factory.mktemp("calm"), latency_s=0.05) as running:
        running.start_worker()
        enqueue_all(running)
        settle(running)
        assert_each_once(running)
        return candidates(running)


def alive(running: Deployment) -> list[subprocess.Popen[bytes]]:
    return [worker for worker in running.workers if worker.poll() is None]


def at_work(running: Deployment) -> set[int]:
    """Process ids of the workers that hold the lease of a cell."""
    held = running.rows(
        "SELECT DISTINCT w.name FROM memforest.cell c JOIN memforest.worker w USING (worker_id) WHERE c.state = 'running'"
    )
    return {int(found[1]) for row in held if (found := re.search(r"-([0-9]+)@", str(row[0])))}


def kill_at_work(running: Deployment, timeout_s: float = 30.0) -> None:
    """Kill a worker that holds a lease: it is stopped before it is looked at again, and so can't end its work between."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        busy = at_work(running)
        for worker in alive(running):
            if worker.pid not in busy:
                continue
            os.killpg(worker.pid, signal.SIGSTOP)
            if worker.pid in at_work(running):
                running.kill(worker)
                return
            os.killpg(worker.pid, signal.SIGCONT)
        time.sleep(0.02)
    raise AssertionError(f"no worker held a cell within {timeout_s:.0f} s")


def test_killed_workers_lose_nothing(
    servers: SessionServers, tmp_path: Path, calm: set[tuple[str, int, int, str]]
) -> None:
    """Given three workers, when one after the other is killed with -9, then the calm run's candidates are there."""
    chance = random.Random(7)
    with deployment(servers, tmp_path, latency_s=1.0) as running:
        workers = [running.launch_worker(concurrency=1) for _ in range(KILLED + 1)]
        for worker in workers:
            running.await_worker(worker)
        enqueue_all(running)
        kill_at_work(running)
        for _ in range(KILLED - 1):
            time.sleep(chance.uniform(0.2, 0.6))
            running.kill(chance.choice(alive(running)))
        running.control_model(latency_s=0.05)
        settle(running)
        assert_each_once(running)
        assert candidates(running) == calm
        assert running.scalar("SELECT sum(lost_leases) FROM memforest.cell") > 0


def test_a_wiped_broker_loses_nothing(
    servers: SessionServers, tmp_path: Path, calm: set[tuple[str, int, int, str]]
) -> None:
    """Given work under way, when the broker's data is wiped three times, then the reconciler finds the rest."""
    with deployment(servers, tmp_path, latency_s=0.3) as running:
        running.start_worker()
        enqueue_all(running)
        with redis.Redis.from_url(servers.redis_url) as broker:
            for _ in range(3):
                time.sleep(0.4)
                broker.flushall()
        running.control_model(latency_s=0.0)
        settle(running)
        assert_each_once(running)
        assert candidates(running) == calm


def test_without_any_broker_the_work_is_still_done(servers: SessionServers, tmp_path: Path) -> None:
    """Given a broker that cannot be reached at all, then workers find the rows by themselves and do them."""
    nowhere = {"MEMFOREST_BROKER__URL": "redis://127.0.0.1:1/0", "MEMFOREST_BROKER__PUBLISH_TIMEOUT_S": "0.5"}
    with deployment(servers, tmp_path, offline=True, **nowhere) as running:
        running.start_worker()
        client = running.client()
        client.enqueue("owner-0", "s0", conversation(0))
        assert client.wait("owner-0", "s0", "summaries", 60.0).placed == 4
        assert "broker_unavailable" in running.log_tail()
        client.close()
