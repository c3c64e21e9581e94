"""An owner whose id is no name: what it is called is said in facts, found by questions, and travels with the memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.stack import Stack

OWNER = "0f8b-77"
WIFE = {"role": "user", "content": "My wife is called Ingrid.", "timestamp": 1_700_000_000}
HOME = {"role": "user", "content": "I moved to Bergen in May 2021.", "timestamp": 1_700_000_060}
NAMES = "SELECT owner, display_name FROM memforest.forest WHERE state = 'live' ORDER BY owner"
FACTS = "SELECT text FROM memforest.fact ORDER BY text"


def texts(pipeline: Stack) -> str:
    return "\n".join(row[0] for row in pipeline.rows(FACTS))


def test_facts_and_turns_are_under_the_name(pipeline: Stack) -> None:
    pipeline.memory.ingest(OWNER, "s1", [WIFE, HOME], display_name="Eva")
    pipeline.drive()

    assert pipeline.rows(NAMES) == [(OWNER, "Eva")]
    assert "Eva moved to Bergen" in texts(pipeline)
    assert OWNER not in texts(pipeline)
    best = pipeline.memory.recall(OWNER, "Where does Eva live?").evidence[0]
    assert (best.speaker, best.text) == ("Eva", "Eva: I moved to Bergen in May 2021.")
    states = pipeline.memory.timeline(OWNER, attribute="residence").states
    assert [(state.subject, state.value) for state in states] == [("Eva", "Bergen")]
    assert pipeline.memory.timeline(OWNER, entity="Eva", attribute="residence").states == states


def test_the_name_stays_until_another_is_given_and_a_session_sent_again_is_the_same(pipeline: Stack) -> None:
    client = pipeline.memory.client
    client.append(OWNER, "s1", WIFE, display_name="Eva")
    client.append(OWNER, "s1", HOME)
    assert pipeline.rows("SELECT DISTINCT speaker_id, name FROM memforest.turn") == [(OWNER, "Eva")]

    repeated = client.enqueue(OWNER, "s1", [WIFE, HOME], display_name="Evi")

    assert repeated.accepted.new_turns == 0
    assert pipeline.rows(NAMES) == [(OWNER, "Evi")]
    assert pipeline.rows("SELECT name FROM memforest.speaker ORDER BY name") == [("Eva",), ("Evi",)]


def test_a_name_given_before_extraction_is_said_of_older_turns_too(pipeline: Stack) -> None:
    """Given a session from before the owner had a name, when it is extracted afterwards, then its facts say the name."""
    pipeline.memory.ingest(OWNER, "s1", [WIFE, HOME])
    pipeline.memory.ingest(OWNER, "s2", [HOME | {"content": "I adopted a cat named Miso."}], display_name="Eva")
    pipeline.drive()

    assert "Eva moved to Bergen" in texts(pipeline)
    assert OWNER not in texts(pipeline)


def test_the_name_travels_in_bundles_and_survives_a_rebuild(pipeline: Stack, tmp_path: Path) -> None:
    pipeline.memory.ingest(OWNER, "s1", [WIFE, HOME], display_name="Eva")
    pipeline.drive()
    bundles, path = pipeline.services.lifecycle.bundles, tmp_path / "eva.memforest"

    bundles.export(pipeline.tenant, OWNER, path, actor="tests")
    bundles.import_(pipeline.tenant, path, owner="copy", actor="tests")
    pipeline.memory.lifecycle.rematerialize(OWNER, rules={"session_k": 4}, actor="tests")
    pipeline.drive()

    assert pipeline.rows(NAMES) == [(OWNER, "Eva"), ("copy", "Eva")]


@pytest.mark.parametrize(
    ("own", "found"), [("Evi", "Evi"), (None, "Eva")], ids=["the target's own stays", "one without takes it"]
)
def test_the_name_travels_in_a_merge(pipeline: Stack, own: str | None, found: str) -> None:
    pipeline.memory.ingest(OWNER, "s1", [WIFE, HOME], display_name="Eva")
    pipeline.memory.ingest("target", "s2", [WIFE], display_name=own)
    pipeline.drive()

    pipeline.memory.lifecycle.merge([OWNER], "target", actor="tests")
    pipeline.drive()

    assert pipeline.rows(NAMES) == [("target", found)]


def test_nothing_of_the_name_is_left_of_a_forgotten_owner(pipeline: Stack) -> None:
    pipeline.memory.ingest(OWNER, "s1", [WIFE, HOME], display_name="Evangelina")
    pipeline.drive()

    pipeline.memory.lifecycle.forget(OWNER, everything=True, actor="tests")
    pipeline.drive()

    assert pipeline.rows("SELECT count(*) FROM memforest.forest WHERE display_name IS NOT NULL") == [(0,)]
    assert pipeline.rows("SELECT count(*) FROM memforest.speaker") == [(0,)]
