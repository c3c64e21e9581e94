"""Labelled pairs of statements, from a file of the caller's or the one that comes with the package."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memforest_core.domain.calibrating import Label
from memforest_core.errors import InvalidInput

BUILT_IN_SAMPLE = "pairs.jsonl"
"""Under ``memforest_core/calibration``: statements about seven invented people, written for this purpose."""
MAX_PAIRS = 100_000

_Text = Annotated[str, Field(min_length=1, max_length=8_000)]


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
    return parse_sample((files("memforest_core") / "calibration" / BUILT_IN_SAMPLE).read_text(encoding="utf-8"))


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
