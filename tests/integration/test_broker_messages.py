"""No message in a queue can stop a worker, and a queue gets no more messages than are useful."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from kombu.transport.redis import MultiChannelPoller
from pydantic import SecretStr

from memforest_core.client.embedded.valkey import EmbeddedValkey
from memforest_core.domain.ids import TenantId
from memforest_core.models.calls import Embedder
from memforest_core.settings import BrokerSettings
from memforest_core.work.messages import Queue
from memforest_core.work.publishing import ENOUGH, CeleryWakeUps
from memforest_workers.worker import BackgroundWorker
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.unit.workers.test_broker import headers, message

TENANT = TenantId("default")
WAIT_S = 20.0
POISON = [
    *("", "5", "null", "[]", "\x00\xff", "}{", "[" * 100_000, '{"__type__": "decimal", "__value__": "x"}'),
    *(json.dumps(message(body=body)) for body in ("", "%%%", "NQ==", "bnVsbA==")),
    json.dumps({"body": "", "headers": None, "properties": None}),
    json.dumps(headers(task="os.system")),
    json.dumps(headers(eta="nonsense", id={"a": 1})),
]


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    """A broker of the test's own: what is put into it concerns nobody else."""
    server = EmbeddedValkey(tmp_path, tmp_path / "valkey", tmp_path / "valkey.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(valkey: EmbeddedValkey) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey.redis_url) as connection:
        yield connection


@pytest.fixture
def pipeline(servers: SessionServers, valkey: EmbeddedValkey, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    """A pipeline on that broker."""
    broker = {"url": valkey.broker_url, "publish_timeout_s": 2.0}
    with stack(servers, tmp_path, embedder=embedder, broker=broker) as running:
        yield running


@pytest.fixture
def worker(pipeline: Stack, valkey: EmbeddedValkey) -> Iterator[BackgroundWorker]:
    """A Celery worker in this process, on that broker."""
    running = BackgroundWorker(pipeline.services, valkey.broker_url, 2)
    running.start()
    yield running
    running.stop(5.0)


@pytest.fixture
def wakeups(valkey: EmbeddedValkey) -> Iterator[CeleryWakeUps]:
    sender = CeleryWakeUps(BrokerSettings(url=SecretStr(valkey.broker_url), publish_timeout_s=2.0))
    yield sender
    sender.close()


def remembered(pipeline: Stack, name: str) -> None:
    """A session becomes facts. Raises WaitTimeout."""
    turns = [{"role": "user", "content": f"I moved to Rome in {name}.", "timestamp": 1_680_000_000}]
    pipeline.memory.ingest("bob", name, turns, wait="facts", timeout_s=WAIT_S)


@pytest.mark.usefixtures("worker")
def test_what_can_not_be_read_is_dropped(pipeline: Stack, client: redis.Redis) -> None:
    """Given messages that are no wake-ups in every queue, then the worker drops them and goes on."""
    for queue in Queue:
        client.lpush(queue.value, *POISON)
    remembered(pipeline, "after")
    assert [client.llen(queue.value) for queue in Queue] == [0] * len(Queue)
    assert client.hlen("unacked") == 0


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("key", ["extract", "unacked", "unacked_index", "_kombu.binding.extract"])
def test_a_broker_that_was_overwritten_stops_no_work(pipeline: Stack, client: redis.Redis, key: str) -> None:
    """Given one of the broker's own keys with a value of another type, then workers do without the broker."""
    remembered(pipeline, "before")
    client.delete(key)
    client.set(key, "x")
    remembered(pipeline, "meanwhile")
    client.delete(key)
    remembered(pipeline, "after")


def test_a_queue_with_enough_messages_gets_no_more(client: redis.Redis, wakeups: CeleryWakeUps) -> None:
    """Given a burst that nobody works on yet, then only as many messages wait as are useful, or as a call requests."""
    for session in range(20):
        assert wakeups.send(Queue.EXTRACT, TENANT, str(session), count=2)
    assert client.llen("extract") == ENOUGH
    assert wakeups.send(Queue.EXTRACT, TENANT, "long", count=10)
    assert client.llen("extract") == 10
    assert wakeups.send(Queue.REDUCE, TENANT, "other")
    assert client.llen("reduce") == 1


def test_a_worker_stops_without_breaking_its_own_loop(
    pipeline: Stack, valkey: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Given a loop that is slow to look through its channels, when the worker is stopped, then nothing fails."""
    poll = MultiChannelPoller._register_BRPOP

    def slowly(poller: MultiChannelPoller, channel: object) -> None:
        poll(poller, channel)
        time.sleep(0.2)

    monkeypatch.setattr(MultiChannelPoller, "_register_BRPOP", slowly)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            running = BackgroundWorker(pipeline.services, valkey.broker_url, 2)
            running.start()
            time.sleep(0.3)
            started = time.monotonic()
            running.stop(5.0)
            assert time.monotonic() - started < 2.0
    assert not [record for record in caplog.records if record.name.startswith("celery")]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[type[BaseException]]:
    """What ended threads."""
    kinds: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: kinds.append(args.exc_type))
    return kinds


@pytest.mark.parametrize("pause_s", [0.0, 0.05, 0.5, 2.5])
@pytest.mark.parametrize("deadline_s", [0.0, 5.0])
def test_a_worker_whose_broker_is_unavailable_stops(
    pipeline: Stack, valkey: EmbeddedValkey, ended: list[type[BaseException]], pause_s: float, deadline_s: float
) -> None:
    """Given a broker that failed just now, or some time ago, when the worker is stopped, then none of its threads is
    left that tries to reach a broker, and none ended with an error."""
    before = set(threading.enumerate())
    running = BackgroundWorker(pipeline.services, valkey.broker_url, 2)
    running.start()
    valkey.stop()
    time.sleep(pause_s)
    running.stop(deadline_s)
    for left in set(threading.enumerate()) - before:
        if left.name == "memforest-consumer":
            left.join(5.0)
            assert not left.is_alive()
    assert ended == []


def test_a_worker_that_stops_leaves_its_neighbour(
    pipeline: Stack, valkey: EmbeddedValkey, ended: list[type[BaseException]]
) -> None:
    """Given two workers in a process, when the first one stops, then the other one still consumes, and stops too."""
    first, second = (BackgroundWorker(pipeline.services, valkey.broker_url, 2) for _ in range(2))
    first.start()
    second.start()
    started = time.monotonic()
    first.stop(5.0)
    remembered(pipeline, "after")
    assert any(t.name == "memforest-consumer" for t in threading.enumerate())
    second.stop(5.0)
    assert not any(t.name == "memforest-consumer" for t in threading.enumerate())
    assert time.monotonic() - started < 10.0
    assert ended == []
