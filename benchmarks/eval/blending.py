"""Stronger flat baselines: sums of scores, over several scales of text, and with a weight that is tuned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.eval.baselines import DEPTH, Answered, Clock
from benchmarks.eval.corpora import Corpora, Corpus, Cut
from benchmarks.eval.dataset import Conversation, Dataset, Question
from benchmarks.eval.measuring import BUDGETS, count_tokens, delivered, fractions, mean
from benchmarks.eval.searching import Order, Scores, best, concurrent, similarities, spread, standard
from benchmarks.harness import say

ALPHAS = tuple(step / 10 for step in range(11))
"""Weights of dense search that are tried; BM25 has the rest."""
MIDDLE = 0.5
"""The weight where there is no question to tune it on."""
_WORD = re.compile(r"\w+")


class Convex:
    """alpha * dense + (1 - alpha) * BM25, both spread over [0, 1] (Bruch, Gai and Ingber, 2023).

    The questions of the data set are halved by turns. Each half is answered with the alpha that delivers most of the
    gold turns of the other half (share within 500 and 2,000 tokens), so that no question has a part in its own alpha.
    """

    def __init__(self, name: str, cut: Cut, corpora: Corpora, data: Dataset) -> None:
        self.name = name
        self._cut = cut
        self._corpora = corpora
        self._data = data
        self._half = {question.id: number % 2 for number, question in enumerate(_questions(data))}

    @cached_property
    def alphas(self) -> tuple[float, float]:
        """What each half is answered with: tuned on the other half, in a search of the whole data set."""
        tried: tuple[list[list[float]], list[list[float]]] = ([], [])
        for conversation in self._data:
            corpus = self._corpora.of(conversation, self._cut)
            for question in conversation.questions:
                if question.measures_recall:
                    tried[self._half[question.id]].append(self._tried(corpus, conversation, question))
        one, other = (_tuned(half) for half in tried)
        say(f"{self.name}: alpha {other} for one half of the questions, {one} for the other")
        return other, one

    def _tried(self, corpus: Corpus, conversation: Conversation, question: Question) -> list[float]:
        """What each alpha delivers of the gold turns."""
        gold = conversation.evidence(question)
        dense = similarities(corpus.vectors, self._corpora.embed(question.text))
        words = corpus.bm25.scores(question.text)
        found = []
        for alpha in ALPHAS:
            quotes = corpus.quotes(convex(dense, words, alpha))
            found.append(mean([mean(fractions(gold, delivered(quotes, budget, count_tokens))) for budget in BUDGETS]))
        return found

    def ask(self, conversation: Conversation, question: Question) -> Answered:
        """The best texts by the alpha of the question's half; tuning and building are not timed."""
        alpha = self.alphas[self._half[question.id]]
        corpus = self._corpora.of(conversation, self._cut)
        words, vectors = corpus.bm25, corpus.vectors
        clock = Clock(self._corpora)
        dense = similarities(vectors, clock.embed(question))
        return clock.answered(corpus, convex(dense, words.scores(question.text), alpha))


def convex(dense: Scores, words: Scores, alpha: float) -> Order:
    """The order of texts by both scores."""
    return best(alpha * spread(dense) + (1 - alpha) * spread(words), DEPTH)


def _tuned(tried: Sequence[Sequence[float]]) -> float:
    """The alpha that is best on average; of equal ones that nearest to the middle."""
    if not tried:
        return MIDDLE
    means = np.mean(tried, axis=0)
    return min(ALPHAS, key=lambda alpha: (-round(means[ALPHAS.index(alpha)], 9), abs(alpha - MIDDLE)))


def _questions(data: Dataset) -> Iterable[Question]:
    return (question for conversation in data for question in conversation.questions)


@dataclass(frozen=True, slots=True)
class Scales:
    """Turns by the sum of z-scores, each with the same weight, nothing tuned.

    By BM25 and by dense search: a turn's own score, its chunk's, its session's, and that of the turns before and after
    it; and whether the question names its speaker.
    """

    name: str
    corpora: Corpora

    def ask(self, conversation: Conversation, question: Question) -> Answered:
        """The best turns; building what is searched is not timed."""
        turns, chunks, sessions = (self.corpora.of(conversation, cut) for cut in (Cut.TURNS, Cut.CHUNKS, Cut.SESSIONS))
        in_chunks, in_sessions = _held(turns, chunks), _held(turns, sessions)
        session_vectors = _means(turns.vectors, in_sessions)
        speakers = [_words(turn.speaker) for _, turn in conversation.turns()]
        _ = turns.bm25, chunks.bm25, chunks.vectors, sessions.bm25
        clock = Clock(self.corpora)
        vector = clock.embed(question)
        requested = _words(question.text)
        signals = [standard(np.array([float(bool(words & requested)) for words in speakers]))]
        for own, chunk, session in (
            [one.bm25.scores(question.text) for one in (turns, chunks, sessions)],
            [similarities(one, vector) for one in (turns.vectors, chunks.vectors, session_vectors)],
        ):
            signals += [
                standard(own),
                standard(concurrent(own, turns.sessions)),
                _lent(standard(chunk), in_chunks, len(own)),
                _lent(standard(session), in_sessions, len(own)),
            ]
        return clock.answered(turns, best(np.sum(signals, axis=0), DEPTH))


Held = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Pairs of positions: a turn, and a text that contains it or a part of it."""


def _held(turns: Corpus, texts: Corpus) -> Held:
    place = {one.quotes[0].turn_ids[0]: position for position, one in enumerate(turns.texts)}
    pairs = [
        (place[turn], position)
        for position, one in enumerate(texts.texts)
        for quote in one.quotes
        for turn in quote.turn_ids
    ]
    made = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return made[:, 0], made[:, 1]


def _lent(scores: Scores, held: Held, turns: int) -> Scores:
    """For each turn the score of the best text that contains it."""
    lent = np.full(turns, -np.inf)
    np.maximum.at(lent, held[0], scores[held[1]])
    return lent


def _means(vectors: NDArray[np.float32], held: Held) -> NDArray[np.float32]:
    """Unit vectors of texts, each the mean of its turns': an embedding model would read only the beginning."""
    sums = np.zeros((held[1].max(initial=-1) + 1, vectors.shape[1]), dtype=np.float32)
    np.add.at(sums, held[1], vectors[held[0]])
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    return np.asarray(sums / lengths, dtype=np.float32)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
