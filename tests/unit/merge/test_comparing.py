"""Near duplicates of another forest: the closest fact that says the same, over all pages of both forests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, ForestId
from memforest_core.ingest.reduce.canonical import NEAR_LIMIT
from memforest_core.lifecycle.merge.rows.merge_forests import MergeRows
from memforest_core.lifecycle.merge.switching import near_duplicates, note_nearest
from memforest_core.models.calls import Vectors
from tests.harness.builders import statement

SOURCE, TARGET = ForestId(UUID(int=1)), ForestId(UUID(int=2))
MINE, NEAR, NEARER = (FactId(UUID(int=number)) for number in (10, 20, 30))
SAID = {MINE: "Bob has a lamp.", NEAR: "Bob has the lamp.", NEARER: "Bob has that lamp."}


class Rows(MergeRows):
    """Two forests whose facts are at these angles, a page each."""

    def __init__(self, there: Mapping[FactId, float], said: Mapping[FactId, str]) -> None:
        self._facts = {SOURCE: {MINE: 0.0}, TARGET: there}
        self._said = said

    def vector_pages(self, forest: ForestId, model: str, size: int) -> Iterator[tuple[Sequence[FactId], Vectors]]:
        for id_, angle in self._facts[forest].items():
            yield [id_], np.array([[np.cos(angle), np.sin(angle)]], np.float32)

    def statements(self, ids: Sequence[FactId]) -> Mapping[FactId, Statement]:
        return {id_: statement(self._said[id_]) for id_ in ids if id_ in self._said}


@pytest.mark.parametrize(
    ("there", "said", "found"),
    [
        ({NEAR: 0.3, NEARER: 0.1}, {}, NEARER),
        ({NEAR: 0.3, NEARER: 0.1}, {NEARER: "Bob has 2 lamps."}, NEAR),
        ({NEAR: 0.3}, {NEAR: "Bob has 2 lamps."}, None),
        ({NEAR: 0.6}, {}, None),
        ({}, {}, None),
    ],
)
def test_the_closest_fact_that_says_the_same_is_the_twin(
    there: dict[FactId, float], said: dict[FactId, str], found: FactId | None
) -> None:
    twins = near_duplicates(Rows(there, SAID | said), "model", SOURCE, TARGET, 0.93)
    assert twins == ({} if found is None else {MINE: found})


@pytest.mark.parametrize("page", [3, 40])
def test_of_equally_near_facts_those_with_the_lowest_ids_are_chosen_in_whatever_order_they_come(page: int) -> None:
    ids = [FactId(UUID(int=number)) for number in np.random.default_rng(7).permutation(40).tolist()]
    close: list[list[tuple[float, FactId]]] = [[], []]
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    for at in range(0, len(ids), page):
        some = ids[at : at + page]
        note_nearest(close, vectors, some, np.repeat(vectors[:1], len(some), axis=0), 0.5)
    assert close == [[(-1.0, FactId(UUID(int=number))) for number in range(NEAR_LIMIT)], []]
