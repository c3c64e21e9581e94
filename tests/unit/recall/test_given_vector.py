"""Recall by a vector: what it may be, and that words take no part."""

from __future__ import annotations

import numpy as np
import pytest

from memforest_core.domain.evidence import Mode
from memforest_core.errors import InvalidInput
from memforest_core.index.vector_index import PointKind, SparseVector
from memforest_core.models.calls import CallRecord, Reranked, Step
from memforest_core.recall.request import checked_vector
from memforest_core.recall.retrieve import CATCHING_UP_FOR_VECTOR, UNAVAILABLE_FOR_VECTOR
from memforest_core.recall.service import RecallService
from memforest_core.settings import RecallSettings
from tests.unit.recall.memory import TENANT, Forest, OneVector, ScriptedIndex, named

CELL = PointKind.CELL
VECTOR = [1.0, 0.0]


@pytest.mark.parametrize(
    "given",
    [
        [1.0],
        [[1.0, 2.0], [3.0, 4.0]],
        "ab",
        {"a": 1, "b": 2},
        [1.0, "2"],
        [True, 1.0],
        [1.0, float("nan")],
        [1.0, 1e300],
        [1, 10**400],
        [0.0, 0],
        np.ones((2, 2)),
    ],
)
def test_what_is_no_vector_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match="a list of 2 finite numbers") as refused:
        checked_vector(given, 2)
    assert refused.value.code == "invalid_vector"


@pytest.mark.parametrize("given", [[3, 4.0], (3, 4.0), np.array([3, 4]), list(np.array([3, 4], np.float32))])
def test_lists_and_arrays_of_the_dimension_are_taken(given: object) -> None:
    made = checked_vector(given, 2)
    assert (made.dtype, made.tolist()) == (np.float32, [3.0, 4.0])


class World:
    def __init__(self) -> None:
        self.forest, self.index = Forest(), ScriptedIndex()
        self.forest.session("move", ("Bob", "I moved to Davis in May."), ("Ann", "How nice!"))
        self.forest.session("pets", ("Bob", "I have a cat named Max."), ("Ann", "Cute."), days=7)
        self.index.points = {named("move/0"): (CELL, 4.0, 0.3), named("pets/0"): (CELL, 1.0, 0.6)}
        self.reranked = 0
        self.service = RecallService(self.forest, self.index, OneVector(), RecallSettings(), reranker=self)  # type: ignore[arg-type]

    def rerank(self, question: str, texts: list[str]) -> Reranked:
        self.reranked += 1
        return Reranked([0.0] * len(texts), CallRecord(Step.RERANK, "none", 0, 0, 0, 0.0, 0.0, "ok"))


@pytest.mark.parametrize("mode", ["flat", "embedding", "auto"])
def test_only_cosines_count_and_nothing_is_degraded(mode: str) -> None:
    """Given cells that words and vectors rank in opposite order, when a vector is given, then the vector's order comes,
    no search by words is made, and the result calls nothing degraded."""
    world = World()

    found = world.service.recall(TENANT, "alice", vector=VECTOR, mode=mode)

    assert found.degraded == ()
    assert (found.question, found.completed_question, found.calls) == ("", "", 0)
    assert not any(isinstance(query.vector, SparseVector) for call in world.index.calls for query in call)
    assert world.reranked == 0
    assert [piece.session_id for piece in found.evidence[:1]] == ["pets"]
    assert found.mode is (Mode.EMBEDDING if mode == "auto" else Mode(mode))


def test_an_array_finds_what_a_list_finds() -> None:
    by_list = World().service.recall(TENANT, "alice", vector=VECTOR).evidence
    assert World().service.recall(TENANT, "alice", vector=np.array(VECTOR)).evidence == by_list


def test_the_result_says_what_a_vector_can_not_find() -> None:
    """Given cells that the index has not seen, or no index, then the result says what a vector does not find."""
    world = World()
    world.forest.unseen = [named("pets/0")]
    assert world.service.recall(TENANT, "alice", vector=VECTOR).degraded == (CATCHING_UP_FOR_VECTOR,)
    world.forest.unseen = []
    world.index.unavailable_after = 0
    found = world.service.recall(TENANT, "alice", vector=VECTOR)
    assert (found.evidence, found.degraded) == ((), (UNAVAILABLE_FOR_VECTOR,))


def test_exactly_one_of_question_and_vector_is_required() -> None:
    service = World().service
    for given in ({}, {"question": "Where?", "vector": VECTOR}):
        with pytest.raises(InvalidInput, match="one of the two"):
            service.recall(TENANT, "alice", **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="mode llm: a vector has no words"):
        service.recall(TENANT, "alice", vector=VECTOR, mode="llm")
