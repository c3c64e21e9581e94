"""Flat search over the same texts in the same run: what the trees have to beat."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from benchmarks.eval.corpora import Corpora, Corpus, Cut
from benchmarks.eval.dataset import Conversation, Question
from benchmarks.eval.measuring import Item
from benchmarks.eval.searching import Order, best, by_best, cosine, fused, similarities

DEPTH = 200
"""Items that every method puts in order: more than 2,000 tokens hold."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a method found for a question: items, best first, and the time that it took in milliseconds."""

    items: Sequence[Item]
    ms: float | None
    """Of the query that gave these items; None where it was not timed."""
    degraded: tuple[str, ...] = ()
    k_ms: float | None = None
    """Of a query for the configured number of items; None where a method has no such number."""
    confidence: float | None = None
    """How sure the method is that its evidence answers; None for one that does not say."""


class Method(Protocol):
    """A way to find evidence."""

    @property
    def name(self) -> str:
        """The row's name."""
        ...

    def ask(self, conversation: Conversation, question: Question) -> Answered:
        """Evidence for one question about one conversation."""
        ...


class Clock:
    """Times one query; begun when all that is searched is built."""

    def __init__(self, corpora: Corpora) -> None:
        self._corpora = corpora
        self._started = time.perf_counter()

    def embed(self, question: Question) -> NDArray[np.float32]:
        """The question's vector, shape (d,)."""
        return self._corpora.embed(question.text)

    def answered(self, corpus: Corpus, order: Order) -> Answered:
        """What these texts deliver."""
        quotes = corpus.quotes(order)
        return Answered(quotes, (time.perf_counter() - self._started) * 1_000.0)


class Search(StrEnum):
    """How texts are ordered."""

    BM25 = "bm25"
    DENSE = "dense"
    HYBRID = "hybrid"
    """Reciprocal rank fusion of BM25 and dense."""
    SUM = "sum"
    """BM25 and dense, each over its best score, added."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One search over one cut."""

    name: str
    search: Search
    cut: Cut
    corpora: Corpora

    def ask(self, conversation: Conversation, question: Question) -> Answered:
        """The best texts; building what is searched is not timed."""
        corpus = self.corpora.of(conversation, self.cut)
        if self.search is not Search.DENSE:
            _ = corpus.bm25
        if self.search in {Search.DENSE, Search.HYBRID, Search.SUM}:
            _ = corpus.vectors
        clock = Clock(self.corpora)
        return clock.answered(corpus, self._order(corpus, question, clock))

    def _order(self, corpus: Corpus, question: Question, clock: Clock) -> Order:
        match self.search:
            case Search.BM25:
                return corpus.bm25.search(question.text, DEPTH)
            case Search.DENSE:
                return cosine(corpus.vectors, clock.embed(question), DEPTH)
            case Search.HYBRID:
                dense = cosine(corpus.vectors, clock.embed(question), DEPTH)
                return fused([dense, corpus.bm25.search(question.text, DEPTH)], DEPTH)
            case Search.SUM:
                scores = by_best(similarities(corpus.vectors, clock.embed(question)))
                return best(scores + by_best(corpus.bm25.scores(question.text)), DEPTH)
        assert_never(self.search)
