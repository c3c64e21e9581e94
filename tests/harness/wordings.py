"""Pairs of sentences by family: those that differ in what they say, and those that differ only in how they say it."""

from __future__ import annotations

import json
from pathlib import Path

Pairs = dict[str, list[tuple[str, str]]]

_STORED: dict[str, Pairs] = json.loads((Path(__file__).parents[1] / "data/wordings.json").read_text(encoding="utf-8"))
DIFFERENT, SAME = (
    {family: [(one, other) for one, other in pairs] for family, pairs in _STORED[name].items()}
    for name in ("different", "same")
)
"""No two of the first are one fact; each two of the second are."""
