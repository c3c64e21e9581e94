"""A few recalls of a process compute at once; one that hangs, or waits for a model, delays nobody for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from memforest_core.domain.evidence import RecallResult
from memforest_core.index.vector_index import Hits, IndexQuery, PointKind
from memforest_core.models.calls import CallRecord, Reranked, Reranker, Step
from memforest_core.recall.service import RecallService, Slots
from memforest_core.settings import RecallSettings
from tests.unit.recall.memory import TENANT, Forest, OneVector, ScriptedIndex, named

SOON_S = 10.0


@dataclass
class Held(ScriptedIndex):
    """An index whose searches wait until they are let go."""

    inside: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go: threading.Event = field(default_factory=threading.Event)
    now: int = 0
    most: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.inside.release()
        assert self.go.wait(SOON_S)
        with self._lock:
            self.now -= 1
        return super().search(queries)

    def entered(self, n: int, within_s: float = SOON_S) -> bool:
        """Whether so many searches begin within this time."""
        return all(self.inside.acquire(timeout=within_s) for _ in range(n))


class NeverRequested:
    """A cross-encoder: that there is one is enough."""

    model = "cross-encoder"

    def rerank(self, question: str, texts: Sequence[str]) -> Reranked:
        return Reranked([0.0] * len(texts), CallRecord(Step.RERANK, self.model, 0, 0, 0, 0.0, 0.0, "ok"))


@dataclass
class Querying:
    """Callers of one service."""

    index: Held
    service: RecallService
    threads: ThreadPoolExecutor

    def recalls(self, n: int) -> list[Future[RecallResult]]:
        return [self.threads.submit(self.service.recall, TENANT, "alice", "Where does Bob live?") for _ in range(n)]


@contextmanager
def querying(slots: Slots, reranker: Reranker | None = None) -> Iterator[Querying]:
    forest, index = Forest(), Held()
    forest.session("move", ("Bob", "I moved to Davis in May."), ("Ann", "How nice!"))
    index.points = {named("move/0"): (PointKind.CELL, 4.0, 0.6)}
    service = RecallService(forest, index, OneVector(), RecallSettings(), reranker=reranker, slots=slots)  # type: ignore[arg-type]
    with ThreadPoolExecutor(8) as threads:
        try:
            yield Querying(index, service, threads)
        finally:
            index.go.set()


def test_no_more_recalls_compute_at_once_than_set() -> None:
    with querying(Slots(2, SOON_S)) as callers:
        requested = callers.recalls(6)
        assert callers.index.entered(2)
        assert not callers.index.entered(1, within_s=0.2)
        callers.index.go.set()
        found = [each.result(SOON_S) for each in requested]
    assert callers.index.most == 2
    assert all(result.evidence and not result.degraded for result in found)
    assert max(result.timings_ms["slot"] for result in found) > 0


def test_what_hangs_delays_others_by_their_patience() -> None:
    """A store that does not answer must not stop recalls that do not need it."""
    with querying(Slots(1, patience_s=0.1)) as callers:
        callers.recalls(3)
        assert callers.index.entered(3)


def test_what_waits_for_a_model_needs_no_slot() -> None:
    with querying(Slots(1, 2 * SOON_S), NeverRequested()) as callers:
        callers.recalls(3)
        assert callers.index.entered(3)


def test_a_service_that_was_changed_shares_them() -> None:
    with querying(Slots(1, SOON_S)) as callers:
        other = replace(callers, service=replace(callers.service, pointers=False))
        callers.recalls(1)
        assert callers.index.entered(1)
        other.recalls(1)
        assert not callers.index.entered(1, within_s=0.2)


def test_a_slot_is_free_again_after_an_error_and_nobody_gives_back_what_was_not_taken() -> None:
    slots = Slots(1, patience_s=0.0)
    with pytest.raises(ValueError, match="broken"), slots.one():
        raise ValueError("broken")
    with slots.one(), slots.one():
        pass
    with slots.one():
        assert not slots._free.acquire(blocking=False)
