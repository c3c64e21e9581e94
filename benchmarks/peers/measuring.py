"""The two runs that a system's row is made of: one in peace, one with kill -9 in the middle."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import psutil

from benchmarks.harness import Row, say
from benchmarks.peers import answers
from benchmarks.peers.hindsight import Hindsight
from benchmarks.peers.sessions import Session, made
from benchmarks.peers.systems import System, mem0, memforest, until
from memforest_core.client.embedded.servers import EmbeddedServers
from tests.harness.model_answers import messages_of
from tests.harness.model_server import ModelServer
from tests.harness.provider_tokens import count_tokens

K = 10
"""Items of a recall that are compared."""
WARM_UP = 8
"""Sessions before the clock starts, of owners of their own: imports, connections, tables."""
HALF_S = 900.0


@dataclass(slots=True)
class Ground:
    """A model server and a database of one run's own."""

    directory: Path
    server: ModelServer
    answered: list[tuple[Mapping[str, Any], str]]
    """Chat calls, and what was answered."""
    stack: ExitStack

    def postgres_url(self) -> str:
        """A fresh embedded Postgres, in libpq's words."""
        servers = self.stack.enter_context(EmbeddedServers.start(self.directory / "servers"))
        return servers.postgres_url.replace("postgresql+psycopg:", "postgresql:")

    def calls(self) -> int:
        """Requests that the model server has had."""
        return len(self.server.requests)

    def forget(self) -> None:
        """Reset the counts."""
        self.server.requests.clear()
        self.answered.clear()


Opened = Callable[[Ground], System]
SYSTEMS: Mapping[str, Opened] = {
    "memforest": lambda ground: memforest(ground.directory, ground.server.url),
    "mem0": lambda ground: mem0(ground.directory, ground.server.url, ground.postgres_url(), infer=True),
    "mem0, infer off": lambda ground: mem0(ground.directory, ground.server.url, ground.postgres_url(), infer=False),
    "hindsight": lambda ground: Hindsight(ground.directory, ground.server.url, ground.postgres_url()),
}


@contextmanager
def ground(latency_s: float) -> Iterator[Ground]:
    """Everything of it is gone afterwards."""
    answered: list[tuple[Mapping[str, Any], str]] = []

    def answer(body: Mapping[str, Any]) -> str:
        text = answers.answer(body)
        answered.append((body, text))
        return text

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memforest-peers-")))
        server = ModelServer(latency_s=latency_s, embedding_latency_s=0.0, answer=answer, embedding="minilm")
        stack.enter_context(server)
        yield Ground(directory, server, answered, stack)


@contextmanager
def started(opened: Opened, ground: Ground, seed: int) -> Iterator[System]:
    """A system that is warm, has nothing to do, and whose calls are not counted yet."""
    system = opened(ground)
    try:
        system.start()
        warming = made(WARM_UP, 8, seed=-1 - seed)
        owners = [f"warm-up-{number}" for number in range(WARM_UP)]
        described = [_of(each, owner) for each, owner in zip(warming, owners, strict=True)]
        # One alone before the others: mem0 makes its tables at the first, and threads get in each other's way there.
        for some in (described[:1], described[1:]):
            system.add(some)
            system.await_facts()
        system.settle(owners)
        for each, owner in zip(warming, owners, strict=True):
            system.recall(owner, each.question, K)
        system.sent.clear()
        system.accepted.clear()
        ground.forget()
        yield system
    finally:
        system.stop()


def _of(session: Session, owner: str) -> Session:
    return Session(owner, f"{owner}-session", session.turns, session.question, session.detail)


@dataclass(frozen=True, slots=True)
class Requested:
    """The answers to all questions."""

    found: frozenset[str]
    """Sessions whose detail came back."""
    seconds: Sequence[float] = field(repr=False)


def ask(system: System, sessions: Sequence[Session]) -> Requested:
    """Each session's question, once, one after the other."""
    found, seconds = set(), []
    for session in sessions:
        texts, took = system.recall(session.owner, session.question, K)
        seconds.append(took)
        if any(session.detail in text for text in texts):
            found.add(session.session_id)
    return Requested(frozenset(found), seconds)


def resident_mb() -> float:
    """Memory of all processes under this one, shared pages shared out (PSS), without this one: it is the model."""
    return sum(each.memory_full_info().pss for each in psutil.Process().children(recursive=True)) / 1e6


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Of all messages, and of the answer's schema when that is sent with them."""
    schema = (body.get("response_format") or {}).get("json_schema")
    texts = [text for _, text in messages_of(body)] + ([json.dumps(schema)] if schema else [])
    return sum(map(count_tokens, texts))


def cpu_s() -> float:
    """CPU seconds that all processes under this one have used, those that ended included."""
    times = [each.cpu_times() for each in psutil.Process().children(recursive=True)]
    return float(sum(each.user + each.system + each.children_user + each.children_system for each in times))


def in_peace(opened: Opened, sessions: Sequence[Session], latency_s: float, seed: int) -> tuple[Row, int]:
    """Speed, cost, memory and recall; and how many model calls it took until all facts could be recalled."""
    owners = list(dict.fromkeys(each.owner for each in sessions))
    with ground(latency_s) as place, started(opened, place, seed) as system:
        begun, cpu = perf_counter(), cpu_s()
        system.add(sessions)
        system.await_facts()
        facts_s, until_facts = perf_counter() - begun, place.calls()
        system.settle(owners)
        requests, answered = list(place.server.requests), list(place.answered)
        written, memory = cpu_s(), resident_mb()
        requested = ask(system, sessions)
        read = cpu_s()
    chats = [each for each in requests if each.path.endswith("/chat/completions")]
    embeddings = [each for each in requests if each.path.endswith("/embeddings")]
    last = max(each.ended or each.started for each in requests) - min(each.started for each in requests)
    row: Row = {
        "sessions_a_minute": round(60 * len(sessions) / facts_s, 1),
        "facts_s": round(facts_s, 1),
        "last_call_s": round(last, 1),
        "chat_calls": len(chats),
        "embedding_calls": len(embeddings),
        "embedded_texts": sum(len(each.body["input"]) for each in embeddings),
        "prompt_tokens": sum(prompt_tokens(body) for body, _ in answered),
        "completion_tokens": sum(count_tokens(text) for _, text in answered),
        "cpu_ms_a_session": round(1_000 * (written - cpu) / len(sessions)),
        "recall_p50_ms": round(1_000 * float(np.percentile(requested.seconds, 50)), 1),
        "recall_p95_ms": round(1_000 * float(np.percentile(requested.seconds, 95)), 1),
        "recall_cpu_ms": round(1_000 * (read - written) / len(sessions)),
        "found": round(len(requested.found) / len(sessions), 3),
        "memory_mb": round(memory),
    }
    return row, until_facts


def with_kill(opened: Opened, sessions: Sequence[Session], latency_s: float, seed: int, calls: int) -> Row:
    """kill -9 after half the ``calls`` that an undisturbed run makes; then a new start; nobody sends anything twice."""
    owners = list(dict.fromkeys(each.owner for each in sessions))
    with ground(latency_s) as place, started(opened, place, seed) as system:
        system.add(sessions)
        reached = until(lambda: place.calls() >= calls // 2, HALF_S, pause_s=0.01)
        system.kill()
        sent, accepted = set(system.sent), set(system.accepted)
        if not reached:
            say("  the run ended before half its calls were made")
        system.start()
        begun = perf_counter()
        system.settle(owners)
        settled_s = perf_counter() - begun
        found = ask(system, sessions).found
    return {
        "killed_handed_over": len(sent),
        "killed_accepted": len(accepted),
        "left_of_accepted": len(found & accepted),
        "left_of_handed_over": len(found & sent),
        "settled_after_start_s": round(settled_s, 1),
    }
