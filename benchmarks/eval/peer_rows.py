"""Memories of others that need no chat model, as baselines: each in an environment of its own, over the same texts."""

from __future__ import annotations

import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from benchmarks.eval.baselines import DEPTH, Answered
from benchmarks.eval.corpora import Corpora, Corpus, Cut
from benchmarks.eval.dataset import Conversation, Question
from benchmarks.eval.searching import Order
from benchmarks.harness import say
from benchmarks.peers.sessions import Session
from benchmarks.peers.systems import PeerUnavailable, System, environment_of, mem0
from memforest_core.client.embedded.servers import EmbeddedServers
from tests.harness.model_server import ModelServer

Opened = Callable[[], AbstractContextManager[System]]
"""Starts a memory that knows nothing yet; all of it is gone when the context is left."""


class Peer:
    """Another project's memory: it gets the texts of a cut, and a search in it returns the best of them."""

    def __init__(self, name: str, cut: Cut, corpora: Corpora, opened: Opened) -> None:
        self.name = name
        self._cut = cut
        self._corpora = corpora
        self._opened = opened
        self._stack = ExitStack()
        self._system: System | None = None
        self._described: set[str] = set()

    def ask(self, conversation: Conversation, question: Question) -> Answered:
        """The best texts; telling them is not timed. Raises PeerAway."""
        corpus = self._corpora.of(conversation, self._cut)
        system = self._system or self._start()
        if conversation.id not in self._described:
            _tell(system, sessions(conversation.id, corpus))
            self._described.add(conversation.id)
        texts, seconds = system.recall(conversation.id, question.text, DEPTH)
        return Answered(corpus.quotes(positions(texts, corpus)), seconds * 1_000.0)

    def _start(self) -> System:
        self._system = self._stack.enter_context(self._opened())
        return self._system

    def close(self) -> None:
        """Stop it, if it was ever started."""
        self._stack.close()


def _tell(system: System, described: Sequence[Session]) -> None:
    # One alone before the others: mem0 makes its tables at the first, and threads get in each other's way there.
    for some in (described[:1], described[1:]):
        system.add(some)
        system.await_facts()


def sessions(owner: str, corpus: Corpus) -> list[Session]:
    """The texts of a corpus as sessions to hand over, each text a turn."""
    grouped = groupby(zip(corpus.sessions, corpus.texts, strict=True), lambda pair: pair[0])
    return [
        Session(owner, session, tuple({"role": "user", "content": one.text} for _, one in described), "", "")
        for session, described in grouped
    ]


def positions(texts: Sequence[str], corpus: Corpus) -> Order:
    """Where the texts that a memory delivers stand in the corpus; of equal ones each once. Raises PeerAway."""
    known: dict[str, deque[int]] = defaultdict(deque)
    for place, one in enumerate(corpus.texts):
        known[one.text.strip()].append(place)
    order = []
    for text in map(str.strip, texts):
        if text not in known:
            raise PeerUnavailable(f"A text came back that was never stored: {text[:60]!r}.")
        if known[text]:
            order.append(known[text].popleft())
    return order


@contextmanager
def _mem0() -> Iterator[System]:
    """mem0 that stores messages as they are (``infer`` off), on a Postgres of its own."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memforest-mem0-")))
        models = stack.enter_context(ModelServer(embedding="minilm"))
        servers = stack.enter_context(EmbeddedServers.start(directory / "servers"))
        url = servers.postgres_url.replace("postgresql+psycopg:", "postgresql:")
        yield stack.enter_context(_running(mem0(directory, models.url, url, infer=False)))


@contextmanager
def _running(system: System) -> Iterator[System]:
    system.start()
    try:
        yield system
    finally:
        system.stop()


@dataclass(frozen=True, slots=True)
class Kind:
    """How a peer becomes a row."""

    environment: str
    """In ``.venv-peers``."""
    cut: Cut
    opened: Opened


PEERS: Mapping[str, Kind] = {"mem0_turns": Kind("mem0", Cut.TURNS, _mem0)}


def peers(corpora: Corpora) -> list[Peer]:
    """All of them; none is started before its first question."""
    return [Peer(name, kind.cut, corpora, kind.opened) for name, kind in PEERS.items()]


def present(wanted: Sequence[str]) -> list[str]:
    """The rows without those of peers that are not installed; says for each of these where it would be looked for."""
    stored = []
    for name in wanted:
        try:
            if name in PEERS:
                environment_of(PEERS[name].environment)
        except PeerUnavailable as why:
            say(f"{name} is left out: {why}")
        else:
            stored.append(name)
    return stored
