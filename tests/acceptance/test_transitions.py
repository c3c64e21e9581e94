"""Questions about what came before, after, between, first and last find their evidence, on an embedded node."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.transitions import ask, people, store
from memforest_core.api import MemForest


def test_every_transition_question_has_its_evidence_within_the_first_five(tmp_path: Path) -> None:
    with MemForest.embedded(tmp_path / "node") as memory:
        store(memory, people())
        asked = list(ask(memory, people(), "embedding"))
    topics = Counter(one.topic for one in asked)
    assert len(asked) >= 60
    assert set(topics) == {"residence", "job", "pet", "weight", "project"}
    assert [one.question for one in asked if not one.found] == []
