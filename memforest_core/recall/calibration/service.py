"""Scoring a labelled sample with the model in use, and what its thresholds do beside those in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from memforest_core.domain.calibrating import (
    PRECISION,
    Calibration,
    Figures,
    Label,
    ScoredPair,
    Thresholds,
    UnusableSample,
    derive,
    figures_at,
)
from memforest_core.domain.date_phrases import find_date_phrases
from memforest_core.domain.dates import resolve
from memforest_core.domain.facts import Candidate, Change, Modality, Origin, Polarity, Statement
from memforest_core.domain.ids import CellId
from memforest_core.domain.text import numbers
from memforest_core.domain.times import UNKNOWN_TIME, TimeSpan
from memforest_core.errors import InvalidInput
from memforest_core.extract.offline.scenes import scene_of
from memforest_core.extract.service import routing_text
from memforest_core.models.calls import Embedder
from memforest_core.recall.calibration.sample import LabelledPair
from memforest_core.settings import ReduceSettings

_NO_CELL = CellId(UUID(int=0))
_NO_TIME = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What a sample says about a model; ``in_force`` and ``artifact`` are settings to compare with."""

    model: str
    pairs: dict[Label, int]
    precision: float
    """The target."""
    derived: Calibration
    in_force: Thresholds
    in_force_figures: Figures
    artifact: Thresholds
    artifact_figures: Figures


def calibrate(
    pairs: Sequence[LabelledPair],
    embedder: Embedder,
    settings: ReduceSettings,
    *,
    labelled: bool,
    precision: float = PRECISION,
) -> Calibrated:
    """Derive the thresholds of a model.

    ``labelled`` says whether facts get scene labels from a chat model, as the sample's have them; without one they
    have those of the offline extractor. Raises InvalidInput for a sample that is too small, and what embedding raises.
    """
    scored = score(pairs, embedder, labelled=labelled)
    in_force, artifact = thresholds_of(settings), thresholds_of(ReduceSettings())
    try:
        derived = derive(scored, precision)
    except UnusableSample as error:
        raise InvalidInput(str(error), code="unusable_sample") from None
    return Calibrated(
        model=embedder.model,
        pairs=dict(Counter(pair.label for pair in pairs)),
        precision=precision,
        derived=derived,
        in_force=in_force,
        in_force_figures=figures_at(scored, in_force),
        artifact=artifact,
        artifact_figures=figures_at(scored, artifact),
    )


def score(pairs: Iterable[LabelledPair], embedder: Embedder, *, labelled: bool) -> list[ScoredPair]:
    """Cosines of the texts that the pipeline embeds: of each statement, and of its routing."""
    sides = [
        (pair, _candidate(pair.a, pair.scene_a, labelled), _candidate(pair.b, pair.scene_b, labelled)) for pair in pairs
    ]
    texts = sorted({text for _, a, b in sides for side in (a, b) for text in (side.statement.text, routing_text(side))})
    vectors = dict(zip(texts, embedder.embed(texts).vectors, strict=True))

    def cosine(one: str, other: str) -> float:
        return float(vectors[one] @ vectors[other])

    return [
        ScoredPair(
            label=pair.label,
            near=cosine(pair.a, pair.b),
            routing=cosine(routing_text(a), routing_text(b)),
            refused=_said(pair.a) != _said(pair.b),
            gated=_gated(a.statement, b.statement),
        )
        for pair, a, b in sides
    ]


def thresholds_of(settings: ReduceSettings) -> Thresholds:
    """The thresholds among the settings."""
    return Thresholds(
        near_duplicate=settings.near_duplicate,
        scene_assign=settings.scene_assign,
        scene_weak=settings.scene_weak,
        scene_merge=settings.scene_merge,
        scene_time_bonus=settings.scene_time_bonus,
    )


def _said(text: str) -> tuple[frozenset[str], frozenset[TimeSpan]]:
    """What a sentence alone tells of what canonicalization compares: its numbers and its times."""
    times = (resolve(phrase, _NO_TIME, "UTC") for phrase in find_date_phrases(text))
    return numbers(text), frozenset(time for time in times if time.known)


def _gated(one: Statement, other: Statement) -> bool:
    return bool(one.domain and other.domain and one.domain != other.domain)


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
