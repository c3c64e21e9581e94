"""Where scenarios are played: servers that all share; a database, an index, a model and workers for each."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos.conversations import Conversation
from benchmarks.chaos.outcome import Left, current, left
from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.client.producer import MemForestClient
from memforest_core.errors import StoreUnavailable
from tests.harness.model_faults import Fault
from tests.harness.processes import Deployment, deployment
from tests.harness.servers import SessionServers
from tests.harness.stack import make_template

LATENCY_S = 0.2
"""Of the model, so that there is always something in flight to break."""
SETTLE_TIMEOUT_S = 120.0
POLL_S = 0.1
REPEATED_S = 0.1
"""How long a caller waits that was refused."""

SETTINGS = {
    "MEMFOREST_DATABASE__POOL_SIZE": "6",
    "MEMFOREST_DATABASE__MAX_OVERFLOW": "6",
    "MEMFOREST_EXTRACT__RETRY_S": "1",
    "MEMFOREST_EXTRACT__RETRY_LONGEST_S": "4",
    "MEMFOREST_LLM__TIMEOUT_S": "5",
}
"""What is waited for is short, so that a run fits into a minute; nothing else differs from the defaults."""


class NotSettled(Exception):
    """A run did not come to rest in time; the message says what was left."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The servers that all scenarios share, and what is sent in each."""

    servers: SessionServers
    embedded: EmbeddedServers
    directory: Path
    sessions: Sequence[Conversation]
    seed: int

    @contextmanager
    def scene(
        self,
        name: str,
        *,
        faults: Mapping[Fault, float] | None = None,
        without_index: bool = False,
        settings: Mapping[str, str] | None = None,
        latency_s: float = LATENCY_S,
        measured: bool = False,
        owned_index: tuple[str, int] | None = None,
    ) -> Iterator[Scene]:
        """A deployment on an empty database, without workers yet; ``settings`` are environment variables. Where time is
        ``measured``, all other settings of the workers are the defaults. ``owned_index``: as in ``deployment``."""
        directory = self.directory / name
        directory.mkdir()
        with deployment(
            self.servers,
            directory,
            latency_s=latency_s,
            faults={fault.value: rate for fault, rate in (faults or {}).items()},
            seed=self.seed,
            without_index=without_index,
            measured=measured,
            owned_index=owned_index,
            settings=({} if measured else SETTINGS) | dict(settings or {}),
        ) as running:
            client = running.client()
            try:
                yield Scene(self.embedded, running, client, self.sessions, random.Random(f"{self.seed}/{name}"))
            finally:
                client.close()


@dataclass(frozen=True, slots=True)
class Scene:
    """One scenario's deployment; the same seed and name give the same schedule."""

    servers: EmbeddedServers
    running: Deployment
    client: MemForestClient
    sessions: Sequence[Conversation]
    rng: random.Random
    accepted: list[tuple[str, str]] = field(default_factory=list)
    """(owner, session id) of every call that returned."""

    def enqueue(self, sessions: Sequence[Conversation], over_s: float = 0.0) -> None:
        """Enqueue as a careful caller: evenly over a time in seconds, and retry when the store was unavailable."""
        started = time.monotonic()
        for number, one in enumerate(sessions):
            time.sleep(max(0.0, started + over_s * number / len(sessions) - time.monotonic()))
            while True:
                try:
                    self.client.enqueue(one.owner, one.session_id, one.turns)
                except StoreUnavailable:
                    time.sleep(REPEATED_S)
                else:
                    break
            self.accepted.append((one.owner, one.session_id))

    @contextmanager
    def flow(self, over_s: float) -> Iterator[threading.Event]:
        """All sessions arrive evenly over a time in seconds while the block runs; the event says that all are in."""
        done = threading.Event()

        def feed() -> None:
            try:
                self.enqueue(self.sessions, over_s)
            finally:
                done.set()

        thread = threading.Thread(target=feed, daemon=True)
        thread.start()
        yield done
        thread.join()

    def settle(self, *, indexed: bool = True) -> float:
        """Wait until nothing is left to do (or nothing but indexing); the monotonic time of that. Raises NotSettled."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            rest = left(self.running)
            if not rest or (not indexed and rest == Left(0, 0, 0, rest.points, rest.comparisons)):
                return time.monotonic()
            if time.monotonic() > deadline:
                raise NotSettled(f"{rest} after {SETTLE_TIMEOUT_S:g} s\n{current(self.running)}")
            time.sleep(POLL_S)


@contextmanager
def ground(sessions: Sequence[Conversation], seed: int) -> Iterator[Ground]:
    """Start Postgres and the broker in a temporary directory; both end with the block."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memforest-chaos-")))
        embedded = stack.enter_context(EmbeddedServers.start(directory / "servers"))
        servers = SessionServers(embedded.postgres_url, embedded.broker_url, embedded.redis_url, embedded)
        make_template(servers)
        yield Ground(servers, embedded, directory, sessions, seed)
