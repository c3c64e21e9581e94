"""What an assistant named, decided or planned is in summaries of sessions, days and the life, said to be the
assistant's; it is no state of a person, and it goes with its turns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memforest_core.models.calls import Embedder
from tests.harness.model_answers import default_answer, last_user_text, wants_extraction
from tests.harness.model_server import ModelServer
from tests.harness.searching import in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

START = 1_714_000_000
CHAT = (
    ("user", "We need a secret name for the new loom project."),
    ("assistant", "Great question! I name the project Quibovix, and I live in the cloud, so nobody will guess it."),
    ("user", "Good. When do we start?"),
    ("assistant", "We start on 4 May with the zorblatt frame, then the warp. Is there anything else?"),
    ("user", "No, that is all for today."),
    ("assistant", "You're welcome! How can I help you further?"),
)
HELD, FILLER = ("Quibovix", "4 May", "zorblatt"), ("Great question", "welcome", "How can I", "anything else")


def silent(body: Mapping[str, Any]) -> str:
    """A model that writes of people alone."""
    if wants_extraction(body):
        return default_answer(body)
    document = json.loads(last_user_text(body)) if last_user_text(body).startswith("{") else {}
    if "speakers" in document:
        return json.dumps({"digests": [{"number": each["number"], "text": "-"} for each in document["speakers"]]})
    if "then" in document:
        return json.dumps({"summary": "\n".join(each["text"] for each in document["then"])})
    return "People said something."


@pytest.fixture(params=["offline", "model"])
def bob(request: pytest.FixtureRequest, servers: SessionServers, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    with ModelServer(answer=silent) as server:
        one = {"model": "openai/test-model", "timeout_s": 5.0, "api_key": "key-1", "api_base": server.url}
        llm = one if request.param == "model" else {}
        with stack(servers, tmp_path, embedder=embedder, llm=llm) as running:
            turns = [
                {"id": f"t{at}", "role": role, "content": text, "timestamp": START + at}
                for at, (role, text) in enumerate(CHAT)
            ]
            running.memory.enqueue("bob", "s", turns, display_name="Bob")  # type: ignore[arg-type]
            running.drive()
            yield running


def texts_of(running: Stack) -> dict[str, str]:
    roots = (
        "SELECT s.text FROM memforest.tree r JOIN memforest.node_summary s ON s.node_id = r.root_id"
        " WHERE r.kind = 'session'"
    )
    day = running.memory.days("bob").items[0].day
    return {
        "session": "\n".join(str(row[0]) for row in running.rows(roots)),
        "day": running.memory.day("bob", day).text,
        "life": running.memory.period("bob", "life").text,
        "own day": running.memory.day("bob", day, speaker="bob").text,
    }


def test_summaries_have_both_sides_until_the_turns_are_deleted(bob: Stack) -> None:
    for name, text in texts_of(bob).items():
        assert "assistant: " in text and not [filler for filler in FILLER if filler in text], (name, text)
        assert [word for word in HELD if word in text] == list(HELD) or name == "own day", (name, text)
    assert [state.text for state in bob.memory.profile("bob", write=False).states] == []

    bob.memory.lifecycle.forget("bob", session="s", turns=["t1", "t3"], actor="test")
    bob.drive()

    assert not [word for text in texts_of(bob).values() for word in HELD if word in text]
    assert in_tables(bob, ["quibovix", "zorblatt"]) == {}
