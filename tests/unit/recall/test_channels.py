"""Recall bounded to channels: a session without a channel is in none, and nothing of other channels is shown."""

from __future__ import annotations

import pytest

from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.ids import NodeId, PayloadId, TreeKind
from memforest_core.index.vector_index import PointKind
from memforest_core.recall import retrieve
from memforest_core.recall.service import RecallService
from memforest_core.settings import RecallSettings
from tests.unit.recall.memory import TENANT, Forest, OneVector, ScriptedIndex, named


@pytest.fixture
def forest() -> Forest:
    """Bob talks of his homes: in two channels, and once in none; one entity's tree contains all three."""
    made = Forest()
    facts = []
    for day, (name, channel) in enumerate((("a", "work"), ("b", "home"), ("c", None))):
        made.session(name, ("Bob", f"I live in town {name}."), days=day, channel=channel)
        facts.append(PayloadId(made.fact(f"Bob lives in town {name}.", name, 0)))
    made.entities["bob"] = made.tree("Bob", TreeKind.ENTITY, facts)
    made.summaries_by_node = {NodeId(named("Bob#root")): "All towns.", NodeId(named("a#root")): "Town a."}
    return made


def recalled(forest: Forest, **options: object) -> RecallResult:
    index = ScriptedIndex()
    index.points = {named(f"{name}/0"): (PointKind.CELL, 1.0, 0.5) for name in "abc"}
    index.points |= {fact: (PointKind.FACT, 1.0, 0.5) for fact in forest.fact_rows}
    service = RecallService(forest, index, OneVector(), RecallSettings())
    return service.recall(TENANT, "alice", "Where does Bob live?", **options)  # type: ignore[arg-type]


def sessions(found: RecallResult) -> set[str]:
    return {piece.session_id for piece in found.evidence}


def test_nothing_of_other_channels_is_shown(forest: Forest) -> None:
    """Given an entity's tree through all channels, when one is requested, then no neighbour and no summary is of the
    others."""
    near = recalled(forest, neighbours=2)
    assert any(piece.predecessors or piece.successors for piece in near.evidence)
    assert "All towns." in {node.summary for piece in near.evidence for node in piece.path}

    [piece] = recalled(forest, neighbours=2, channels=["work"]).evidence

    assert (piece.predecessors, piece.successors) == ((), ())
    assert {node.summary for node in piece.path} == {"Town a.", ""}


def test_channels_with_very_many_sessions_are_looked_for_among_what_was_found(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieve, "MAX_SESSIONS", 1)
    found = recalled(forest, channels=["work", "home"])
    assert sessions(found) == {"a", "b"}
    assert found.degraded == (retrieve.MANY_SESSIONS,)
