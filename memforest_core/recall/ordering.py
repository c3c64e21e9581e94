"""Pieces put in another order: by time, as the question asks, and by a cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memforest_core.domain.asked_order import order_of
from memforest_core.domain.attributes import answering_terms
from memforest_core.domain.evidence import Evidence
from memforest_core.domain.ids import SessionId
from memforest_core.domain.ordering import Told, Wanted, lift_ordered
from memforest_core.domain.scoring import Voted
from memforest_core.domain.text import terms
from memforest_core.errors import ModelRejected, ModelUnavailable
from memforest_core.models.calls import CallRecord, Reranker, failed_call
from memforest_core.recall.candidates import Candidates
from memforest_core.recall.current import SIGNAL as CURRENT
from memforest_core.recall.question import Question
from memforest_core.recall.rows.reading import RecallRows

ORDERED = 120
"""The best pieces whose texts are read to put them in order; the others keep their places."""
RERANKED = "rerank"
"""The signal of a cross-encoder."""


def in_order(
    rows: RecallRows, candidates: Candidates, voted: Sequence[Voted], question: Question, weight: float
) -> list[Voted]:
    """The pieces, best first, lifted by where they lie in time; anchors are looked for in what was found."""
    asked = order_of(question.text)
    first, rest = voted[:ORDERED], voted[ORDERED:]
    keys = dict.fromkeys((SessionId(one.item.place[0]), one.item.place[1]) for one in first)
    texts = rows.one(rows.turn_texts(list(keys)))
    told = []
    for one in first:
        key = (SessionId(one.item.place[0]), one.item.place[1])
        head = candidates.turns[key]
        told.append(Told(one, (head.occurred_at, head.ordinal), frozenset(terms(texts.get(key, "")))))
    names = frozenset(term for head in candidates.turns.values() for term in terms(head.name))
    wanted = Wanted(
        asked.order,
        frozenset(terms(asked.anchor)) - names,
        frozenset(terms(asked.other)) - names,
        answering_terms(question.terms, question.spoken),
    )
    return [*lift_ordered(told, wanted, weight), *rest]


def reranked(
    reranker: Reranker, question: str, evidence: Sequence[Evidence], first: int
) -> tuple[tuple[Evidence, ...], list[str], list[CallRecord]]:
    """The first pieces in the cross-encoder's order, the others after them; a sentence if it was unavailable; and what
    the call cost.

    Each piece is shown under its date. Scores become those of the cross-encoder, moved above those of the rest; what
    tells the state that holds now stays first.
    """
    read, rest = evidence[:first], evidence[first:]
    if not read:
        return (), [], []
    try:
        told = reranker.rerank(question, [f"{piece.time_label}\n{piece.text}" for piece in read])
    except (ModelUnavailable, ModelRejected) as error:
        sentence = "The rerank model is away: pieces are in the order of recall."
        return tuple(evidence), [sentence], failed_call(error)
    scores = told.scores
    ahead = max(scores, default=0.0) - min(scores, default=0.0)
    scores = [score + ahead * (CURRENT in piece.signals) for score, piece in zip(scores, read, strict=True)]
    lift = max((piece.score for piece in rest), default=0.0) - min(scores, default=0.0)
    pairs = sorted(zip(scores, read, strict=True), key=lambda pair: -pair[0])
    anew = [replace(piece, score=score + lift, signals={**piece.signals, RERANKED: score}) for score, piece in pairs]
    return (*anew, *rest), [], [told.record]
