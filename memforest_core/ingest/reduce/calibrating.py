"""A labelled sample scored with the model in use, and what its thresholds do, compared with those in force."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.resources import files
from statistics import median
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memforest_core.domain.facts import Statement
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.errors import InvalidInput
from memforest_core.ingest.extract.offline.english_text import scene_of
from memforest_core.models.calls import Embedder
from memforest_core.models.statement_vectors import StatementEmbedder, parts_of

STEP = 0.001
"""Thresholds are multiples of this: finer than what some hundred pairs can tell."""
MIN_PAIRS = 20
"""Of each label: below, one pair more or less moves a threshold by more than models differ."""
ASSIGN_RATE = 0.02
"""Share of strangers that may be assigned to each other's scene."""
WEAK_RATE = 0.10
"""The same for a weak assignment, which only small scenes take."""
BONUS_SHARE = 0.4
"""The bonus for closeness in time, as a share of what lies between one scene's pairs and strangers: the
artifact's 0.08, seen on the built-in model's cosines."""
MERGE_FACTS = 8
"""Facts in each of two scenes that may be one."""
LOW_SCENES = 0.5
"""Pairs of one scene found even weakly, less those of strangers, below which scenes say little."""
MAX_PAIRS = 100_000
THRESHOLDS = ("scene_assign", "scene_weak", "scene_merge", "scene_time_bonus")
"""The settings ``reduce.*`` that are derived; all in [0, 1], and weak < assign < merge."""

Fractions = dict[str, float]
"""Values by their names: thresholds, or what they do."""


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


class LabelledPair(BaseModel):
    """One line of a sample; ``scene_a`` and ``scene_b`` are labels ``domain/detail``, empty when unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: Label
    a: Annotated[str, Field(min_length=1, max_length=8_000)]
    b: Annotated[str, Field(min_length=1, max_length=8_000)]
    scene_a: str = ""
    scene_b: str = ""


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """A pair with the cosine of its statements' routing."""

    label: Label
    routing: float
    gated: bool = False
    """Their domains are known and differ: never in one scene."""


def built_in_sample() -> list[LabelledPair]:
    """The pairs that come with the package: statements about seven invented people."""
    return parse_sample((files(__package__) / "pairs.jsonl").read_text(encoding="utf-8"))


def parse_sample(text: str) -> list[LabelledPair]:
    """The pairs of JSON Lines; empty lines are passed over. Raises InvalidInput naming the first line at fault."""
    pairs: list[LabelledPair] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            pairs.append(LabelledPair.model_validate(json.loads(line)))
        except (ValidationError, json.JSONDecodeError, RecursionError) as error:
            what = "it is no JSON object"
            if isinstance(error, ValidationError):
                first = error.errors(include_url=False, include_input=False)[0]
                what = f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"
            raise InvalidInput(
                f'Line {number} of the sample is not {{"a": ..., "b": ..., "label": one of {", ".join(Label)}}}:'
                f" {what}.",
                code="invalid_sample",
            ) from None
        if len(pairs) > MAX_PAIRS:
            raise InvalidInput(f"A sample has at most {MAX_PAIRS} pairs.", code="invalid_sample")
    return pairs


def score(pairs: Sequence[LabelledPair], embedder: Embedder, *, labelled: bool) -> list[ScoredPair]:
    """Cosines of what routing compares. ``labelled`` says whether facts get scene labels from a chat model, as the
    sample's have them; without one they have those of the offline extractor."""

    def said(text: str, scene: str) -> Statement:
        at, scene = datetime(2000, 1, 1, tzinfo=UTC), scene if labelled else scene_of(text, "")
        return Statement(text=text, time=UNKNOWN_TIME, mentioned_at=at, speaker="", subject="", scene=scene)

    sides = [(said(pair.a, pair.scene_a), said(pair.b, pair.scene_b)) for pair in pairs]
    texts = sorted({each.routing_text for both in sides for each in both})
    parts = parts_of(each for both in sides for each in both)
    vectors = dict(zip(texts, StatementEmbedder(embedder).embed(texts, parts).vectors, strict=True))
    return [
        ScoredPair(
            pair.label,
            float(vectors[a.routing_text] @ vectors[b.routing_text]),
            gated=bool(a.domain and b.domain and a.domain != b.domain),
        )
        for pair, (a, b) in zip(pairs, sides, strict=True)
    ]


def derive(pairs: Sequence[ScoredPair]) -> Fractions:
    """The thresholds of a sample; the same for the same pairs in any order. ``scene_weak`` and ``scene_assign`` are the
    lowest scores that at most WEAK_RATE and ASSIGN_RATE of strangers stated in the same weeks reach. ``scene_merge`` is
    how close the centres of two scenes of one topic are. Raises InvalidInput when ``scene`` or ``other`` has fewer than
    MIN_PAIRS usable pairs."""
    if not all(math.isfinite(pair.routing) for pair in pairs):
        raise _unusable("The model gave a vector without direction: its cosines are not numbers.")
    related, strangers = (
        sorted(pair.routing for pair in pairs if pair.label is label and not pair.gated)
        for label in (Label.SCENE, Label.OTHER)
    )
    if min(len(related), len(strangers)) < MIN_PAIRS:
        raise _unusable(
            f"A sample needs {MIN_PAIRS} usable pairs of scene and other: scene has {len(related)}, other has"
            f" {len(strangers)}."
        )
    bonus = _round(max(0.0, BONUS_SHARE * (median(related) - median(strangers))))
    # Room above for assign and merge, however high strangers score.
    weak = min(reached_by(strangers, WEAK_RATE) + bonus, 1.0 - 2 * STEP)
    assign = min(max(reached_by(strangers, ASSIGN_RATE) + bonus, weak + STEP), 1.0 - STEP)
    merge = min(max(merge_cosine(related), assign + STEP), 1.0)
    return dict(zip(THRESHOLDS, map(_round, (assign, weak, merge, bonus)), strict=True))


def reached_by(cosines: Sequence[float], rate: float) -> float:
    """The lowest threshold that at most a share ``rate`` of the cosines reaches; 1.0 when none does better."""
    steps = (_round(number * STEP) for number in range(round(1 / STEP) + 1))
    return next((step for step in steps if sum(each >= step for each in cosines) <= rate * len(cosines)), 1.0)


def merge_cosine(related: Sequence[float]) -> float:
    """The cosine of the centres of two scenes of MERGE_FACTS facts each that are of one topic. Unit vectors with
    pairwise cosine s have centres of squared length (1 + (n - 1) s) / n, and two such centres the dot product s: their
    cosine is n s / (1 + (n - 1) s). s is the median of one topic's pairs."""
    typical = max(0.0, median(related))
    return _round(MERGE_FACTS * typical / (1 + (MERGE_FACTS - 1) * typical))


def figures_at(pairs: Sequence[ScoredPair], thresholds: Mapping[str, float]) -> Fractions:
    """The fractions of pairs of one scene, and of strangers, that reach ``scene_assign`` and ``scene_weak``, as
    facts of the same weeks do: with the whole bonus."""

    def taken(label: Label, threshold: str) -> float:
        bonus = thresholds["scene_time_bonus"]
        scores = [pair.routing + bonus for pair in pairs if pair.label is label and not pair.gated]
        return sum(each >= thresholds[threshold] for each in scores) / len(scores) if scores else 0.0

    return {
        "scene_assigned": taken(Label.SCENE, "scene_assign"),
        "scene_taken": taken(Label.SCENE, "scene_weak"),
        "other_assigned": taken(Label.OTHER, "scene_assign"),
        "other_taken": taken(Label.OTHER, "scene_weak"),
    }


def warnings(figures: Mapping[str, float]) -> list[str]:
    """A sentence if the classes can't be separated."""
    above = figures["scene_taken"] - figures["other_taken"]
    if above >= LOW_SCENES:
        return []
    return [f"Of pairs of one topic only {above:.0%} more join a scene than of strangers: scenes will say little."]


def _unusable(sentence: str) -> InvalidInput:
    return InvalidInput(sentence, code="unusable_sample")


def _round(value: float) -> float:
    return round(round(value / STEP) * STEP, 3)
