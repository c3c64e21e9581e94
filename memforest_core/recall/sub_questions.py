"""Browses each tree by the vector of its own question, as the planner put it: mode embedding+planner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from memforest_core.domain.scoring import Weights
from memforest_core.errors import ModelRejected, ModelUnavailable
from memforest_core.index.vector_index import DenseVector, PointKind
from memforest_core.models.calls import Embedder
from memforest_core.recall.browsing import Browsed, Reading, browse
from memforest_core.recall.index_search import IndexSearch
from memforest_core.recall.kept_trees import KeptTrees
from memforest_core.recall.question import parse_question
from memforest_core.recall.records import TreeRoot

NOT_EMBEDDED = "The planner's questions could not be embedded: every tree was browsed by the question itself."


def browse_each(
    reading: Reading,
    search: IndexSearch,
    roots: Sequence[TreeRoot],
    beam: int,
    weights: Weights,
    kept: KeptTrees,
    question: str,
    questions: Mapping[UUID, str],
    embedder: Embedder,
) -> Browsed:
    """As ``browse``, but a tree with one of the ``questions`` (by root) that is not the ``question`` is scored by it.

    A leaf that such a tree ends at counts as near to the question as to its tree's question, whichever is nearer. One
    embedding for all questions, and one browse for each that differs. Without an embedder all are browsed by the
    question itself, and the result says so.
    """
    by_question: dict[str, list[TreeRoot]] = defaultdict(list)
    for root in roots:
        by_question[questions.get(root.id, question)].append(root)
    asked = sorted(by_question.keys() - {question})
    vectors = _embedded(embedder, asked) if asked and search.dense is not None else None
    if vectors is None:
        plain = browse(reading, search, roots, beam, weights, kept)
        plain.degraded += [NOT_EMBEDDED] if asked else []
        return plain
    united = browse(reading, search, by_question.get(question, []), beam, weights, kept)
    for text, vector in zip(asked, vectors, strict=True):
        sub = IndexSearch(
            search.index, search.scope, vector, parse_question(text).sparse(), search.cell_scope, search.trees
        )
        found = browse(reading, sub, by_question[text], beam, weights, kept)
        search.round_trips += sub.round_trips
        search.failure = search.failure or sub.failure
        _join(search, sub, PointKind.CELL, found.cells)
        _join(search, sub, PointKind.FACT, found.facts)
        united.cells |= found.cells
        united.facts |= found.facts
        united.levels = max(united.levels, found.levels)
    return united


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Sequence[DenseVector] | None:
    try:
        return list(embedder.embed_query(texts).vectors)
    except (ModelUnavailable, ModelRejected):
        return None


def _join(search: IndexSearch, sub: IndexSearch, kind: PointKind, found: Collection[UUID]) -> None:
    """Give these leaves the better of the two cosines; sums of BM25 do not compare between questions."""
    search.glance(dict.fromkeys(found, kind))
    mine, theirs = search.of(kind).dense, sub.of(kind).dense
    for id_ in found & theirs.keys():
        mine[id_] = max(mine.get(id_, theirs[id_]), theirs[id_])
