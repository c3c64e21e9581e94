"""A conversation begun by one framework is read and continued by the others."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.base.llms.types import ChatMessage

from memforest_core import AsyncRemoteMemForest, RemoteMemForest
from memforest_core.service.integrations.langchain import MemForestChatMessageHistory
from memforest_core.service.integrations.llamaindex import MemForestMemory
from memforest_core.service.integrations.openai_agents import MemForestSession
from tests.integrations.conftest import Node

OWNER = "everybody"


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
