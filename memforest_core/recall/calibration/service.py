"""A labelled sample scored with the model in use, and what its thresholds do, compared with those in force."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib.resources import files
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memforest_core.domain.calibrating import (
    Calibration,
    Figures,
    Label,
    ScoredPair,
    Thresholds,
    UnusableSample,
    derive,
    figures_at,
)
from memforest_core.domain.facts import Candidate, Change, Modality, Origin, Polarity, Statement
from memforest_core.domain.ids import CellId
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.errors import InvalidInput
from memforest_core.ingest.extract.offline.scene_labels import scene_of
from memforest_core.models.calls import Embedder
from memforest_core.models.statement_vectors import StatementEmbedder, parts_of
from memforest_core.settings import ReduceSettings

BUILT_IN_SAMPLE = "pairs.jsonl"
"""Under ``memforest_core/recall/calibration/data``: statements about seven invented people."""
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
    return parse_sample((files(__package__) / "data" / BUILT_IN_SAMPLE).read_text(encoding="utf-8"))


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
    pairs: Sequence[LabelledPair],
    embedder: Embedder,
    settings: ReduceSettings,
    *,
    labelled: bool,
) -> Calibrated:
    """Derive the thresholds of a model.

    ``labelled`` says whether facts get scene labels from a chat model, as the sample's have them; without one they
    have those of the offline extractor. Raises InvalidInput for a sample that is too small, and what embedding raises.
    """
    scored = score(pairs, embedder, labelled=labelled)
    in_force, artifact = thresholds_of(settings), thresholds_of(ReduceSettings())
    try:
        derived = derive(scored)
    except UnusableSample as error:
        raise InvalidInput(str(error), code="unusable_sample") from None
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
