"""Recall's options over the real pipeline: time, order, place, families of trees, and budgets."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from memforest_core.domain.evidence import Mode, RecallResult
from memforest_core.errors import InvalidInput
from tests.harness.sayings import said
from tests.harness.stack import Stack

SAID = {
    "spring": (
        ("2023-04-03T10:00:00Z", "Ann", "I live in Leeds and work as a librarian."),
        ("2023-04-03T10:01:00Z", "Tom", "The library there is huge."),
        ("2023-04-03T10:02:00Z", "Ann", "My dog Pepper waits at the door."),
        ("2023-04-03T10:03:00Z", "Tom", "Good dog."),
    ),
    "summer": (
        ("2023-07-10T10:00:00Z", "Ann", "I moved to Bristol and became a tour guide."),
        ("2023-07-10T10:01:00Z", "Tom", "By the harbour?"),
        ("2023-07-10T10:02:00Z", "Ann", "Yes, Pepper loves the boats."),
        ("2023-07-10T10:03:00Z", "Tom", "Lovely."),
    ),
    "winter": (
        ("2023-12-04T10:00:00Z", "Ann", "I live in Cardiff now and work at the museum."),
        ("2023-12-04T10:01:00Z", "Tom", "Which museum is it?"),
        ("2023-12-04T10:02:00Z", "Ann", "The one with the ships."),
        ("2023-12-04T10:03:00Z", "Tom", "I know it."),
    ),
}


@pytest.fixture
def ann(pipeline: Stack) -> Stack:
    """Three sessions of two people, wholly processed."""
    for session, lines in SAID.items():
        turns = [
            {
                "id": f"{session}-{n}",
                "role": "user" if name == "Ann" else "assistant",
                "name": name,
                "content": text,
                "timestamp": when,
                "metadata": {"channel": "phone" if session == "summer" else "mail"},
            }
            for n, (when, name, text) in enumerate(lines)
        ]
        pipeline.memory.ingest("ann", session, turns)
    pipeline.drive()
    return pipeline


def sessions(result: RecallResult) -> set[str]:
    return {piece.session_id for piece in result.evidence}


HOME = "Where does Ann live?"


def test_as_of_knows_nothing_later(ann: Stack) -> None:
    result = ann.memory.recall("ann", HOME, k=50, as_of="2023-08-01", neighbours=2)
    assert sessions(result) == {"spring", "summer"}
    for piece in result.evidence:
        for near in (*piece.predecessors, *piece.successors):
            assert near.session_id != "winter"
        assert not any("Cardiff" in node.summary for node in piece.path)


def test_ranges_filter_and_time_words_lift(ann: Stack) -> None:
    memory = ann.memory
    assert sessions(memory.recall("ann", HOME, k=50, since="2023-07-01", until="2023-08-01")) == {"summer"}
    assert sessions(memory.recall("ann", HOME, k=50, between=("2023-07-01", "2023-08-01"))) == {"summer"}
    result = memory.recall("ann", "What did Ann say in July?", k=50)
    lifted = {piece.session_id for piece in result.evidence if piece.signals.get("time")}
    assert lifted == {"summer"}
    assert result.about.start == datetime(2023, 7, 1, tzinfo=UTC)
    assert sessions(result) > {"summer"}


@pytest.mark.parametrize(
    ("question", "turn"),
    [
        ("Where did Ann live before Bristol?", "spring-0"),
        ("Where did Ann move after Leeds?", "summer-0"),
        ("Where does Ann live now?", "winter-0"),
        ("What was Ann's first job?", "spring-0"),
    ],
)
def test_the_order_of_time_answers(ann: Stack, question: str, turn: str) -> None:
    best = ann.memory.recall("ann", question, k=2).evidence
    assert turn in {id_ for piece in best for id_ in piece.turn_ids}


def test_where_to_look(ann: Stack) -> None:
    memory = ann.memory
    assert sessions(memory.recall("ann", HOME, k=50, sessions=["spring", "winter"])) == {"spring", "winter"}
    assert {p.speaker for p in memory.recall("ann", HOME, k=50, speakers=["tom"]).evidence} == {"Tom"}
    assert {p.speaker for p in memory.recall("ann", HOME, k=50, roles=["user"]).evidence} == {"Ann"}
    assert sessions(memory.recall("ann", HOME, k=50, metadata={"channel": "phone"})) == {"summer"}
    assert memory.recall("ann", HOME, metadata={"channel": "fax"}).evidence == ()


def test_families_of_trees_and_budgets(ann: Stack) -> None:
    memory = ann.memory
    signals = {name for piece in memory.recall("ann", HOME, trees=["session"]).evidence for name in piece.signals}
    assert "session" in signals
    assert "topic" not in signals
    signals = {name for piece in memory.recall("ann", HOME, trees=["entity"]).evidence for name in piece.signals}
    assert not signals & {"session"}
    assert len(memory.recall("ann", HOME, max_tokens=40).text()) <= 160
    assert memory.recall("ann", HOME, mode="auto", budget_ms=10).mode is Mode.FLAT


def test_the_same_through_the_async_facade(ann: Stack) -> None:
    import asyncio

    from memforest_core.client.async_memory import AsyncMemForest

    result = asyncio.run(AsyncMemForest(ann.memory).recall("ann", HOME, k=50, as_of="2023-05-01"))
    assert sessions(result) == {"spring"}


def test_sessions_can_be_left_out_with_their_neighbours(ann: Stack) -> None:
    result = ann.memory.recall("ann", HOME, k=50, exclude_sessions=["winter", "unknown"], neighbours=3)

    assert sessions(result) == {"spring", "summer"}
    near = {other.session_id for piece in result.evidence for other in (*piece.predecessors, *piece.successors)}
    assert near <= {"spring", "summer"}


def test_evidence_that_scores_too_little_is_left_out(ann: Stack) -> None:
    everything = ann.memory.recall("ann", HOME, k=50).evidence
    least = everything[2].score

    found = ann.memory.recall("ann", HOME, k=50, min_score=least).evidence

    assert [piece.text for piece in found] == [piece.text for piece in everything if piece.score >= least]
    assert 3 <= len(found) < len(everything)
    assert ann.memory.recall("ann", HOME, min_score=1e9).evidence == ()


def test_results_are_dictionaries_of_json_values(ann: Stack) -> None:
    memory = ann.memory
    result = memory.recall("ann", HOME, neighbours=1).to_dict()
    timeline = memory.timeline("ann", attribute="residence").to_dict()
    status = memory.status("ann", "spring").to_dict()

    assert json.loads(json.dumps([result, timeline, status])) == [result, timeline, status]
    assert result.keys() == {field.name for field in fields(RecallResult)}
    assert result["evidence"][0]["turn_ids"] and result["evidence"][0]["path"][0]["tree_kind"] == "session"
    assert timeline["states"][0]["subject"] == "Ann"
    assert (status["stage"], status["ready"], status["coverage"]) == ("summaries", True, 1.0)


def test_the_metadata_of_a_session_is_that_of_its_turns(pipeline: Stack) -> None:
    """Given two sessions with metadata, then a condition finds the turns of the one that fulfils it; a turn's own value
    counts before its session's; given again, a session's metadata are replaced."""
    memory = pipeline.memory
    client = memory.client
    first = said("I live in Davis.", "I moved to Boston.")
    first[1]["metadata"] = {"channel": "mail"}
    client.enqueue("ann", "a", first, metadata={"channel": "phone", "team": 7})
    client.append("ann", "b", said("I moved to Miami.")[0], metadata={"channel": "fax"}, close=True)
    pipeline.drive()

    def found(**metadata: Any) -> set[str]:
        parts = memory.recall("ann", "Where does Ann live?", k=50, metadata=metadata).evidence
        return {piece.text.split()[-1].strip(".") for piece in parts}

    assert found(channel="phone") == {"Davis"}
    assert found(channel="mail") == {"Boston"}
    assert found(team=7) == {"Davis", "Boston"}
    [piece] = memory.recall("ann", "Where does Ann live?", k=50, metadata={"channel": "mail"}).evidence
    assert (piece.metadata, piece.session_metadata) == ({"channel": "mail"}, {"channel": "phone", "team": 7})
    assert found(channel="fax") == {"Miami"}
    assert found(team={"$gt": 6, "$lte": 7}) == {"Davis", "Boston"}
    assert found(**{"$or": [{"channel": {"$in": ["fax"]}}, {"$not": {"team": {"$exists": True}}}]}) == {"Miami"}
    client.enqueue("ann", "a", first, metadata={"channel": "post"})
    assert found(channel="post") == {"Davis"}
    assert found(team=7) == set()
    with pytest.raises(InvalidInput, match="The session: metadata must"):
        client.enqueue("ann", "a", first, metadata={"x": object()})


def test_recency_counts_from_the_time_of_the_question(ann: Stack) -> None:
    """Given the signal switched on, then a piece of three days before the question has more of it than one of eight
    months before, and nothing said later counts more; switched off, no score has it."""
    service = ann.services.recall
    assert all("recency" not in item.signals for item in service.recall(ann.tenant, "ann", "Where is Pepper?").evidence)
    given = {"weights": service.settings.weights | {"recency": 0.5}, "half_life_days": 30.0}
    aging = replace(service, settings=service.settings.model_copy(update=given))
    found = aging.recall(ann.tenant, "ann", "Where does Ann live?", k=12, asked_at="2023-12-07T10:00:00Z").evidence
    part = {item.turn_ids[0]: item.signals["recency"] / (item.score - item.signals["recency"]) for item in found}
    assert part["winter-0"] == pytest.approx(0.5 * 0.5 ** (3 / 30), rel=0.01)
    assert part["spring-0"] == pytest.approx(0.5 * 0.5 ** (248 / 30), rel=0.01)
    earlier = aging.recall(ann.tenant, "ann", "Where does Ann live?", k=12, asked_at="2023-04-03T10:00:00Z").evidence
    assert {item.turn_ids[0]: item.signals["recency"] / item.score for item in earlier}["winter-0"] == pytest.approx(
        1 / 3
    )
