"""What is done to a deployment while it works, each by a seeded schedule."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import redis

from benchmarks.chaos.conversations import Conversation
from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.work.messages import Queue
from tests.harness.processes import Deployment, environment

LONGEST_DELAY_S = 2.0
"""A doubled message comes again after at most this long."""
ENOUGH = "enough-doubled"
"""The text that the broker echoes when the doubling ends."""


@contextmanager
def meanwhile(step: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``step`` in a thread and set its stop event at the end; what it raised is raised then."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(step, stop)
        try:
            yield
        finally:
            stop.set()
        running.result()


def kill_workers(running: Deployment, rng: random.Random, every_s: float, until: Callable[[], bool]) -> int:
    """kill -9 a random process that does work each ``every_s`` seconds; how many were killed."""
    killed = 0
    due = time.monotonic()
    while not until():
        due += every_s
        time.sleep(max(0.0, due - time.monotonic()))
        if pids := running.worker_pids():
            with suppress(ProcessLookupError):
                os.kill(rng.choice(pids), signal.SIGKILL)
                killed += 1
    return killed


def wipe_and_restart_broker(servers: EmbeddedServers, unavailable_s: float) -> None:
    """FLUSHALL under load, then kill -9, and a new empty broker at the same address."""
    with redis.Redis.from_url(servers.redis_url) as broker:
        broker.flushall()
    time.sleep(0.3)
    servers.valkey.kill()
    time.sleep(unavailable_s)
    servers.valkey.start()


def restart_postgres(servers: EmbeddedServers, unavailable_s: float) -> None:
    """Immediate mode: every backend ends without a checkpoint, and the next start recovers from the log."""
    pid = servers.postgres.pid
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)
    while servers.postgres.pid is not None:
        time.sleep(0.01)
    time.sleep(unavailable_s)
    servers.postgres.start()


class Doubler:
    """Sends each message of the four queues a second time, later, to either end of its queue.

    It sees every push through the broker's MONITOR command; a tag marks the messages that it sent itself.
    """

    def __init__(self, redis_url: str, rng: random.Random) -> None:
        self._url = redis_url
        self._rng = rng
        self._queues = {queue.value for queue in Queue}
        self._seen: set[str] = set()
        self._later: list[tuple[float, str, str]] = []
        self._lock = threading.Lock()
        self._watching = threading.Event()
        self.repeated = 0
        """Messages sent a second time."""

    @property
    def seen(self) -> int:
        """Messages that were sent by others."""
        return len(self._seen)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Double everything until the end; what is still due then is sent before this returns."""
        with meanwhile(self._watch):
            assert self._watching.wait(10)
            try:
                with meanwhile(self._send):
                    yield
            finally:
                with redis.Redis.from_url(self._url) as broker:
                    broker.echo(ENOUGH)

    def _watch(self, _stop: threading.Event) -> None:
        """Until it hears ENOUGH: a timeout would end the connection, and with it the certainty to have seen all."""
        with redis.Redis.from_url(self._url, socket_timeout=None) as broker, broker.monitor() as monitor:
            self._watching.set()
            while ENOUGH not in (command := str(monitor.next_command()["command"])):
                self._note(command)

    def _note(self, command: str) -> None:
        verb, _, rest = command.partition(" ")
        queue, _, body = rest.partition(" ")
        if verb.upper() not in ("LPUSH", "RPUSH") or queue not in self._queues:
            return
        tag = str(json.loads(body)["properties"]["delivery_tag"])
        if tag in self._seen:
            return
        self._seen.add(tag)
        with self._lock:
            self._later.append((time.monotonic() + self._rng.uniform(0, LONGEST_DELAY_S), queue, body))

    def _send(self, stop: threading.Event) -> None:
        with redis.Redis.from_url(self._url) as broker:
            while not stop.wait(0.01):
                self._send_due(broker, time.monotonic())
            self._send_due(broker, float("inf"))

    def _send_due(self, broker: redis.Redis, now: float) -> None:
        with self._lock:
            due = [one for one in self._later if one[0] <= now]
            self._later = [one for one in self._later if one[0] > now]
        self._rng.shuffle(due)
        for _, queue, body in due:
            (broker.lpush if self._rng.random() < 0.5 else broker.rpush)(queue, body)
            self.repeated += 1


class CutOff:
    """A process that commits conversations and is killed before any wake-up leaves it."""

    def __init__(self, variables: dict[str, str], sessions: Sequence[Conversation]) -> None:
        self.sessions = sessions
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.chaos.enqueuing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self._process.stdin is not None
        listed = [[one.owner, one.session_id, one.turns] for one in sessions]
        self._process.stdin.write(json.dumps({"variables": variables, "sessions": listed}) + "\n")
        self._process.stdin.flush()

    def go(self) -> None:
        """Wait until it is set up, and let it enqueue."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()
