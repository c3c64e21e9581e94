"""Thresholds for an embedding model, derived from pairs of statements whose relation is known.

Cosines of two models are not on one scale: what one gives to a paraphrase, another gives to strangers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

STEP = 0.001
"""Thresholds are multiples of this: finer than what some hundred pairs can tell."""
MIN_PAIRS = 20
"""Of each label: below, one pair more or less moves a threshold by more than models differ."""
PRECISION = 0.99
"""Share of true duplicates among the pairs that a cosine alone would merge."""
ASSIGN_RATE = 0.02
"""Share of strangers that may be assigned to each other's scene."""
WEAK_RATE = 0.10
"""The same for a weak assignment, which only small scenes take."""
BONUS_SHARE = 0.4
"""The bonus for closeness in time, as a share of what lies between one scene's pairs and strangers: the
artifact's 0.08, seen on the built-in model's cosines."""
MERGE_FACTS = 8
"""Facts in each of two scenes that may be one."""
LOW_RECALL = 0.2
"""Near duplicates found, below which looking for them by cosine hardly pays."""
LOW_SCENES = 0.5
"""Pairs of one scene found even weakly, below which most facts stay alone."""


class UnusableSample(ValueError):
    """A sample from which nothing can be derived; the message says what is missing."""


class Label(StrEnum):
    """How two statements are related."""

    SAME = "same"
    """One fact in other words."""
    UPDATE = "update"
    """The same attribute with another value: never to be merged."""
    SCENE = "scene"
    """Another fact of the same topic."""
    OTHER = "other"
    """Another topic."""


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """A pair with the cosines of its statements' texts (``near``) and of their routing (``routing``)."""

    label: Label
    near: float
    routing: float
    refused: bool = False
    """What they say differs where canonicalization looks: not merged at any cosine."""
    gated: bool = False
    """Their domains are known and differ: never in one scene."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The settings ``reduce.*`` of these names; all in [0, 1], and weak < assign < merge."""

    near_duplicate: float
    scene_assign: float
    scene_weak: float
    scene_merge: float
    scene_time_bonus: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What thresholds do to a sample's pairs; all but ``wrong`` are shares of the pairs in question.

    The scene figures are those of facts told in the same weeks: with the whole bonus.
    """

    precision: float | None
    """Duplicates among all that reach ``near_duplicate``; None when nothing does."""
    recall: float
    """Duplicates that reach it, of all that canonicalization would let pass."""
    wrong: int
    """Pairs that reach it and are no duplicates."""
    scene_assigned: float
    scene_taken: float
    """Pairs of one scene that reach ``scene_assign`` and ``scene_weak``."""
    other_assigned: float
    other_taken: float
    """The same of strangers."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Derived thresholds, what they do, and a sentence for each pair of classes that can't be told apart."""

    thresholds: Thresholds
    figures: Figures
    warnings: tuple[str, ...]


def derive(pairs: Sequence[ScoredPair], precision: float = PRECISION) -> Calibration:
    """The thresholds of a sample; the same for the same pairs in any order.

    ``near_duplicate`` is the lowest cosine from which on at least ``precision`` of the pairs are the same fact.
    ``scene_weak`` and ``scene_assign`` are the lowest scores that at most WEAK_RATE and ASSIGN_RATE of strangers
    told in the same weeks reach. ``scene_merge`` is how close the centres of two scenes of one topic are.

    Raises UnusableSample when a label has fewer than MIN_PAIRS usable pairs, or the target is not in (0, 1].
    """
    if not 0.0 < precision <= 1.0:
        raise UnusableSample("The precision to reach is a share above 0 and at most 1.")
    _check(pairs)
    near, found = near_duplicate(pairs, precision)
    routed = [pair for pair in pairs if not pair.gated]
    strangers = [pair.routing for pair in routed if pair.label is Label.OTHER]
    related = [pair.routing for pair in routed if pair.label is Label.SCENE]
    bonus = time_bonus(related, strangers)
    # Room above for assign and merge, however high strangers score.
    weak = min(reached_by(strangers, WEAK_RATE) + bonus, 1.0 - 2 * STEP)
    assign = min(max(reached_by(strangers, ASSIGN_RATE) + bonus, weak + STEP), 1.0 - STEP)
    merge = min(max(merge_cosine(related), assign + STEP), 1.0)
    thresholds = Thresholds(near, *(_round(value) for value in (assign, weak, merge, bonus)))
    figures = figures_at(pairs, thresholds)
    return Calibration(thresholds, figures, tuple(_warnings(figures, found, precision)))


def near_duplicate(pairs: Iterable[ScoredPair], precision: float) -> tuple[float, bool]:
    """The lowest threshold that meets the precision, and True; else the lowest that merges nothing wrong, and False.

    A higher target never gives a lower threshold.
    """
    judged = [pair for pair in pairs if not pair.refused]
    right = sorted(pair.near for pair in judged if pair.label is Label.SAME)
    wrong = sorted(pair.near for pair in judged if pair.label is not Label.SAME)
    for threshold in _grid():
        merged, mistaken = _reaching(right, threshold), _reaching(wrong, threshold)
        if merged and merged >= precision * (merged + mistaken):
            return threshold, True
    return reached_by(wrong, 0.0), False


def reached_by(cosines: Sequence[float], rate: float) -> float:
    """The lowest threshold that at most a share ``rate`` of the cosines reaches; 1.0 when none does better."""
    ordered = sorted(cosines)
    return next((step for step in _grid() if _reaching(ordered, step) <= rate * len(ordered)), 1.0)


def _reaching(ordered: Sequence[float], threshold: float) -> int:
    """How many of the ordered cosines reach a threshold."""
    return len(ordered) - bisect_left(ordered, threshold)


def time_bonus(related: Sequence[float], strangers: Sequence[float]) -> float:
    """What closeness in time adds to a cosine at most: BONUS_SHARE of the distance between the classes' medians."""
    return _round(max(0.0, BONUS_SHARE * (median(related) - median(strangers))))


def merge_cosine(related: Sequence[float], facts: int = MERGE_FACTS) -> float:
    """The cosine of the centres of two scenes of ``facts`` facts each that are of one topic.

    Unit vectors with pairwise cosine s have centres of squared length (1 + (n - 1) s) / n, and two such centres the
    dot product s: their cosine is n s / (1 + (n - 1) s). s is the median of one topic's pairs.
    """
    typical = max(0.0, median(related))
    return _round(facts * typical / (1 + (facts - 1) * typical))


def figures_at(pairs: Sequence[ScoredPair], at: Thresholds) -> Figures:
    """What thresholds do to a sample."""
    judged = [pair for pair in pairs if not pair.refused]
    same = [pair for pair in judged if pair.label is Label.SAME]
    reached = [pair for pair in judged if pair.near >= at.near_duplicate]
    right = sum(pair.label is Label.SAME for pair in reached)

    def taken(label: Label, threshold: float) -> float:
        scores = sorted(pair.routing + at.scene_time_bonus for pair in pairs if pair.label is label and not pair.gated)
        return _reaching(scores, threshold) / len(scores) if scores else 0.0

    return Figures(
        precision=right / len(reached) if reached else None,
        recall=right / len(same) if same else 0.0,
        wrong=len(reached) - right,
        scene_assigned=taken(Label.SCENE, at.scene_assign),
        scene_taken=taken(Label.SCENE, at.scene_weak),
        other_assigned=taken(Label.OTHER, at.scene_assign),
        other_taken=taken(Label.OTHER, at.scene_weak),
    )


def _check(pairs: Sequence[ScoredPair]) -> None:
    if not all(math.isfinite(cosine) for pair in pairs for cosine in (pair.near, pair.routing)):
        raise UnusableSample("The model gave a vector without direction: its cosines are not numbers.")
    usable = Counter(
        pair.label
        for pair in pairs
        if not (pair.gated if pair.label in (Label.SCENE, Label.OTHER) else pair.refused and pair.label is Label.SAME)
    )
    missing = [f"{label} has {usable[label]}" for label in Label if usable[label] < MIN_PAIRS]
    if missing:
        raise UnusableSample(f"A sample needs {MIN_PAIRS} usable pairs of each label: {', '.join(missing)}.")


def _warnings(figures: Figures, found: bool, precision: float) -> Iterable[str]:
    if not found:
        yield (
            f"No threshold reaches a precision of {precision:g}: this model can't tell repeated facts from changed"
            " ones, so that only exact duplicates will merge."
        )
    elif figures.recall < LOW_RECALL:
        yield (
            f"Only {figures.recall:.0%} of paraphrases reach the threshold: this model hardly tells repeated facts"
            " from changed ones."
        )
    if figures.scene_taken < LOW_SCENES:
        yield (
            f"Only {figures.scene_taken:.0%} of the pairs of one topic score above strangers: scenes of this model"
            " will be many and small."
        )


def _grid() -> Iterable[float]:
    return (_round(number * STEP) for number in range(round(1 / STEP) + 1))


def _round(value: float) -> float:
    return round(round(value / STEP) * STEP, 3)
