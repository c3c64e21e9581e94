"""Messages of chat APIs become turns as they are: parts, calls, roles, and objects of client libraries."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion_message_function_tool_call import ChatCompletionMessageFunctionToolCall, Function
from pydantic import BaseModel

from memforest_core.domain.chat_messages import MAX_CALLS
from memforest_core.domain.message_parts import MAX_ARGUMENT_CHARS
from memforest_core.domain.turns import Role, SessionFrame, Turn, TurnLimits, checked_messages, parse_turns
from memforest_core.errors import InvalidInput
from tests.harness.builders import NOON

FRAME = SessionFrame("alice", ZoneInfo("UTC"), NOON)


def parsed(*raw: object) -> list[Turn]:
    return parse_turns(checked_messages(raw), FRAME, TurnLimits())


def call(name: str = "weather", arguments: str = '{"city":"Oslo"}') -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "I moved"}, {"type": "text", "text": "to Oslo."}], "I moved\nto Oslo."),
        ([{"type": "input_text", "text": "Hi."}, "There."], "Hi.\nThere."),
        ([{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "data:xx"}}], "Look:\n[image]"),
        ([{"type": "input_audio", "input_audio": {"data": "xx"}}], "[audio]"),
        ([{"type": "file", "file": {"file_id": "f"}}], "[file]"),
        ([{"type": "refusal", "refusal": "I can't."}], "I can't."),
        ([{"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "Yes."}], "Yes."),
    ],
)
def test_parts_are_one_text(content: list[object], text: str) -> None:
    [found] = parsed({"role": "user", "content": content})

    assert found.content == text


def test_calls_of_tools_become_short_texts() -> None:
    requested, answered = parsed(
        {"role": "assistant", "content": None, "tool_calls": [call()]},
        {"role": "tool", "tool_call_id": "c1", "content": "12 degrees"},
    )

    assert (requested.role, requested.content) == (Role.ASSISTANT, '[called weather({"city": "Oslo"})]')
    assert (answered.role, answered.content, answered.metadata) == (Role.TOOL, "12 degrees", {"tool_call_id": "c1"})


def test_a_text_and_its_calls_are_both_in_the_turn() -> None:
    [found] = parsed({"role": "assistant", "content": "Let me look.", "tool_calls": [call()]})

    assert found.content == 'Let me look.\n[called weather({"city": "Oslo"})]'


def test_calls_are_bounded() -> None:
    [found] = parsed({"role": "assistant", "tool_calls": [call("n" * 300, "x" * 9_000)] * (MAX_CALLS + 3)})

    assert found.content.endswith("[3 more calls]")
    assert len(found.content) < (MAX_CALLS + 1) * (MAX_ARGUMENT_CHARS + 150)


def test_an_older_function_call_becomes_a_text_too() -> None:
    [found] = parsed({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}})

    assert found.content == "[called f({})]"


@pytest.mark.parametrize(
    ("given", "role"),
    [
        ("developer", Role.SYSTEM),
        ("function", Role.TOOL),
        ("human", Role.USER),
        ("ai", Role.ASSISTANT),
        ("system", Role.SYSTEM),
        ("tool", Role.TOOL),
    ],
)
def test_roles_of_others_are_ours(given: str, role: Role) -> None:
    [found] = parsed({"role": given, "content": "Hello."})

    assert found.role is role


def test_a_message_of_the_openai_package_is_a_turn() -> None:
    message = ChatCompletionMessage(
        role="assistant",
        content=None,
        tool_calls=[
            ChatCompletionMessageFunctionToolCall(
                id="c1", type="function", function=Function(name="weather", arguments='{"city":"Oslo"}')
            )
        ],
    )

    assert [each.content for each in parsed(message, ChatCompletionMessage(role="assistant", content="Cold."))] == [
        '[called weather({"city": "Oslo"})]',
        "Cold.",
    ]


class LangChainLike(BaseModel):
    """The fields of LangChain's messages."""

    content: str | list[str | dict[str, Any]]
    type: str
    additional_kwargs: dict[str, Any] = {}
    response_metadata: dict[str, Any] = {}
    name: str | None = None
    id: str | None = None
    tool_calls: list[dict[str, Any]] = []
    invalid_tool_calls: list[dict[str, Any]] = []
    some_new_field: int = 3


@pytest.mark.parametrize(
    "message",
    [
        LangChainLike(type="human", content=["I live in Oslo."], id="m1"),
        LangChainLike(type="human", content="I live in Oslo.", id="m1").model_dump(exclude={"some_new_field"}),
        {"type": "human", "data": {"type": "human", "content": "I live in Oslo.", "id": "m1", "example": False}},
    ],
)
def test_messages_of_langchain_are_turns(message: object) -> None:
    [found] = parsed(message)

    assert (found.role, found.content, found.id, found.name) == (Role.USER, "I live in Oslo.", "m1", "alice")


def test_calls_of_langchain_become_texts() -> None:
    querying = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}

    [found] = parsed(LangChainLike(type="ai", content="", tool_calls=[querying]))

    assert (found.role, found.content) == (Role.ASSISTANT, '[called weather({"city": "Oslo"})]')


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ({"role": "user", "content": [{"words": "x"}]}, "invalid_content"),
        ({"role": "user", "content": [{"type": "text", "text": 3}]}, "invalid_content"),
        ({"role": "user", "content": {"type": "text"}}, "invalid_content"),
        ({"role": "user", "content": {"words": "x"}}, "missing_content"),
        ({"role": "user", "content": ""}, "missing_content"),
        ({"role": "assistant", "words": "x"}, "unknown_field"),
        ({"role": {}, "content": ""}, "unknown_role"),
        ({"role": "user", "content": "x", "data": {}}, "unknown_field"),
        ({"type": "robot", "content": "x"}, "unknown_role"),
        (BaseModel, "invalid_turns"),
        (object(), "invalid_turns"),
    ],
)
def test_anything_else_is_refused(raw: object, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(raw)

    assert refused.value.code == code
