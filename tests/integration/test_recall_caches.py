"""Caches of recall change no result: whatever is written meanwhile, a warm recall finds what a new process
finds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from memforest_core.domain.evidence import Evidence, RecallResult
from memforest_core.index.memory.in_memory_indexes import InMemoryIndexes
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.recall.service import RecallService
from tests.harness.close import Close
from tests.harness.sayings import said
from tests.harness.stack import Stack
from tests.integration.test_erasure import erase
from tests.integration.test_merging import ask as ask_merge
from tests.integration.test_merging import finished

START = 1_700_000_000
DAY = 86_400
QUESTIONS = (
    "What did Bob pay for the lamp numbered 7?",
    "Where does Bob live now?",
    "What is in the garage?",
    "What did Bob do before he sold his boat?",
    "Which instrument does Bob learn?",
)
LOCATIONS = ("Davis", "Boston", "Oslo", "Lima", "Turin")
THINGS = ("telescope", "kettle", "boat", "flute", "violin", "rug", "clock", "tent")


class Memory:
    """Bob's memory, changed at random, and the service that has answered from it all along."""

    def __init__(self, running: Stack, seed: int) -> None:
        self.running = running
        self.rng = random.Random(seed)
        self.sessions: list[str] = []
        self.day = 0
        self.merged = 0

    def tell(self, owner: str = "bob") -> None:
        self.day += 1
        name, rng = f"{owner}-{self.day}", self.rng
        sentences = [f"I paid {n} dollars for a {rng.choice(THINGS)} numbered {n}." for n in range(rng.randint(1, 9))]
        sentences.append(f"I live in {rng.choice(LOCATIONS)}.")
        # Not in the order of time: leaves come between others too.
        start = START + rng.randint(0, 60) * DAY
        self.running.memory.client.enqueue(owner, name, said(*sentences, start=start, name=owner.title()))
        self.running.runtime.extract()
        self.running.runtime.reduce()
        if owner == "bob":
            self.sessions.append(name)

    def rest(self) -> None:
        self.running.drive()

    def forget(self) -> None:
        if len(self.sessions) > 1:
            name = self.sessions.pop(self.rng.randrange(len(self.sessions)))
            erase(self.running, session=name)

    def merge(self) -> None:
        self.merged += 1
        other = f"carol{self.merged}"
        self.tell(other)
        self.rest()
        finished(self.running, ask_merge(self.running, other, into="bob"))

    def correct(self) -> None:
        facts = self.running.rows("SELECT fact_id FROM memforest.fact WHERE superseded_at IS NULL ORDER BY fact_id")
        fact = self.rng.choice(facts)[0]
        text = f"Bob has {self.rng.randint(2, 90)} old umbrellas in the hall."
        requested = self.running.memory.lifecycle.correct("bob", fact, text=text, actor="tests")
        while not requested.state().finished:  # it is checked again a second later when the reducer was not there yet
            self.running.runtime.maintain()
            self.running.runtime.reduce()
            time.sleep(0.05)


def reported(result: RecallResult) -> list[tuple[Evidence, Close]]:
    """Evidence with its score separate: sums in another order differ in the last digit."""
    assert not result.degraded
    return [
        (replace(piece, score=0.0, signals=dict.fromkeys(piece.signals, 0.0)), Close(piece.score))
        for piece in result.evidence
    ]


@contextmanager
def cold(running: Stack) -> Iterator[RecallService]:
    """A service with empty caches, over an index with empty caches; then the index has what it had before."""
    index = running.services.index
    assert isinstance(index, EdgeIndex)
    warm = index._memory
    index._memory = InMemoryIndexes(warm._stored, index._model, index._dimension)
    try:
        yield replace(running.services.recall)
    finally:
        index._memory = warm


def assert_same(running: Stack) -> None:
    warm = [
        reported(running.services.recall.recall(running.tenant, "bob", each, mode="embedding")) for each in QUESTIONS
    ]
    with cold(running) as fresh:
        rebuilt = [reported(fresh.recall(running.tenant, "bob", each, mode="embedding")) for each in QUESTIONS]
    assert warm == rebuilt
    assert any(warm)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.release)])
def test_after_any_changes_a_warm_recall_finds_what_a_cold_one_finds(pipeline: Stack, seed: int) -> None:
    memory = Memory(pipeline, seed)
    for _ in range(4):
        memory.tell()
    memory.rest()
    assert_same(pipeline)
    changes: list[Callable[[], None]] = [memory.tell, memory.tell, memory.rest, memory.forget, memory.correct]
    for _ in range(8):
        memory.rng.choice(changes)()
        assert_same(pipeline)
    memory.merge()
    assert_same(pipeline)
    memory.rest()
    assert_same(pipeline)


def test_what_was_deleted_is_not_found_by_a_warm_recall(pipeline: Stack) -> None:
    """Given a recall that has just cached trees and vectors, when a session is deleted, then nothing of it is found,
    although nothing was refreshed or indexed since."""
    client = pipeline.memory.client
    client.enqueue("bob", "garage", said("I keep a zorblax telescope in the garage.", "I live in Davis."))
    client.enqueue("bob", "later", said("I bought a copper kettle.", "I live in Oslo.", start=START + DAY))
    pipeline.drive()
    question = "What is a zorblax telescope?"
    before = pipeline.services.recall.recall(pipeline.tenant, "bob", question, mode="embedding")
    assert any("zorblax" in piece.text for piece in before.evidence)
    erase(pipeline, session="garage")
    after = pipeline.services.recall.recall(pipeline.tenant, "bob", question, mode="embedding")
    assert after.evidence
    assert "zorblax" not in str(after.evidence)
