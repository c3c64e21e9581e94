"""What an index and an embedder answered is asked once, and dropped with its conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from uuid import UUID

import numpy as np

from benchmarks.eval.keeping import Kept, KeptEmbedder, KeptIndex
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.vector_index import Hit, Hits, IndexFilter, IndexQuery, PointKind, SparseVector, VectorIndex
from memforest_core.models.calls import CallRecord, Embedded, Step

IDS = tuple(UUID(int=number) for number in range(1, 5))
UNKNOWN = UUID(int=9)
SCOPE = IndexFilter(TenantId("t"), ForestId(UUID(int=8)), kinds=(PointKind.CELL,))
MEANING = np.ones(2, dtype=np.float32)
WORDS = SparseVector((1,), (1.0,))


class Counting:
    """An index and an embedder that remember what they were asked; a point's score is its place."""

    model, dimension = "counting", 2

    def __init__(self) -> None:
        self.searched: list[list[IndexQuery]] = []
        self.embedded: list[str] = []

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        self.searched.append(list(queries))
        return [
            Hits.of(
                [
                    Hit(id_, PointKind.CELL, float(at))
                    for at, id_ in enumerate(IDS)
                    if query.filter.ids is None or id_ in query.filter.ids
                ][: query.limit]
            )
            for query in queries
        ]

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.embedded += texts
        vectors = np.full((len(texts), 2), len(self.embedded), dtype=np.float32)
        return Embedded(vectors, CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, "ok"))

    embed_query = embed


def naming(*ids: UUID) -> IndexQuery:
    return IndexQuery(MEANING, replace(SCOPE, ids=ids), len(ids))


def test_each_named_point_is_asked_for_once() -> None:
    """Given points that were scored, when others are named with them, then only those are new, and unknown ones too."""
    real, kept = Counting(), Kept()
    index = KeptIndex(cast("VectorIndex", real), kept)
    index.search([naming(IDS[0], UNKNOWN)])
    [hits] = index.search([naming(UNKNOWN, *IDS)])
    assert sorted(hits) == sorted(real.search([naming(*IDS)])[0])
    assert [query.filter.ids for query in real.searched[1]] == [IDS[1:]]
    assert real.searched[1][0].limit == 3
    index.search([naming(*IDS), naming()])
    assert len(real.searched) == 3
    index.search([IndexQuery(WORDS, naming(*IDS).filter, 4)])
    assert len(real.searched) == 4


def test_a_search_among_all_points_is_kept_by_all_of_it() -> None:
    real = Counting()
    index = KeptIndex(cast("VectorIndex", real), Kept())
    query = IndexQuery(WORDS, SCOPE, 3)
    fewer = IndexQuery(WORDS, replace(SCOPE, ids=IDS), 2)
    first = index.search([query, fewer])
    assert [len(hits) for hits in first] == [3, 2]
    assert index.search([fewer, query]) == [first[1], first[0]]
    index.search([replace(query, limit=2), replace(query, filter=replace(SCOPE, roots_only=True))])
    assert [len(queries) for queries in real.searched] == [2, 2]


def test_questions_are_embedded_once_and_other_texts_each_time() -> None:
    real = Counting()
    embedder = KeptEmbedder(real, Kept())
    first = embedder.embed_query(["Where?"])
    assert embedder.embed_query(["Where?"]) is first
    embedder.embed(["Where?"])
    assert real.embedded == ["Where?", "Where?"]
    assert (embedder.model, embedder.dimension) == ("counting", 2)


def test_another_conversation_drops_what_is_kept() -> None:
    real, kept = Counting(), Kept()
    index, embedder = KeptIndex(cast("VectorIndex", real), kept), KeptEmbedder(real, kept)
    for conversation in ("one", "one", "two"):
        kept.about(conversation)
        index.search([naming(*IDS), IndexQuery(WORDS, SCOPE, 3)])
        embedder.embed_query(["Where?"])
    assert (len(real.searched), len(real.embedded)) == (2, 2)
