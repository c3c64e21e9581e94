"""A conversation stored by one client or framework is recalled by all the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from agents import Agent, Runner
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mem0 import MemoryClient

from memforest_core import AsyncRemoteMemForest, RemoteMemForest
from memforest_core.service.integrations.langchain import MemForestChatMessageHistory, MemForestRetriever
from memforest_core.service.integrations.langgraph import MemForestStore
from memforest_core.service.integrations.llamaindex import MemForestMemory
from memforest_core.service.integrations.openai_agents import MemForestSession, memforest_tools
from memforest_core.service.integrations.pydantic_ai import MemForestToolset
from tests.integrations.conftest import Node
from tests.integrations.test_openai_agents import Scripted, calls, says
from tests.integrations.test_pydantic_ai import called

OWNER = "everybody"
PEOPLE = {
    "plain": ("Ana", "Bergen"),
    "mcp": ("Bo", "Oslo"),
    "mem0": ("Carla", "Porto"),
    "langgraph": ("Dario", "Turin"),
    "langchain": ("Edda", "Reykjavik"),
    "llamaindex": ("Fritz", "Graz"),
    "openai": ("Gwen", "Cardiff"),
    "pydantic": ("Hana", "Prague"),
}
"""Whom each one's conversation is about, and where they live."""


@dataclass(frozen=True)
class Party:
    """How one stores what a user said, and what it finds for a question."""

    store: Callable[[str], object]
    recall: Callable[[str], str]


def over_mcp(node: Node, key: str, tool: str, **arguments: str) -> str:
    async def run() -> str:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http,
            Client(streamable_http_client(f"{node.address}/mcp", http_client=http)) as client,
        ):
            result = await client.call_tool(tool, {**arguments, "owner": OWNER})
            return "\n".join(part.text for part in result.content)  # type: ignore[union-attr]

    return asyncio.run(run())


@pytest.fixture(scope="module")
def parties(node: Node) -> Iterator[dict[str, Party]]:
    key = node.key()

    def connected() -> AsyncRemoteMemForest:
        return AsyncRemoteMemForest(node.address, key)

    def openai_stores(text: str) -> None:
        async def run() -> None:
            session = MemForestSession(connected(), OWNER, "openai")
            await Runner.run(Agent(name="a", model=Scripted(says("I see."))), text, session=session)

        asyncio.run(run())

    def openai_recalls(question: str) -> str:
        async def run() -> str:
            model = Scripted(calls("recall", json.dumps({"question": question})), says("Done."))
            await Runner.run(Agent(name="a", model=model, tools=memforest_tools(connected(), OWNER)), "Recall.")
            return str(model.requested[1][-1])

        return asyncio.run(run())

    def toolset() -> MemForestToolset:
        return MemForestToolset(connected(), OWNER)

    with RemoteMemForest(node.address, key) as memory:
        client = MemoryClient(api_key=key, host=node.address)
        store = MemForestStore(memory, OWNER)
        history = MemForestChatMessageHistory(memory, OWNER, "langchain")
        retriever = MemForestRetriever(memory=memory, owner=OWNER)
        chat = MemForestMemory(memory=memory, owner=OWNER, session_id="llamaindex")
        querying = MemForestMemory(memory=memory, owner=OWNER, session_id="asking")
        yield {
            "plain": Party(
                lambda text: memory.enqueue(OWNER, "plain", [{"role": "user", "content": text}]),
                lambda question: memory.recall(OWNER, question).text(),
            ),
            "mcp": Party(
                lambda text: over_mcp(node, key, "remember", text=text),
                lambda question: over_mcp(node, key, "recall", question=question),
            ),
            "mem0": Party(
                lambda text: client.add(text, user_id=OWNER),
                lambda question: str(client.search(question, filters={"user_id": OWNER})),
            ),
            "langgraph": Party(
                lambda text: store.put(("memories",), "friend", {"text": text}),
                lambda question: str(store.search((), query=question)),
            ),
            "langchain": Party(
                lambda text: history.add_messages([HumanMessage(text), AIMessage("I see.")]),
                lambda question: str(retriever.invoke(question)),
            ),
            "llamaindex": Party(
                lambda text: chat.put_messages([ChatMessage(text), ChatMessage("I see.", role="assistant")]),
                lambda question: str(querying.get(question)),
            ),
            "openai": Party(openai_stores, openai_recalls),
            "pydantic": Party(
                lambda text: called(toolset, "remember", {"text": text}),
                lambda question: called(toolset, "recall", {"question": question})[0],
            ),
        }


def test_what_one_stored_all_recall(node: Node, parties: dict[str, Party]) -> None:
    assert parties.keys() == PEOPLE.keys()
    for name, (person, city) in PEOPLE.items():
        parties[name].store(f"My friend {person} lives in {city}.")
    node.memory.flush(OWNER)

    missed = [
        f"{reader} does not recall what {writer} stored"
        for reader, party in parties.items()
        for writer, (person, city) in PEOPLE.items()
        if city not in party.recall(f"Where does {person} live?")
    ]

    assert missed == []


def test_a_conversation_goes_on_elsewhere(node: Node) -> None:
    """Given a session that one framework began, then the others that have sessions read it and add to it."""
    key = node.key()
    with RemoteMemForest(node.address, key) as memory:
        MemForestChatMessageHistory(memory, OWNER, "wandering").add_messages([HumanMessage("One."), AIMessage("Two.")])
        MemForestMemory(memory=memory, owner=OWNER, session_id="wandering").put(ChatMessage("Three."))

        async def run() -> list[Any]:
            session = MemForestSession(AsyncRemoteMemForest(node.address, key), OWNER, "wandering")
            await session.add_items([{"role": "assistant", "content": "Four."}])
            return await session.get_items()

        items = asyncio.run(run())
        messages = MemForestChatMessageHistory(memory, OWNER, "wandering").messages

    assert items == [
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Three."},
        {"role": "assistant", "content": "Four."},
    ]
    assert [(message.type, message.content) for message in messages] == [
        ("human", "One."),
        ("ai", "Two."),
        ("human", "Three."),
        ("ai", "Four."),
    ]
