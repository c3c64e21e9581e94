"""A labelled sample scored with the model in use, and what its thresholds do, compared with those in force."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from importlib.resources import files
from statistics import median
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memforest_core.domain.facts import Candidate, Change, Modality, Origin, Polarity, Statement
from memforest_core.domain.ids import CellId
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.errors import InvalidInput
from memforest_core.ingest.extract.offline.english_text import scene_of
from memforest_core.models.calls import Embedder
from memforest_core.models.statement_vectors import StatementEmbedder, parts_of
from memforest_core.settings import ReduceSettings

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
    """A pair with the cosine of its statements' routing."""

    label: Label
    routing: float
    gated: bool = False
    """Their domains are known and differ: never in one scene."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The settings ``reduce.*`` of these names; all in [0, 1], and weak < assign < merge."""

    scene_assign: float
    scene_weak: float
    scene_merge: float
    scene_time_bonus: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What thresholds do to a sample's pairs, as shares of the pairs in question.

    They are those of facts of the same weeks: with the whole bonus.
    """

    scene_assigned: float
    scene_taken: float
    """Pairs of one scene that reach ``scene_assign`` and ``scene_weak``."""
    other_assigned: float
    other_taken: float
    """The same of strangers."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Derived thresholds, what they do, and a sentence for each pair of classes that can't be separated."""

    thresholds: Thresholds
    figures: Figures
    warnings: tuple[str, ...]


def derive(pairs: Sequence[ScoredPair]) -> Calibration:
    """The thresholds of a sample; the same for the same pairs in any order.

    ``scene_weak`` and ``scene_assign`` are the lowest scores that at most WEAK_RATE and ASSIGN_RATE of strangers
    stated in the same weeks reach. ``scene_merge`` is how close the centres of two scenes of one topic are.

    Raises InvalidInput when ``scene`` or ``other`` has fewer than MIN_PAIRS usable pairs.
    """
    _check(pairs)
    routed = [pair for pair in pairs if not pair.gated]
    strangers = [pair.routing for pair in routed if pair.label is Label.OTHER]
    related = [pair.routing for pair in routed if pair.label is Label.SCENE]
    bonus = time_bonus(related, strangers)
    # Room above for assign and merge, however high strangers score.
    weak = min(reached_by(strangers, WEAK_RATE) + bonus, 1.0 - 2 * STEP)
    assign = min(max(reached_by(strangers, ASSIGN_RATE) + bonus, weak + STEP), 1.0 - STEP)
    merge = min(max(merge_cosine(related), assign + STEP), 1.0)
    thresholds = Thresholds(*(_round(value) for value in (assign, weak, merge, bonus)))
    figures = figures_at(pairs, thresholds)
    return Calibration(thresholds, figures, tuple(_warnings(figures)))


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


def merge_cosine(related: Sequence[float]) -> float:
    """The cosine of the centres of two scenes of MERGE_FACTS facts each that are of one topic.

    Unit vectors with pairwise cosine s have centres of squared length (1 + (n - 1) s) / n, and two such centres the
    dot product s: their cosine is n s / (1 + (n - 1) s). s is the median of one topic's pairs.
    """
    typical = max(0.0, median(related))
    return _round(MERGE_FACTS * typical / (1 + (MERGE_FACTS - 1) * typical))


def figures_at(pairs: Sequence[ScoredPair], at: Thresholds) -> Figures:
    """What thresholds do to a sample."""

    def taken(label: Label, threshold: float) -> float:
        scores = sorted(pair.routing + at.scene_time_bonus for pair in pairs if pair.label is label and not pair.gated)
        return _reaching(scores, threshold) / len(scores) if scores else 0.0

    return Figures(
        scene_assigned=taken(Label.SCENE, at.scene_assign),
        scene_taken=taken(Label.SCENE, at.scene_weak),
        other_assigned=taken(Label.OTHER, at.scene_assign),
        other_taken=taken(Label.OTHER, at.scene_weak),
    )


def _check(pairs: Sequence[ScoredPair]) -> None:
    if not all(math.isfinite(pair.routing) for pair in pairs):
        raise _unusable("The model gave a vector without direction: its cosines are not numbers.")
    usable = Counter(pair.label for pair in pairs if not pair.gated)
    missing = [f"{label} has {usable[label]}" for label in (Label.SCENE, Label.OTHER) if usable[label] < MIN_PAIRS]
    if missing:
        raise _unusable(f"A sample needs {MIN_PAIRS} usable pairs of scene and other: {', '.join(missing)}.")


def _unusable(sentence: str) -> InvalidInput:
    return InvalidInput(sentence, code="unusable_sample")


def _warnings(figures: Figures) -> Iterable[str]:
    above = figures.scene_taken - figures.other_taken
    if above < LOW_SCENES:
        yield f"Of pairs of one topic only {above:.0%} more join a scene than of strangers: scenes will say little."


def _grid() -> Iterable[float]:
    return (_round(number * STEP) for number in range(round(1 / STEP) + 1))


def _round(value: float) -> float:
    return round(round(value / STEP) * STEP, 3)


BUILT_IN_SAMPLE = "pairs.jsonl"
"""In the folder of this module: statements about seven invented people."""
MAX_PAIRS = 100_000

_Text = Annotated[str, Field(min_length=1, max_length=8_000)]
_NO_CELL = CellId(UUID(int=0))
_NO_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class LabelledPair(BaseModel):
    """One line of a sample; ``scene_a`` and ``scene_b`` are labels ``domain/detail``, empty when unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: Label
    a: _Text
    b: _Text
    scene_a: str = ""
    scene_b: str = ""


def built_in_sample() -> list[LabelledPair]:
    """The pairs that come with the package."""
    return parse_sample((files(__package__) / BUILT_IN_SAMPLE).read_text(encoding="utf-8"))


def parse_sample(text: str) -> list[LabelledPair]:
    """The pairs of JSON Lines; empty lines are passed over. Raises InvalidInput naming the first line at fault."""
    pairs: list[LabelledPair] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            pairs.append(LabelledPair.model_validate(json.loads(line)))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the line"
            raise _at_fault(number, f"{where}: {first['msg']}") from None
        except (json.JSONDecodeError, RecursionError):
            raise _at_fault(number, "it is no JSON object") from None
        if len(pairs) > MAX_PAIRS:
            raise InvalidInput(f"A sample has at most {MAX_PAIRS} pairs.", code="invalid_sample")
    return pairs


def _at_fault(number: int, what: str) -> InvalidInput:
    labels = ", ".join(Label)
    return InvalidInput(
        f'Line {number} of the sample is not {{"a": ..., "b": ..., "label": one of {labels}}}: {what}.',
        code="invalid_sample",
    )


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What a sample says about a model; ``in_force`` and ``artifact`` are settings to compare with."""

    model: str
    pairs: dict[Label, int]
    derived: Calibration
    in_force: Thresholds
    in_force_figures: Figures
    artifact: Thresholds
    artifact_figures: Figures


def calibrate(
    pairs: Sequence[LabelledPair], embedder: Embedder, settings: ReduceSettings, *, labelled: bool
) -> Calibrated:
    """Derive the thresholds of a model.

    ``labelled`` says whether facts get scene labels from a chat model, as the sample's have them; without one they
    have those of the offline extractor. Raises InvalidInput for a sample that is too small, and what embedding raises.
    """
    scored = score(pairs, embedder, labelled=labelled)
    in_force, artifact = thresholds_of(settings), thresholds_of(ReduceSettings())
    derived = derive(scored)
    return Calibrated(
        model=embedder.model,
        pairs=dict(Counter(pair.label for pair in pairs)),
        derived=derived,
        in_force=in_force,
        in_force_figures=figures_at(scored, in_force),
        artifact=artifact,
        artifact_figures=figures_at(scored, artifact),
    )


def score(pairs: Iterable[LabelledPair], embedder: Embedder, *, labelled: bool) -> list[ScoredPair]:
    """Cosines of what routing compares."""
    sides = [
        (pair, _candidate(pair.a, pair.scene_a, labelled), _candidate(pair.b, pair.scene_b, labelled)) for pair in pairs
    ]
    said = [side.statement for _, a, b in sides for side in (a, b)]
    texts = sorted({statement.routing_text for statement in said})
    vectors = dict(zip(texts, StatementEmbedder(embedder).embed(texts, parts_of(said)).vectors, strict=True))

    def cosine(one: str, other: str) -> float:
        return float(vectors[one] @ vectors[other])

    return [
        ScoredPair(
            label=pair.label,
            routing=cosine(a.statement.routing_text, b.statement.routing_text),
            gated=bool(a.statement.domain and b.statement.domain and a.statement.domain != b.statement.domain),
        )
        for pair, a, b in sides
    ]


def thresholds_of(settings: ReduceSettings) -> Thresholds:
    """The thresholds among the settings."""
    return Thresholds(**{each.name: getattr(settings, each.name) for each in fields(Thresholds)})


def _candidate(text: str, scene: str, labelled: bool) -> Candidate:
    """A statement as routing reads it."""
    statement = Statement(
        text=text,
        time=UNKNOWN_TIME,
        mentioned_at=_NO_TIME,
        speaker="",
        subject="",
        attribute="",
        value="",
        previous_value="",
        change=Change.NONE,
        polarity=Polarity.POSITIVE,
        modality=Modality.ASSERTED,
        entities=(),
        scene=scene if labelled else scene_of(text, ""),
        origin=Origin.USER,
        verbatim=False,
    )
    return Candidate(_NO_CELL, 0, (), "", statement)
