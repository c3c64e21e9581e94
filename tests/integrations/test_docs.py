"""The programs of docs/frameworks.md and docs/coming-from.md are run as they stand there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import litellm
import pytest
from ag2.testing import TestConfig
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from llama_index.core.llms import MockLLM
from pydantic_ai.models.test import TestModel

from memforest_core import AsyncMemForest, RemoteMemForest
from memforest_core.ingest.formats.file_items import Converted
from memforest_core.service.integrations.conversation import Conversation
from tests.harness.exports import read_file
from tests.harness.model_server import ModelServer
from tests.harness.timing import until
from tests.integrations.conftest import Node
from tests.integrations.test_adapters import AdkModel, AutoGenModel, ClaudeModel, HaystackModel
from tests.integrations.test_openai_agents import Scripted, calls, says

CLAUDE = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
DOCS = Path(__file__).parents[2] / "docs"


def programs(page: str) -> list[str]:
    """The Python programs of a page."""
    parts = (DOCS / page).read_text(encoding="utf-8").split("```python\n")[1:]
    return [part.partition("```")[0] for part in parts]


def run(code: str, scope: dict[str, Any]) -> None:
    exec(compile(code, "docs", "exec"), scope)


def tenant_of_its_own(node: Node) -> tuple[str, RemoteMemForest]:
    """The page's alice is nobody else's."""
    key = node.key(tenant=f"docs-{uuid4()}")
    return key, RemoteMemForest(node.address, key)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Where litellm's calls go; it hides nothing from callbacks."""
    with ModelServer(answer=lambda body: "In Bergen.") as server:
        own = {"api_base": server.url, "api_key": "k", "turn_off_message_logging": False, "callbacks": []}
        for name, value in own.items():
            monkeypatch.setattr(litellm, name, value)
        yield server


def test_the_page_of_frameworks(node: Node, answers: ModelServer) -> None:
    _, memory = tenant_of_its_own(node)
    memory.enqueue("alice", "before", [{"role": "user", "content": "My sister Ana lives in Bergen."}], wait="facts")
    scope: dict[str, Any] = {
        "memory": memory,
        "model": GenericFakeChatModel(messages=iter([AIMessage("In Lisbon.")])),
        "llm": MockLLM(),
        "agent_model": Scripted(calls("recall", '{"question": "Where does Ana live?"}'), says("In Bergen.")),
        "pydantic_model": TestModel(call_tools=["recall"]),
        "autogen_model": AutoGenModel(),
        "ag2_config": TestConfig("In Bergen."),
        "adk_model": AdkModel(model="x", shown=[]),
        "generator": HaystackModel(),
    }
    for code in programs("frameworks.md"):
        if "crewai" not in code:  # test_crewai.py runs that
            run(code, scope)

    # The embedded node's own tenant, for the programs that are coroutines.
    async def talk() -> tuple[Any, Any]:
        async_memory = AsyncMemForest(node.memory.for_tenant(memory.tenant), threads=2)
        for name in ("autogen", "ag2", "adk"):
            await scope[name](async_memory)
        with ClaudeModel() as claude_model:
            scope["options"] = claude_model.options(CLAUDE)
            await scope["claude"](async_memory)
        return await scope["talk"](async_memory), await scope["ask"](async_memory)

    talked, requested = asyncio.run(talk())

    assert scope["graph"].store.get(("profile",), "home").value == {"text": "I live in Lisbon."}
    assert [message.content for message in scope["history"].messages][1] == "That is far north."
    assert memory.turns("alice", "chat-2").items[0].content == "Where does Ana live?"
    for session in ("chat-4", "chat-5", "chat-6", "chat-7", CLAUDE):
        assert [turn.role for turn in memory.turns("alice", session).items] == ["user", "assistant"], session
    assert talked.final_output == "In Bergen."
    assert "recall" in requested.output
    exchange = [("user", "Where does Ana live?"), ("assistant", "In Bergen.")]
    for session in ("calls-1", "calls-2"):
        stored = Conversation(memory, "alice", session, "docs")
        until(lambda stored=stored: [(each.role, each.content) for each in stored.turns()] == exchange)
    assert "Bergen" in str(answers.requests[0].body["messages"][0])
    memory.close()


def test_the_page_of_who_comes_from_elsewhere(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mem0's client against the server; the rows of the other two, whose services are replaced by objects, are read."""
    key, memory = tenant_of_its_own(node)
    said = {
        "uuid_": "m1",
        "role": "user",
        "content": "I live in Oslo.",
        "name": "Alice",
        "reference_time": "2026-01-02T03:04:05Z",
    }
    thread = SimpleNamespace(
        list=lambda: [SimpleNamespace(uuid_="t1")], list_messages=lambda uuid: [SimpleNamespace(**said)]
    )
    units = [
        SimpleNamespace(id="u1", text="Alice plays tennis.", source_memory_ids=[], document_id=None, mentioned_at=None),
        SimpleNamespace(
            id="u2", text="Alice is sporty.", source_memory_ids=["u1"], document_id=None, mentioned_at=None
        ),
    ]
    hindsight = SimpleNamespace(
        list_memories=lambda bank, limit, offset: SimpleNamespace(items=units if offset == 0 else [])
    )
    scope: dict[str, Any] = {
        "key": key,
        "address": node.address,
        "zep": SimpleNamespace(thread=thread),
        "hindsight": hindsight,
    }
    monkeypatch.chdir(tmp_path)
    for code in programs("coming-from.md"):
        run(code, scope)

    assert "Lisbon" in str(scope["client"].get_all(filters={"user_id": "alice"}))
    rows = {name: _converted(tmp_path / f"{name}.jsonl", "history") for name in ("zep", "hindsight")}
    (zep,), (sport,) = rows["zep"], rows["hindsight"]
    assert (zep.owner, zep.session_id, zep.turns[0]["id"], zep.turns[0]["name"]) == ("alice", "t1", "m1", "Alice")
    assert (sport.session_id, [turn["content"] for turn in sport.turns]) == ("hindsight", ["Alice plays tennis."])
    for session in (zep, sport):
        memory.enqueue(session.owner, session.session_id, session.turns, wait="facts")
    exported = tmp_path / "mem0.json"
    exported.write_text(json.dumps(scope["client"].get_all(filters={"user_id": "alice"}, page_size=1000)))
    brought = _converted(exported, "mem0")
    assert {session.owner for session in brought} == {"alice"}
    assert "Lisbon" in str([session.turns for session in brought])
    memory.close()


def _converted(path: Path, format_: str) -> list[Converted]:
    found = read_file(path.read_bytes(), format_, owner="alice")
    assert all(isinstance(each, Converted) for each in found), found
    return found  # type: ignore[return-value]
