"""Tells apart what a candidate's score has from related words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from memforest_core.domain.scoring import Scores, Voted, Weights, floor_of, fused

SIGNAL = "related"


def told_apart(
    voted: Sequence[Voted], shares: Mapping[UUID, float], cells: Scores, facts: Scores, weights: Weights
) -> list[Voted]:
    """The candidates, in their order and with their scores; of "cell" and "fact" the part that words related to the
    question's gave is "related" instead.

    ``shares`` are those words' shares of the scores by words of cells and facts, in [0, 1]; ``cells``, ``facts`` and
    ``weights`` those by which the candidates were voted for. What nodes of trees have from related words stays theirs.
    """
    floor = floor_of([*cells.dense.values(), *facts.dense.values()])
    spoken = [fact for one in voted for fact in (*one.item.facts, *one.item.chained)]
    scores = fused(facts, weights, spoken, floor)
    of_cell = weights.cell * weights.lexical / _best(cells, (one.item.cell for one in voted))
    of_fact = weights.fact * weights.lexical / _best(facts, spoken)
    apart = []
    for one in voted:
        signals = dict(one.signals)
        best = max(one.item.facts, key=lambda fact: scores.get(fact, 0.0), default=None)
        taken = {"cell": of_cell * cells.lexical.get(one.item.cell, 0.0) * shares.get(one.item.cell, 0.0)}
        if best is not None:
            taken["fact"] = of_fact * facts.lexical.get(best, 0.0) * shares.get(best, 0.0)
        for name, value in taken.items():
            if value > 0.0 and name in signals:
                signals[name] = max(0.0, signals[name] - value)
                signals[SIGNAL] = signals.get(SIGNAL, 0.0) + value
        apart.append(one._replace(signals=signals))
    return apart


def _best(scores: Scores, ids: Iterable[UUID]) -> float:
    return max((scores.lexical.get(id_, 0.0) for id_ in ids), default=0.0) or 1.0
