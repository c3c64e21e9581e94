"""The benchmark of packs measures what the product makes of a topic's texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.packing import SIZES, measured, said
from memforest_core.store.packs import LEAST_BYTES, MOST_BYTES

OWN = Path(__file__).parents[2] / "benchmarks" / "eval" / "data" / "own.json"


@pytest.mark.parametrize("size", SIZES)
def test_a_topic_is_packed_where_that_saves_something(size: int) -> None:
    turns = list(said([OWN])) * 6
    found = measured([(turn[0], place, turn[2]) for place, turn in enumerate(turns)], size)
    assert found["packs"] == (0 if size < LEAST_BYTES else 1 + size // (MOST_BYTES + 1_000))
    assert (float(str(found["saved"])) > 0.45) == (size >= LEAST_BYTES)
