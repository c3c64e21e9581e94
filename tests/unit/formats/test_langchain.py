"""LangChain's messages in each of the forms that it writes."""

from __future__ import annotations

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.history import is_message, message_turns


def data(kind: str, content: object, **more: object) -> dict[str, object]:
    return {"type": kind, "data": {"content": content, "additional_kwargs": {}, "type": kind, **more}}


def constructor(kind: str, content: object, **more: object) -> dict[str, object]:
    path = ["langchain", "schema", "messages", kind]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": content, **more}}


@pytest.mark.parametrize(
    "raw, role",
    [
        (data("human", "Hi."), "user"),
        (data("ai", "Hi."), "assistant"),
        (data("tool", "Hi.", tool_call_id="c1"), "tool"),
        (data("system", "Hi."), "system"),
        (data("function", "Hi."), "tool"),
        (data("chat", "Hi.", role="user"), "user"),
        (data("AIMessageChunk", "Hi."), "assistant"),
        (constructor("HumanMessage", "Hi."), "user"),
        (constructor("AIMessageChunk", "Hi."), "assistant"),
        (constructor("ToolMessage", "Hi."), "tool"),
        (constructor("ChatMessage", "Hi.", role="assistant"), "assistant"),
        ({"type": "human", "content": "Hi.", "id": None, "example": False}, "user"),
        ({"type": "ai", "content": [{"type": "text", "text": "Hi."}], "tool_calls": []}, "assistant"),
    ],
)
def test_each_form_is_recognized_and_becomes_a_turn(raw: dict[str, object], role: str) -> None:
    assert is_message(raw)
    [turn] = message_turns(raw, "Message 1")
    assert (turn["role"], turn["content"]) == (role, "Hi.")


def test_ids_names_times_calls_and_tools_are_taken_over() -> None:
    [turn] = message_turns(
        data("human", "Hi.", id="m1", name="Ann", additional_kwargs={"timestamp": "2024-05-06T07:00:00Z"}), "M"
    )
    assert turn == {"role": "user", "content": "Hi.", "id": "m1", "name": "Ann", "timestamp": "2024-05-06T07:00:00Z"}
    [called] = message_turns(data("ai", "", tool_calls=[{"name": "look", "args": {"at": "boats"}, "id": "c1"}]), "M")
    assert called["content"] == '[called look({"at": "boats"})]'
    older = {"function_call": {"name": "look", "arguments": "{}"}}
    assert message_turns(data("ai", "", additional_kwargs=older), "M")[0]["content"] == "[called look({})]"
    [answer] = message_turns(data("tool", "3 boats", tool_call_id="c1"), "M")
    assert answer["metadata"] == {"tool_call_id": "c1"}


@pytest.mark.parametrize(
    "raw",
    [
        data("alien", "Hi."),
        data("chat", "Hi."),
        data("human", {"text": "Hi."}),
        data("human", "Hi.", additional_kwargs=[1]),
        constructor("HumanMessage", 7),
    ],
)
def test_what_is_no_message_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="Message 3"):
        message_turns(raw, "Message 3")


@pytest.mark.parametrize(
    "raw", [None, [], "human", {}, {"role": "user", "content": "Hi."}, {"type": "text", "content": "Hi."}, {"lc": 1}]
)
def test_other_objects_are_not_taken_for_messages(raw: object) -> None:
    assert not is_message(raw)
