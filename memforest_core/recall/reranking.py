"""The best pieces read anew, each together with the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memforest_core.domain.evidence import Evidence
from memforest_core.errors import ModelRejected, ModelUnavailable
from memforest_core.models.reranker import Reranker
from memforest_core.recall.current import SIGNAL as CURRENT

SIGNAL = "rerank"


def reranked(
    reranker: Reranker, question: str, evidence: Sequence[Evidence], first: int
) -> tuple[tuple[Evidence, ...], list[str]]:
    """The first pieces in the cross-encoder's order, the others after them; and what had to be done without.

    Each piece is shown under its date. Scores become those of the cross-encoder, moved above those of the rest; what
    tells the state that holds now stays first.
    """
    read, rest = evidence[:first], evidence[first:]
    try:
        scores = reranker.rerank(question, [f"{piece.time_label}\n{piece.text}" for piece in read])
    except (ModelUnavailable, ModelRejected):
        return tuple(evidence), ["The rerank model is away: pieces are in the order of recall."]
    ahead = max(scores, default=0.0) - min(scores, default=0.0)
    scores = [score + ahead * (CURRENT in piece.signals) for score, piece in zip(scores, read, strict=True)]
    lift = max((piece.score for piece in rest), default=0.0) - min(scores, default=0.0)
    pairs = sorted(zip(scores, read, strict=True), key=lambda pair: -pair[0])
    anew = [replace(piece, score=score + lift, signals={**piece.signals, SIGNAL: score}) for score, piece in pairs]
    return (*anew, *rest), []
