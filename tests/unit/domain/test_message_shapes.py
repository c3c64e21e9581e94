"""Each shape of a chat API's message, and the turns that it becomes: one row a shape."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from openai.types.beta.threads import Message as ThreadMessage
from openai.types.responses import ResponseFunctionToolCall

from memforest_core.domain.chat_messages import turn_fields
from memforest_core.domain.turns import SessionFrame, TurnLimits, checked_messages, parse_turns
from tests.harness.builders import NOON

CITY = {"city": "Bergen"}
CALL = '[called weather({"city": "Bergen"})]'
WORDS: dict[str, Any] = {"type": "text", "text": "Cold."}


def said(*messages: object) -> list[str]:
    """``role: content`` of each turn."""
    frame = SessionFrame("alice", ZoneInfo("UTC"), NOON)
    return [f"{turn.role}: {turn.content}" for turn in parse_turns(checked_messages(messages), frame, TurnLimits())]


def assistant(*content: object, **more: object) -> dict[str, object]:
    return {"role": "assistant", "content": list(content), **more}


def user(*content: object) -> dict[str, object]:
    return {"role": "user", "content": list(content)}


@pytest.mark.parametrize(
    ("message", "turns"),
    [
        # Anthropic
        (assistant({"type": "tool_use", "id": "t", "name": "weather", "input": CITY}), [f"assistant: {CALL}"]),
        (
            user({"type": "tool_result", "tool_use_id": "t", "content": "31.5 C"}, {"type": "text", "text": "Thanks."}),
            ["tool: 31.5 C", "user: Thanks."],
        ),
        (user({"type": "tool_result", "tool_use_id": "t", "content": [WORDS, {"type": "image", "source": {}}]}),
         ["tool: Cold.\n[image]"]),
        (user({"type": "tool_result", "tool_use_id": "t", "content": ""}), []),
        (user({"type": "document", "source": {"type": "text", "data": "The lease ends."}}), ["user: The lease ends."]),
        (user({"type": "document", "title": "Lease.pdf", "source": {"type": "base64", "data": "x"}}),
         ["user: [document: Lease.pdf]"]),
        (user({"type": "document", "title": "L", "source": {"type": "content", "content": [WORDS]}}),
         ["user: [document: L]\nCold."]),
        (assistant({"type": "thinking", "thinking": "hm", "signature": "s"}, WORDS), ["assistant: Cold."]),
        (
            assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "b"}},
                      {"type": "web_search_tool_result", "tool_use_id": "s",
                       "content": [{"type": "web_search_result", "title": "B", "url": "u", "encrypted_content": "zz"}]},
                      WORDS),
            ['assistant: [called web_search({"query": "b"})]', "tool: B u", "assistant: Cold."],
        ),
        # OpenAI: chat, Responses, threads
        ({"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
         ["assistant: [called f({})]"]),
        ({"type": "function_call", "call_id": "c", "id": "fc", "name": "weather", "arguments": '{"city": "Bergen"}',
          "status": "completed"}, [f"assistant: {CALL}"]),
        ({"type": "function_call_output", "call_id": "c", "output": '{"temp_c": 4}'}, ['tool: {"temp_c": 4}']),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "4"}]}, ["tool: 4"]),
        ({"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "output": "ok", "server_label": "s"},
         ["assistant: [called f({})]", "tool: ok"]),
        ({"type": "web_search_call", "id": "w", "action": {"query": "q"}, "status": "completed"},
         ['assistant: [called web_search({"query": "q"})]']),
        ({"type": "image_generation_call", "id": "i", "result": "aGk="}, ["assistant: [image]"]),
        ({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}, []),
        ({"type": "message", "id": "m", "role": "assistant", "status": "completed",
          "content": [{"type": "output_text", "text": "Hi.", "annotations": [], "logprobs": []}]}, ["assistant: Hi."]),
        ({"role": "user", "content": [{"type": "input_file", "filename": "a.pdf", "file_data": "x"}]},
         ["user: [file: a.pdf]"]),
        ({"role": "user", "content": [{"type": "input_audio", "transcript": "Hello."}]}, ["user: Hello."]),
        # Gemini
        ({"role": "user", "parts": [{"text": "Hi."}, {"inlineData": {"mimeType": "image/png", "data": "x"}}]},
         ["user: Hi.\n[image]"]),
        ({"role": "model", "parts": [{"text": "hm", "thought": True}, {"functionCall": {"name": "weather", "args": CITY}}]},
         [f"assistant: {CALL}"]),
        ({"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"result": "Cold."}}}]},
         ["tool: Cold."]),
        ({"parts": [{"text": "Hi.", "function_call": None, "thought": None}]}, ["user: Hi."]),
        ({"role": "user", "parts": [{"fileData": {"displayName": "a.mp3", "mimeType": "audio/mpeg"}}]},
         ["user: [audio: a.mp3]"]),
        # The AI SDK: UIMessage (5 and 4), ModelMessage
        (
            {"id": "u", "role": "assistant", "metadata": {"createdAt": 1_740_000_000_000}, "parts": [
                {"type": "step-start"}, {"type": "reasoning", "text": "hm"},
                {"type": "tool-weather", "toolCallId": "c", "state": "output-available", "input": CITY, "output": {"c": 4}},
                {"type": "text", "text": "Cold.", "state": "done"}, {"type": "source-url", "url": "u"}]},
            [f"assistant: {CALL}", 'tool: {"c": 4}', "assistant: Cold."],
        ),
        ({"role": "user", "parts": [{"type": "file", "mediaType": "image/png", "filename": "cat.png", "url": "data:"}]},
         ["user: [image: cat.png]"]),
        (
            {"id": "v", "role": "assistant", "content": "Cold.", "createdAt": "2025-03-01T10:00:00.000Z",
             "revisionId": "r", "toolInvocations": [
                 {"state": "result", "toolCallId": "c", "toolName": "weather", "args": CITY, "result": "4 C"}],
             "parts": [{"type": "tool-invocation", "toolInvocation": {
                 "state": "result", "toolCallId": "c", "toolName": "weather", "args": CITY, "result": "4 C"}},
                 {"type": "text", "text": "Cold."}]},
            [f"assistant: {CALL}", "tool: 4 C", "assistant: Cold."],
        ),
        ({"role": "user", "content": "See:", "experimental_attachments": [{"name": "c.png", "contentType": "image/png"}]},
         ["user: See:\n[image: c.png]"]),
        ({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "weather",
                                       "output": {"type": "json", "value": {"c": 4}}}]}, ['tool: {"c": 4}']),
        (assistant({"type": "tool-call", "toolCallId": "c", "toolName": "weather", "input": CITY}), [f"assistant: {CALL}"]),
        # LangChain
        ({"type": "human", "content": [{"type": "text-plain", "text": "A text.", "mime_type": "text/plain"}]},
         ["user: A text."]),
        (
            {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessageChunk"],
             "kwargs": {"content": [{"type": "tool_use", "id": "c", "name": "weather", "input": CITY}], "type": "ai",
                        "tool_calls": [{"name": "weather", "args": CITY, "id": "c", "type": "tool_call"}]}},
            [f"assistant: {CALL}"],
        ),
        ({"type": "ai", "content": [{"type": "reasoning", "reasoning": "hm"}, WORDS], "usage_metadata": {}},
         ["assistant: Cold."]),
        ({"type": "ai", "content": [{"type": "tool_call", "id": "c", "name": "weather", "args": CITY}]},
         [f"assistant: {CALL}"]),
        ({"type": "ai", "content": [{"type": "server_tool_result", "tool_call_id": "c", "output": "4"}]}, ["tool: 4"]),
        ({"type": "human", "content": [{"type": "non_standard", "value": {"type": "note", "text": "N."}}]}, ["user: N."]),
        ({"type": "remove", "data": {"type": "remove", "content": "", "id": "m"}}, []),
        # Bedrock, MCP, and nothing
        (assistant({"toolUse": {"toolUseId": "c", "name": "weather", "input": CITY}}), [f"assistant: {CALL}"]),
        (user({"toolResult": {"toolUseId": "c", "content": [{"json": {"c": 4}}]}}), ['tool: {"c": 4}']),
        ({"role": "user", "content": {"type": "text", "text": "Hi."}}, ["user: Hi."]),
        ({"role": "tool", "tool_call_id": "c", "content": ""}, []),
        ({"role": "assistant", "content": None, "tool_calls": []}, []),
    ],
)  # fmt: skip
def test_a_message_of_another_shape_becomes_these_turns(message: object, turns: list[str]) -> None:
    assert said(message) == turns


def test_objects_of_client_libraries_are_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    from litellm.types.utils import Message

    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    thread = {"object": "thread.message", "status": "completed", "thread_id": "t", "created_at": 1_740_787_200}
    text = {"type": "text", "text": {"value": "My cat is Mia.", "annotations": []}}
    in_thread = ThreadMessage.model_validate({"id": "msg", "role": "user", "content": [text], **thread})

    answer = Message(content="Hi.", reasoning_content="hm", thinking_blocks=[{"type": "thinking", "thinking": "hm"}])
    calling = Message(content=None, tool_calls=[call])
    item = ResponseFunctionToolCall(type="function_call", call_id="c", name="f", arguments="{}", id="fc")

    for each in (answer, answer.model_dump()):
        assert said(each) == ["assistant: Hi."]
    assert said(calling, calling.model_dump(), item) == ["assistant: [called f({})]"] * 3
    assert said(Message(content=None), Message(content="").model_dump()) == []
    for thread_message in (in_thread, in_thread.model_dump()):
        [found] = checked_messages([thread_message])
        assert (found["id"], found["timestamp"], found["content"]) == ("msg", 1_740_787_200, "My cat is Mia.")


def test_turns_of_one_message_have_ids_of_their_own_and_its_time() -> None:
    parts = [
        WORDS,
        {"type": "tool-f", "toolCallId": "c", "state": "output-error", "input": {}, "errorText": "No."},
        WORDS,
    ]

    found = checked_messages([{"id": "m", "role": "assistant", "name": "Bot", "timestamp": 5, "parts": parts}])

    assert [(turn["id"], turn["timestamp"], turn["name"]) for turn in found] == [
        ("m", 5, "Bot"), ("m#2", 5, "f"), ("m#3", 5, "Bot")]  # fmt: skip
    assert found[1]["metadata"] == {"tool_call_id": "c"}
    assert turn_fields({"role": "assistant", "parts": parts}, "It")["content"] == "Cold.\n[called f({})]\nNo.\nCold."


def test_a_tools_own_objects_are_json() -> None:
    for output in ({"type": "user", "name": "Bob"}, {"type": "file", "path": "a"}, [1, 2], {"content": [1], "b": 2}):
        [found] = said({"type": "function_call_output", "call_id": "c", "output": output})
        assert found.startswith(('tool: {"', "tool: [1"))
