"""LangChain: histories come back as they were given, and a retriever finds what anybody said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from memforest_core import MemForest, RemoteMemForest
from memforest_core.service.integrations.langchain import MemForestChatMessageHistory

Memory = MemForest | RemoteMemForest
CONVERSATION: list[BaseMessage] = [
    SystemMessage("You are kind."),
    HumanMessage("Where is my order?", id="h1", name="Kim"),
    AIMessage("", tool_calls=[{"name": "find", "args": {"order": 7}, "id": "call-1", "type": "tool_call"}]),
    ToolMessage('{"at": "Porto"}', tool_call_id="call-1", status="success"),
    AIMessage(
        "In Porto.",
        response_metadata={"model": "m"},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    HumanMessage([{"type": "text", "text": "And this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]),
    AIMessage("A cat.", id="a2"),
]


def test_messages_come_back_as_they_were_given(memory: Memory, owner: str) -> None:
    history = MemForestChatMessageHistory(memory, owner, "s1")
    assert history.messages == []

    history.add_messages(CONVERSATION[:3])
    history.add_messages(CONVERSATION[3:])
    history.add_messages([CONVERSATION[-1]])  # stored already, by its id

    assert history.messages == CONVERSATION
    assert asyncio.run(history.aget_messages()) == CONVERSATION
    turns = memory.turns(owner, "s1").items
    assert turns[2].content == '[called find({"order": 7})]'
    assert turns[5].content == "And this?\n[image]"
    assert not turns[1].metadata, "what a turn tells whole is not kept twice"


def test_a_history_is_cleared_for_good(memory: Memory, owner: str) -> None:
    history = MemForestChatMessageHistory(memory, owner, "s1")
    history.clear()
    history.add_user_message("My boat is called Selkie.")
    history.clear()

    assert history.messages == []
    assert "Selkie" not in memory.recall(owner, "What is my boat called?").text()
    history.add_user_message("Hello again.")
    assert [message.content for message in history.messages] == ["Hello again."]


def test_a_session_of_others_is_a_history(memory: Memory, owner: str) -> None:
    turns: list[Any] = [
        {"role": "user", "content": "Hi.", "name": "Kim", "id": "t1"},
        {"role": "tool", "content": "12"},
        {"role": "assistant", "content": "Hello."},
    ]
    memory.enqueue(owner, "s1", turns)

    hi, tool, hello = MemForestChatMessageHistory(memory, owner, "s1").messages

    assert (hi.type, hi.content, hi.id, hi.name) == ("human", "Hi.", "t1", "Kim")
    assert (tool.type, tool.content) == ("tool", "12")
    assert (hello.type, hello.content, hello.id) == ("ai", "Hello.", None)


@pytest.mark.parametrize("text", ["", "  "])
def test_a_message_without_words(memory: Memory, owner: str, text: str) -> None:
    history = MemForestChatMessageHistory(memory, owner, "s1")
    history.add_messages([AIMessage(text)])

    assert history.messages == [AIMessage(text)]
