"""LlamaIndex: the memory of a chat engine."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM

from memforest_core import MemForest, RemoteMemForest
from memforest_core.service.integrations.llamaindex import MemForestMemory

Memory = MemForest | RemoteMemForest
CONVERSATION = [
    ChatMessage(role=MessageRole.SYSTEM, content="You are kind."),
    ChatMessage(role=MessageRole.USER, content="Where is my order?"),
    ChatMessage(
        role=MessageRole.ASSISTANT,
        blocks=[ToolCallBlock(tool_call_id="c1", tool_name="find", tool_kwargs={"order": 7})],
    ),
    ChatMessage(role=MessageRole.TOOL, content="Porto", additional_kwargs={"tool_call_id": "c1"}),
    ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text="And this?"), ImageBlock(url="http://x/y.png")]),
    ChatMessage(role=MessageRole.MODEL, content="A cat."),
    ChatMessage(role=MessageRole.ASSISTANT, content="In Porto."),
]


def test_messages_come_back_as_they_were_given(memory: Memory, owner: str) -> None:
    chat = MemForestMemory.from_defaults(memory=memory, owner=owner, session_id="s1")
    assert chat.get_all() == []

    chat.put_messages(CONVERSATION[:2])
    for message in CONVERSATION[2:]:
        chat.put(message)

    assert chat.get_all() == CONVERSATION
    assert asyncio.run(chat.aget()) == CONVERSATION
    assert memory.turns(owner, "s1").items[2].content == "[tool_call]"


def test_the_history_can_be_set_and_reset(memory: Memory, owner: str) -> None:
    chat = MemForestMemory(memory=memory, owner=owner, session_id="s1")
    chat.set(CONVERSATION[:2])
    chat.set(CONVERSATION[:4])
    assert chat.get_all() == CONVERSATION[:4]

    chat.set(CONVERSATION[1:2])
    assert chat.get_all() == CONVERSATION[1:2]

    chat.reset()
    assert chat.get_all() == []


def test_only_the_last_messages_from_a_question_on(remote: RemoteMemForest, owner: str) -> None:
    chat = MemForestMemory(memory=remote, owner=owner, session_id="s1", last=5)
    chat.put_messages(CONVERSATION)

    assert chat.get() == CONVERSATION[4:]


@pytest.mark.parametrize("max_tokens", [1_500, 0])
def test_a_chat_engine_sees_what_others_said(remote: RemoteMemForest, owner: str, max_tokens: int) -> None:
    remote.enqueue(owner, "before", [{"role": "user", "content": "My sister Ana lives in Bergen."}], wait="facts")
    chat = MemForestMemory(memory=remote, owner=owner, session_id="s1", max_tokens=max_tokens)
    engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=chat)

    reported = str(engine.chat("Where does Ana live?"))

    assert ("Bergen" in reported) == bool(max_tokens), "the mock says what it was asked"
    assert chat.get_all()[0].content == "Where does Ana live?"
    assert len(chat.get_all()) == 2
    assert "memory" not in chat.to_dict()
