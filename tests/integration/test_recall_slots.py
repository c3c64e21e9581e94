"""A recall that waits for a slot while others write: it has already searched for cells that are not indexed yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from memforest_core.domain.evidence import RecallResult
from memforest_core.recall.service import Slots
from tests.harness.sayings import said
from tests.harness.stack import Stack
from tests.integration.test_erasure import erase

QUESTION = "What did Bob pay for the violin?"
OLD = "I paid 700 dollars for a violin."
NEW = "I paid 90 dollars for the case of the violin."


class Given(Slots):
    """Slots that set an event when a caller requests one."""

    def __init__(self) -> None:
        super().__init__(1, patience_s=60.0)
        self.requested = threading.Event()

    @contextmanager
    def one(self) -> Iterator[None]:
        self.requested.set()
        with super().one():
            yield


def recalled_concurrently(running: Stack, *meanwhile: Callable[[], object]) -> RecallResult:
    """A recall that waits for its slot until all this is done."""
    slots = Given()
    service = replace(running.services.recall, slots=slots)
    with ThreadPoolExecutor(1) as threads:
        with slots.one():
            slots.requested.clear()
            requested = threads.submit(service.recall, running.tenant, "bob", QUESTION, mode="embedding")
            assert slots.requested.wait(30)
            for each in meanwhile:
                each()
            assert not requested.done()
        return requested.result(60)


def enqueued(running: Stack, session: str, text: str) -> None:
    running.memory.client.enqueue("bob", session, said(text, name="Bob"))


def texts(result: RecallResult) -> str:
    assert not result.degraded
    return "\n".join(piece.text for piece in result.evidence)


def test_a_turn_that_is_indexed_while_a_recall_waits_is_found(pipeline: Stack) -> None:
    enqueued(pipeline, "s1", OLD)
    pipeline.drive()
    enqueued(pipeline, "s2", NEW)
    found = texts(recalled_concurrently(pipeline, pipeline.drive))
    assert OLD in found
    assert NEW in found


def test_what_is_forgotten_while_a_recall_waits_is_not_shown(pipeline: Stack) -> None:
    enqueued(pipeline, "s1", OLD)
    enqueued(pipeline, "s2", NEW)
    pipeline.drive()
    found = texts(recalled_concurrently(pipeline, lambda: erase(pipeline, session="s1")))
    assert OLD not in found
    assert NEW in found


def test_what_is_forgotten_unindexed_while_a_recall_waits_is_not_shown(pipeline: Stack) -> None:
    """The recall has read its text before."""
    enqueued(pipeline, "s2", NEW)
    pipeline.drive()
    enqueued(pipeline, "s1", OLD)
    found = texts(recalled_concurrently(pipeline, lambda: erase(pipeline, session="s1")))
    assert OLD not in found
    assert NEW in found
