"""Scores of points by words and by meaning: scaled, added with weights, and how much of a question a text has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from uuid import UUID

ENOUGH = 20
"""Cosines whose median says in which band a model's cosines are."""
NARROW = 0.5
"""A band is narrow when its floor has this part of the best cosine: of e5 0.8, of the built-in model below 0.4."""
Weights = Mapping[str, float]
"""How much each signal counts, by its name in the setting ``recall.weights``; 0 switches a signal off."""
SAME_WORDS = 0.9
"""Share of terms in common from which two texts of one speaker and day are one statement."""


@dataclass(slots=True)
class Scores:
    """Raw scores of points of one sort: BM25 and cosine, by point id."""

    lexical: dict[UUID, float] = field(default_factory=dict)
    dense: dict[UUID, float] = field(default_factory=dict)

    def ids(self) -> set[UUID]:
        """Everything that has a score."""
        return self.lexical.keys() | self.dense.keys()

    def __or__(self, other: Scores) -> Scores:
        """The scores of both."""
        return Scores(self.lexical | other.lexical, self.dense | other.dense)


def scaled(scores: Sequence[float | None]) -> list[float]:
    """Scores divided by the best of their list, so that equal ones stay equal; what is at or below 0, or has no score,
    gets 0."""
    best = max([score for score in scores if score is not None], default=0.0)
    if best <= 0.0 or not math.isfinite(best):
        return [0.0] * len(scores)
    return [score / best if score is not None and score > 0.0 else 0.0 for score in scores]


def floor_of(cosines: Collection[float]) -> float:
    """The cosine from which on a model separates texts: as far below the median of many as the best lies above it.

    Some embedding models give all cosines in a narrow band, such as 0.75 to 0.9. Divided by their best they would all
    be nearly 1 and tell nothing; above the floor the median has half of the best one's share. It is 0 where that is
    below half of the best, as with a model that puts strangers near 0, and for too few cosines to know the band by.
    """
    if len(cosines) < ENOUGH:
        return 0.0
    best = max(cosines)
    floor = 2 * median(cosines) - best
    return floor if floor >= NARROW * best > 0.0 else 0.0


def fused(
    scores: Scores, weights: Weights, only: Iterable[UUID] | None = None, floor: float = 0.0
) -> dict[UUID, float]:
    """The weighted sum of both scaled lists, of all points or of those wanted ``only``; a point that is missing in one
    list gets nothing from it, and one that both lack is left out. Cosines count from their ``floor`` on."""
    # Each look-up of an id costs its hash, and a recall makes thousands: every list is read once for each point.
    ids = scores.ids() if only is None else dict.fromkeys(only)
    by_words, by_meaning = list(map(scores.lexical.get, ids)), list(map(scores.dense.get, ids))
    above = [None if cosine is None else cosine - floor for cosine in by_meaning] if floor else by_meaning
    return {
        id_: weights["lexical"] * one + weights["dense"] * other
        for id_, word, meaning, one, other in zip(
            ids, by_words, by_meaning, scaled(by_words), scaled(above), strict=True
        )
        if word is not None or meaning is not None
    }


def coverage(question: Collection[str], texts: Sequence[Collection[str]]) -> list[float]:
    """How much of a question's terms each text has, in [0, 1]; rare ones count more, by BM25's IDF among the texts
    themselves, where no index knows the corpus."""
    wanted = frozenset(question)
    held = [wanted.intersection(text) for text in texts]
    frequency = Counter(term for terms in held for term in terms)
    rarity = {term: math.log(1 + (len(texts) - frequency[term] + 0.5) / (frequency[term] + 0.5)) for term in wanted}
    total = sum(rarity.values())
    if total <= 0.0:
        return [0.0] * len(texts)
    return [sum(rarity[term] for term in terms) / total for terms in held]
