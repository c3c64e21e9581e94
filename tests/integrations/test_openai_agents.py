"""OpenAI Agents SDK: sessions and tools in real runs, with a model that is a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, Runner, Usage
from agents.memory import Session, SessionSettings
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from memforest_core import AsyncMemForest, AsyncRemoteMemForest
from memforest_core.service.integrations.openai_agents import MemForestSession, memforest_tools
from tests.integrations.conftest import Node

ITEMS: list[Any] = [
    {"role": "user", "content": "Where is my order?"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"order": 7}'},
    {"type": "function_call_output", "call_id": "c1", "output": "Porto"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "In Porto.", "annotations": []}],
    },
    {"role": "developer", "content": "Be brief."},
]


class Scripted(Model):
    """Answers with what it was given, one after the other; records each input."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requested: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        self.requested.append(input)
        return ModelResponse(output=[self.answers.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def says(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")


def calls(name: str, arguments: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(call_id="c", name=name, arguments=arguments, type="function_call")


@pytest.fixture(params=["embedded", "remote"])
def face(request: pytest.FixtureRequest, node: Node) -> Any:
    """Made inside the loop that uses it."""
    if request.param == "embedded":
        return lambda: AsyncMemForest(node.memory, threads=4)
    key = node.key()
    return lambda: AsyncRemoteMemForest(node.address, key)


def test_items_come_back_as_they_were_given(face: Any, owner: str) -> None:
    async def run() -> None:
        session = MemForestSession(face(), owner, "s1")
        assert isinstance(session, Session)
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.clear_session()
        await session.add_items(ITEMS[:2])
        await session.add_items(ITEMS[2:])
        await session.add_items([])

        assert await session.get_items() == ITEMS
        assert await session.get_items(2) == ITEMS[-2:]
        assert await session.get_items(0) == []
        assert await MemForestSession(face(), owner, "s1", SessionSettings(limit=3)).get_items() == ITEMS[-3:]
        assert await session.pop_item() == ITEMS[-1]
        assert await session.pop_item() == ITEMS[-2]
        assert await session.get_items() == ITEMS[:-2]
        await session.add_items(ITEMS[-2:])
        assert await session.get_items() == ITEMS
        await session.clear_session()
        assert await session.get_items() == []

    asyncio.run(run())


def test_more_items_than_a_page(node: Node, owner: str) -> None:
    turns: list[Any] = [{"role": "user", "content": f"Number {number}."} for number in range(205)]
    node.memory.enqueue(owner, "s1", turns)

    async def run() -> None:
        session = MemForestSession(AsyncMemForest(node.memory, threads=2), owner, "s1")
        assert await session.get_items() == turns
        assert await session.get_items(101) == turns[-101:]

    asyncio.run(run())


def test_the_model_reads_what_went_wrong(node: Node) -> None:
    async def run() -> Any:
        model = Scripted(calls("recall", '{"question": ""}'), says("Sorry."))
        agent = Agent(name="a", model=model, tools=memforest_tools(AsyncMemForest(node.memory, threads=2), "somebody"))
        await Runner.run(agent, "Ask nothing.")
        return model.requested[1][-1]["output"]

    assert "question" in asyncio.run(run())
