"""Peers: the model server tells each the same facts, in the shape that it asks for; one that is away says why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import systems
from benchmarks.peers.answers import UnknownPrompt, answer, stated
from benchmarks.peers.sessions import made
from tests.harness.model_answers import SUMMARY_CHARS

TALK = "user: My friend Nina adopted a parrot called Zobu.\nassistant: How lovely.\nuser: I moved to Oslo."
FACT = "6c5e59e1-bac3-4401-93dd-4efdc6eb7fd9"
OBSERVATION = "affcdfad-9475-4b67-a353-f4f545c48f38"


def asked(user: str, system: str = "You are helpful.") -> Any:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return json.loads(answer({"messages": messages}))


def mem0(talk: str) -> Any:
    user = f"## Existing Memories\n[]\n\n## New Messages\n{talk}\n\n\n## Observation Date\n2026-01-01\n\n# Output:"
    return asked(user, "\n# ROLE\n\nYou are a Memory Extractor \u2014 a precise processor")["memory"]


def retain(talk: str) -> Any:
    head = "Return valid json only.\n\nExtract facts from the following chunk.\n\nChunk: 1/1\nContext: none\n\n"
    return asked(f"{head}Content:\n{talk}")["facts"]


def consolidation(facts: str, observations: str) -> Any:
    return asked(f"## INPUT\n\n### New facts\n\n{facts}\n\n### Existing observations\n\n{observations}")


def test_mem0_and_hindsight_are_told_the_same_facts() -> None:
    texts = [item.text for item in stated(TALK)]
    assert any("Zobu" in text for text in texts)
    assert any("Oslo" in text for text in texts)
    assert [each["text"] for each in mem0(TALK)] == texts
    assert [each["what"] for each in retain(TALK)] == texts


def test_each_fact_has_the_fields_that_are_asked_for() -> None:
    assert [set(each) for each in mem0(TALK)] == [{"id", "text", "attributed_to"}] * len(mem0(TALK))
    assert [each["id"] for each in mem0(TALK)] == [str(number) for number in range(len(mem0(TALK)))]
    required = {"what", "when", "where", "who", "why", "fact_type"}
    assert all(required <= set(each) and each["fact_type"] == "world" for each in retain(TALK))


def test_a_talk_without_turns_states_nothing() -> None:
    assert mem0("") == []
    assert retain("A page of a book.") == []


def test_a_prompt_of_mem0_without_messages_is_an_error() -> None:
    with pytest.raises(UnknownPrompt):
        asked("## Latest Messages\nuser: hello", "You are a Memory Extractor")


def test_a_new_fact_becomes_an_observation() -> None:
    said = consolidation(f"[{FACT}] Nina has a parrot (born 2020) (mentioned_at=2023-11-22 22:13:20+00:00)", "[]")
    assert said["updates"] == said["deletes"] == []
    (made_of,) = said["creates"]
    assert (made_of["text"], made_of["source_fact_ids"]) == ("Nina has a parrot (born 2020)", [FACT])


def test_a_fact_that_is_observed_already_supports_that_observation() -> None:
    known = json.dumps([{"id": OBSERVATION, "text": "Nina has a parrot", "proof_count": 1}])
    said = consolidation(f"[{FACT}] Nina has a parrot", known)
    assert said["creates"] == []
    (update,) = said["updates"]
    assert (update["observation_id"], update["source_fact_ids"]) == (OBSERVATION, [FACT])


@pytest.mark.parametrize("existing, action", [("Nina has a parrot", "merge"), ("Nina has a cat", "keep")])
def test_only_equal_observations_are_merged(existing: str, action: str) -> None:
    user = f"You reconcile long-term memory observations.\n\n[NEW] Nina has a parrot\n[EXISTING] {existing}\n\nRespond"
    assert asked(user)["action"] == action


def test_any_other_prompt_gets_the_default_answer() -> None:
    body = {"messages": [{"role": "user", "content": "Say 'ok'. " * 40}]}
    assert answer(body) == ("Say 'ok'. " * 40)[:SUMMARY_CHARS]


def test_each_session_has_a_detail_that_no_other_one_has() -> None:
    sessions = made(25, 20, seed=7)
    assert sessions == made(25, 20, seed=7)
    texts = {each.session_id: " ".join(str(turn["content"]) for turn in each.turns) for each in sessions}
    assert len(texts) == 25
    for session in sessions:
        assert [id_ for id_, text in texts.items() if session.detail in text] == [session.session_id]
        assert len(session.turns) == 20
        assert session.turns[0]["role"] == "user"


def test_a_peer_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(systems, "ENVIRONMENTS", tmp_path)
    (tmp_path / "mem0" / "bin").mkdir(parents=True)
    with pytest.raises(systems.PeerAway, match="mem0 is not installed"):
        systems.environment_of("mem0")
    (tmp_path / "mem0" / ".installed").touch()
    assert systems.environment_of("mem0") == tmp_path / "mem0" / "bin"


def test_a_child_that_ends_says_why(tmp_path: Path) -> None:
    child = systems.ChildSystem(sys.executable, "benchmarks.peers.no_such_child", [], tmp_path / "log")
    with pytest.raises(systems.PeerAway, match="No module named"):
        child.start()
