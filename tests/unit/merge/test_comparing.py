"""Near duplicates of another forest: compared here while it is small, searched for in the index beyond."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

import numpy as np

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.vector_index import Hit, IndexQuery, PointKind, VectorIndex
from memforest_core.ingest.reduce.canonical import Known
from memforest_core.lifecycle.merge.comparing import COMPARED_FACTS, Comparison, Near
from memforest_core.lifecycle.merge.rows.merge_forests import MergeRows
from memforest_core.models.calls import Vectors
from tests.harness.builders import statement

SOURCE, TARGET = ForestId(UUID(int=1)), ForestId(UUID(int=2))
MINE, NEWEST, INDEXED = (FactId(UUID(int=number)) for number in (10, 20, 30))
CLOSE, FAR = np.array([0.96, 0.28], np.float32), np.array([0.0, 1.0], np.float32)


@dataclass
class Rows:
    """Two forests: one fact to compare; the target's facts with their vectors, and how many it has in all."""

    there: Mapping[FactId, Vectors]
    size: int
    newest: Sequence[FactId] = ()
    said: dict[FactId, Statement] = field(
        default_factory=lambda: {
            MINE: statement("Bob has a lamp."),
            NEWEST: statement("Bob has the lamp."),
            INDEXED: statement("Bob has that lamp."),
        }
    )

    @property
    def reduce(self) -> Rows:
        return self

    def fact_count(self, forest: ForestId) -> int:
        return self.size

    def vector_pages(self, forest: ForestId, model: str, size: int) -> Iterator[tuple[Sequence[FactId], Vectors]]:
        facts = {MINE: np.array([1.0, 0.0], np.float32)} if forest == SOURCE else self.there
        if facts:
            yield list(facts), np.stack(list(facts.values()))

    @property
    def canon(self) -> Rows:
        return self

    def unseen_facts(self, forest: ForestId, limit: int, model: str) -> list[Known]:
        return [Known(id_, self.said[id_], self.there[id_]) for id_ in self.newest]

    def statements(self, ids: Sequence[FactId]) -> Mapping[FactId, Statement]:
        return {id_: self.said[id_] for id_ in ids if id_ in self.said}


@dataclass
class Index:
    """Finds the given hits, or is unavailable."""

    hits: Sequence[Hit] | None

    def search(self, queries: Sequence[IndexQuery]) -> list[list[Hit]]:
        if self.hits is None:
            raise IndexUnavailable("The index is away.")
        return [list(self.hits) for _ in queries]


def near(rows: Rows, index: Index, *, use_index: bool = True) -> Near:
    comparison = Comparison(cast(VectorIndex, index), "model")
    return comparison.near(cast(MergeRows, rows), TenantId("t"), SOURCE, TARGET, 0.93, index=use_index)


def test_a_small_target_is_compared_without_the_index() -> None:
    found = near(Rows({NEWEST: CLOSE, INDEXED: FAR}, 2), Index(None))
    assert (found.twins, found.degraded) == ({MINE: NEWEST}, False)


def test_alike_is_not_the_same_when_something_that_matters_differs() -> None:
    rows = Rows({NEWEST: CLOSE}, 1)
    rows.said[NEWEST] = statement("Bob has 2 lamps.")
    assert near(rows, Index(None)).twins == {}


def test_a_large_target_is_searched_and_its_newest_facts_are_compared() -> None:
    large = COMPARED_FACTS + 1
    hit = Hit(INDEXED, PointKind.FACT, 0.94)
    assert near(Rows({NEWEST: FAR}, large, [NEWEST]), Index([hit])).twins == {MINE: INDEXED}
    assert near(Rows({NEWEST: CLOSE}, large, [NEWEST]), Index([hit])).twins == {MINE: NEWEST}


def test_without_the_index_it_goes_on_and_says_so() -> None:
    large = COMPARED_FACTS + 1
    for index, use in ((Index(None), True), (Index([]), False)):
        found = near(Rows({NEWEST: CLOSE}, large, [NEWEST]), index, use_index=use)
        assert (found.twins, found.degraded) == ({MINE: NEWEST}, True)


def test_an_empty_target_has_no_duplicates() -> None:
    assert near(Rows({}, 0), Index(None)).twins == {}
