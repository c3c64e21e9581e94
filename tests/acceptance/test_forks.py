"""An app that connects and is forked then: each child has connections of its own, and gets its own answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from celery import Celery

from tests.harness.processes import Deployment, deployment, program
from tests.harness.sayings import said
from tests.harness.servers import SessionServers

CHILDREN = 3
ROUNDS = 10
OWNERS = [f"owner{number}" for number in range(CHILDREN)]
CITIES = ("Oslo", "Rome", "Lima")

PRELOADED = """
import json, os
from memforest_core import MemForest

memory = MemForest.connect()
for owner in {owners!r}:
    memory.turns(owner, "base")
    memory.recall(owner, "What did I buy?")


def seen(owner):
    found = memory.recall(owner, "What did I buy?", 3)
    return {{
        "process": os.getpid(),
        "turns": [turn.content for turn in memory.turns(owner, "base").items],
        "found": [item.text for item in found.evidence],
        "degraded": found.degraded,
        "state": memory.status(owner, "base").turns,
    }}
"""
TASKS = """
from celery import Celery

app = Celery("app", broker={broker!r}, backend={backend!r}, set_as_current=False)
app.conf.worker_prefetch_multiplier = 1
look = app.task(seen, name="look")
"""


@pytest.fixture(scope="module")
def running(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment in which each owner has bought something in a city of its own."""
    with deployment(servers, tmp_path_factory.mktemp("forks"), offline=True) as made:
        made.start_worker()
        client = made.client()
        for owner, city in zip(OWNERS, CITIES, strict=True):
            sentences = [f"I bought thing{owner}{number} in {city}." for number in range(6)]
            client.enqueue(owner, "base", said(*sentences), wait="facts", timeout_s=120)
        yield made


@contextmanager
def started(running: Deployment, module: str, source: str, *command: str) -> Iterator[None]:
    """A program over a module of this source, until the end of the block."""
    directory = running.logs / module
    directory.mkdir(exist_ok=True)
    (directory / f"{module}.py").write_text(source)
    log = directory / "log"
    python = (sys.executable, "-m", *command)
    with program(*python, log=log, guard=running.guard, cwd=directory, **running.variables):
        yield
    print(log.read_text(errors="replace")[-3_000:])


def check(answers: list[tuple[str, dict[str, object]]]) -> None:
    """Each answer is about the owner of its question, and the answers came from several processes."""
    for owner, answer in answers:
        own = [f"I bought thing{owner}{number} in {CITIES[OWNERS.index(owner)]}." for number in range(6)]
        assert answer["turns"] == own
        assert answer["state"] == 6
        assert answer["degraded"] == []
        assert answer["found"]
        assert all(CITIES[OWNERS.index(owner)] in str(text) for text in answer["found"])  # type: ignore[attr-defined]
    assert len({answer["process"] for _, answer in answers}) > 1


def test_children_of_celery_prefork_over_a_connected_app_each_get_their_own_answers(
    running: Deployment, servers: SessionServers, tmp_path: Path
) -> None:
    broker, backend = servers.broker_url, f"file://{tmp_path}"
    queue = f"forks-{tmp_path.name}"
    source = PRELOADED.format(owners=OWNERS) + TASKS.format(broker=broker, backend=backend)
    options = ("--pool", "prefork", "--concurrency", str(CHILDREN), "--queues", queue, "--without-mingle")
    with started(running, "tasks", source, "celery", "--app", "tasks", "worker", *options):
        app = Celery("asking", broker=broker, backend=backend, set_as_current=False)
        requested = [(owner, app.send_task("look", [owner], queue=queue)) for owner in OWNERS * ROUNDS]
        check([(owner, result.get(timeout=120, disable_sync_subtasks=False)) for owner, result in requested])
        app.close()
