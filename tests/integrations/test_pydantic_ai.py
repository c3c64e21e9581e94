"""Pydantic AI: the toolset in real runs, with a model that is a function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memforest_core import AsyncMemForest, AsyncRemoteMemForest
from memforest_core.service.integrations.pydantic_ai import MemForestToolset
from tests.integrations.conftest import Node

TOOLS = {"remember", "recall", "context", "timeline", "profile", "forget", "sessions"}


def called(toolset: Callable[[], MemForestToolset], tool: str, arguments: dict[str, Any]) -> tuple[str, AgentInfo]:
    """The text that a model reads after its call of one tool, and what it was offered."""
    seen: list[AgentInfo] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        last = messages[-1].parts[-1]
        if last.part_kind in ("tool-return", "retry-prompt"):
            return ModelResponse(parts=[TextPart(str(last.content))])
        return ModelResponse(parts=[ToolCallPart(tool, arguments)])

    async def run() -> str:
        return (await Agent(FunctionModel(model), toolsets=[toolset()]).run("Do it.")).output

    return asyncio.run(run()), seen[0]


@pytest.fixture(params=["embedded", "remote"])
def toolset(request: pytest.FixtureRequest, node: Node, owner: str) -> Callable[[], MemForestToolset]:
    """Made inside the loop that uses it."""
    if request.param == "embedded":
        return lambda: MemForestToolset(AsyncMemForest(node.memory, threads=4), owner)
    key = node.key()
    return lambda: MemForestToolset(AsyncRemoteMemForest(node.address, key), owner)


def test_an_agent_is_offered_the_tools(toolset: Callable[[], MemForestToolset]) -> None:
    reported, info = called(toolset, "profile", {})

    assert reported == "Nothing is known yet."
    assert {tool.name for tool in info.function_tools} == TOOLS
    remember = next(tool for tool in info.function_tools if tool.name == "remember")
    assert remember.parameters_json_schema["properties"].keys() == {"text", "about"}
    assert remember.parameters_json_schema["required"] == ["text"]
    assert "plain sentence" in remember.parameters_json_schema["properties"]["text"]["description"]
    assert (remember.description or "").startswith("Keep a fact")
    assert "Long-term memory" in (info.instructions or "")


def test_the_model_reads_what_went_wrong(toolset: Callable[[], MemForestToolset]) -> None:
    assert "question" in called(toolset, "recall", {"question": ""})[0]
