"""One small file of our own making in each product's form, and the turns that it becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.export_files import opened
from memforest_core.ingest.formats.file_items import Converted, Item, Refused
from memforest_core.ingest.formats.formats import chosen, sessions, warnings_of
from memforest_core.ingest.formats.talks import Findings, Options
from tests.harness.exports import file_of, read_file

T = "2026-03-01T10:00:0{}Z"
CALL = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}}
CALLED = '[called weather({"city": "Oslo"})]'
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "4 C"}
MINIMAL = {"version": "1", "cwd": "/x", "isSidechain": False, "sessionId": "s1"}


def claude(number: int, sender: str, parent: str, **more: Any) -> dict[str, Any]:
    own = {"uuid": f"m{number}", "sender": sender, "created_at": T.format(number), "parent_message_uuid": parent}
    return {**own, "text": "", "content": [], "attachments": [], "files": [], **more}


def code(number: int, kind: str, content: object, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content}
    return {
        **MINIMAL,
        "parentUuid": None,
        "type": kind,
        "uuid": f"u{number}",
        "timestamp": T.format(number),
        "message": message,
        **more,
    }


def codex(number: int, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": T.format(number), "type": "response_item", "payload": payload}


def cai(number: int, name: str, *texts: str, **author: Any) -> dict[str, Any]:
    candidates = [{"candidate_id": f"c{at}", "raw_content": text} for at, text in enumerate(texts)]
    key = {"chat_id": "chat1", "turn_id": f"t{number}"}
    own = {"turn_key": key, "create_time": T.format(number), "author": {"name": name, **author}}
    return {**own, "candidates": candidates, "primary_candidate_id": "c0"}


def letta(role: str, text: str, *calls: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    made = [
        {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(of)}} for name, of in calls
    ]
    return {
        "role": role,
        "content": [{"type": "text", "text": text}],
        "tool_calls": made or None,
        "created_at": T.format(1),
        **more,
    }


LETTA = [
    letta("system", "You are Letta."),
    letta("user", json.dumps({"type": "login", "last_login": "never"})),
    letta("user", json.dumps({"type": "user_message", "message": "I moved to Oslo."})),
    letta("assistant", "I should save that.", ("weather", {"city": "Oslo"})),
    letta("tool", json.dumps({"status": "OK", "message": "4 C"}), name="weather", tool_call_id="c"),
    letta("assistant", "Greet.", ("send_message", {"message": "Welcome to Oslo!"})),
    letta("tool", json.dumps({"status": "OK", "message": "None"}), name="send_message"),
]
LETTA_SAID = [
    "user: I moved to Oslo.",
    f"assistant Ada: {CALLED}",
    "tool weather: 4 C",
    "assistant Ada: Welcome to Oslo!",
]
REQUESTED = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
RUN = {
    "run_type": "llm",
    "trace_id": "t",
    "parent_run_id": None,
    "extra": {"metadata": {"thread_id": "th", "ls_model_name": "m1"}},
}
FIRST, ANSWER, SECOND = (
    {"role": "user", "content": "I row."},
    {"role": "assistant", "content": "Nice."},
    {"role": "user", "content": "And sail."},
)
ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
    {"type": "function_call", "call_id": "t1", "name": "weather", "arguments": '{"city": "Oslo"}'},
    {"type": "function_call_output", "call_id": "t1", "output": "4 C"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Cold.", "annotations": []}]},
]
ITEMS_SAID = ["user: Hi.", f"assistant: {CALLED}", "tool weather: 4 C", "assistant: Cold."]
OWUI = {
    "m1": {"id": "m1", "parentId": None, "role": "user", "content": "Hi.", "timestamp": 1_772_359_201,
           "files": [{"type": "image", "url": "data:image/png;base64,iVBO/x"}]},
    "m2": {"id": "m2", "parentId": "m1", "role": "assistant", "content": "Old.", "modelName": "llama", "timestamp": 1},
    "m3": {"id": "m3", "parentId": "m1", "role": "assistant", "modelName": "llama", "timestamp": 1_772_359_202,
           "content": '![pic](data:image/png;base64,iVBO)\n<details type="reasoning" done="true">\n> hm\n</details>\n<details type="tool_calls" name="weather"'
                      ' arguments="&quot;{\\&quot;city\\&quot;: \\&quot;Oslo\\&quot;}&quot;" result="&quot;4 C&quot;">\n</details>\nCold.'},
}  # fmt: skip
LIBRE = {"conversationId": "l1", "title": "Sea", "exportAt": "now", "endpoint": "openAI"}
LIBRE_SAID = [
    {"messageId": "a", "parentMessageId": "0", "isCreatedByUser": True, "sender": "User", "text": "I sail.", "createdAt": T.format(1),
     "files": [{"filename": "boat.png", "type": "image/png"}]},
    {"messageId": "b", "parentMessageId": "a", "isCreatedByUser": False, "sender": "GPT", "text": "", "createdAt": T.format(2),
     "content": [{"type": "think", "think": "hm"}, {"type": "text", "text": {"value": "Nice."}},
                 {"type": "tool_call", "tool_call": {"id": "x", "name": "weather", "args": '{"city": "Oslo"}', "output": "4 C"}}]},
]  # fmt: skip
LANGFUSE = {"id": "tr", "timestamp": T.format(1), "name": "chat", "htmlPath": "/p", "sessionId": "s", "userId": "zoe"}

FILES: dict[str, tuple[object, str, list[str]]] = {
    "claude": (
        [{"uuid": "c1", "name": "Trip", "created_at": T.format(0), "chat_messages": [
            claude(1, "human", "0", text="I live in Oslo."),
            claude(2, "human", "0", text="I live in Bergen.", attachments=[{"file_name": "a.txt", "extracted_content": "Rent."}]),
            claude(3, "assistant", "m2", content=[{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Ok."}]),
            claude(4, "assistant", "m3", text="I look.", content=[CALL, RESULT]),
        ]}],
        "c1", ["user: I live in Bergen.\n[file: a.txt]\nRent.", "assistant Claude: Ok.", f"assistant Claude: I look.\n{CALLED}", "tool weather: 4 C"],
    ),
    "openai": (
        [{"conversation_id": "g", "title": "T", "current_node": "b", "mapping": {
            "a": {"parent": None, "message": None},
            "b": {"parent": "a", "message": {"id": "b", "author": {"role": "user"}, "create_time": 1_772_359_201.5, "content": {
                "content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "My ticket."]},
                "metadata": {"attachments": [{"name": "t.png", "mime_type": "image/png"}]}}}}}],
        "g", ["user: My ticket.\n[image: t.png]"],
    ),
    "gemini-takeout": (
        [{"header": "Gemini Apps", "title": "Used an Assistant feature", "time": T.format(3), "products": ["Gemini Apps"]},
         {"header": "Gemini Apps", "title": "Prompted Where is Oslo?", "time": T.format(1), "products": ["Gemini Apps"],
          "safeHtmlItem": [{"html": "<p>In <b>Norway</b> &amp; cold.</p>"}], "attachedFiles": ["map.png"]}],
        "gemini-2026-03-01", ["user: Where is Oslo?\n[image: map.png]", "assistant Gemini: In Norway & cold."],
    ),
    "open-webui": (
        [{"id": "w1", "title": "Sky", "chat": {"history": {"messages": OWUI, "currentId": "m3"}, "models": ["llama"]}}],
        "w1", ["user: Hi.\n[image]", f"assistant llama: [image]\n{CALLED}", "tool weather: 4 C", "assistant llama: Cold."],
    ),
    "librechat": (
        {**LIBRE, "messages": LIBRE_SAID}, "l1",
        ["user: I sail.\n[image: boat.png]", f"assistant GPT: Nice.\n{CALLED}", "tool weather: 4 C"],
    ),
    "librechat tree": (
        {**LIBRE, "recursive": True, "messagesTree": [{**LIBRE_SAID[0], "children": [LIBRE_SAID[1]]}]}, "l1",
        ["user: I sail.\n[image: boat.png]", f"assistant GPT: Nice.\n{CALLED}", "tool weather: 4 C"],
    ),
    "sillytavern": (
        [{"user_name": "unused", "chat_metadata": {}},
         {"name": "Mira", "is_user": False, "is_system": False, "send_date": "March 1, 2026 10:00am", "mes": "Welcome."},
         {"name": "Zoe", "is_user": True, "is_system": False, "send_date": "2026-3-1 @10h 1m 9s 123ms", "mes": "A room."}],
        "file", ["assistant Mira: Welcome.", "user Zoe: A room."],
    ),
    "characterai": (
        {"turns": [cai(2, "zoe", "I sail.", is_human=True), cai(1, "Rook", "Ahoy!", "Go away.")], "meta": {}}, "chat1",
        ["assistant Rook: Ahoy!", "user zoe: I sail."],
    ),
    "characterai-older": (
        {"histories": {"histories": [{"external_id": "h", "msgs": [
            {"text": "Ahoy!", "src": {"name": "Rook", "is_human": False}, "created": T.format(1)},
            {"text": "I sail.", "src": {"name": "zoe", "is_human": True}, "created": T.format(2)}]}]}},
        "h", ["assistant Rook: Ahoy!", "user zoe: I sail."],
    ),
    "letta": ({"agents": [{"id": "agent-0", "name": "Ada", "agent_type": "memgpt_agent", "system": "s", "messages": LETTA}]}, "agent-0", LETTA_SAID),
    "letta older": ({"agent_type": "memgpt_agent", "core_memory": [], "name": "Ada", "messages": LETTA}, "Ada", LETTA_SAID),
    "letta v1": (
        {"agents": [{"id": "agent-0", "name": "Ada", "agent_type": "letta_v1_agent", "system": "s", "messages": [
            letta("user", "Hi."), letta("assistant", "I check.", ("weather", {"city": "Oslo"}))]}]},
        "agent-0", ["user: Hi.", f"assistant Ada: I check.\n{CALLED}"],
    ),
    "zep-facts": (
        {"edges": [{"uuid": "e2", "fact": "Zoe lives in Rome.", "valid_at": T.format(2), "source_node_uuid": "n"},
                   {"uuid": "e1", "fact": "Zoe lives in Oslo.", "valid_at": T.format(1), "invalid_at": T.format(2), "source_node_uuid": "n"}]},
        "zep", ["user: Zoe lives in Oslo. (valid until 2026-03-01)", "user: Zoe lives in Rome."],
    ),
    "zep": (
        {"messages": [{"uuid": "z1", "role": "Zoe", "role_type": "user", "content": "I sail.", "created_at": T.format(1)},
                      {"uuid": "z2", "role": "Bot", "role_type": "assistant", "content": "Nice.", "created_at": T.format(2)}], "user_id": "ann"},
        "file", ["user: I sail.", "assistant: Nice."],
    ),
    "zep page": (
        {"items": [{"uuid": f"z{n}", "thread_uuid": "th", "role": role, "name": name, "content": text, "created_at": T.format(n), "processed": True}
                   for n, role, name, text in ((1, "user", "Zoe", "I sail."), (2, "assistant", None, "Nice."))], "next_cursor": "x"},
        "th", ["user Zoe: I sail.", "assistant: Nice."],
    ),
    "zep episodes": (
        {"episodes": [{"uuid": "z1", "thread_id": "th", "role": "Zoe", "role_type": "user", "source": "message", "content": "I sail.", "created_at": T.format(1)},
                      {"uuid": "z2", "thread_id": "th", "source": "text", "content": "A boat.", "created_at": T.format(2)}]},
        "th", ["user: I sail.", "user: A boat."],
    ),
    "zep-facts page": (
        {"items": [{"uuid": "e1", "fact": "Zoe rows.", "valid_at": T.format(1), "source_node_uuid": "n", "graph_uuid": "g"}]}, "g", ["user: Zoe rows."],
    ),
    "hindsight document": (
        {"id": "d", "original_text": "Sea.", "chunks": [], "facts": [{"text": "Zoe sails.", "fact_type": "world", "mentioned_at": T.format(1)}]},
        "d", ["user: Zoe sails."],
    ),
    "hindsight": (
        {"items": [{"id": "h1", "text": "Zoe sails.", "fact_type": "world", "document_id": "d", "mentioned_at": T.format(1)},
                   {"id": "h2", "text": "Zoe rows.", "fact_type": "world", "document_id": "d", "state": "invalidated"}], "total": 2},
        "d", ["user: Zoe sails."],
    ),
    "claude-code": (
        [{"type": "summary", "summary": "Fix it", "leafUuid": "u9"}, code(1, "user", "Caveat.", isMeta=True),
         code(2, "user", "<command-name>/clear</command-name>"), code(3, "user", "Fix <skill> it. <system-reminder>x</system-reminder>"),
         code(4, "assistant", [{"type": "thinking", "thinking": "hm"}, CALL]), code(5, "user", [RESULT]),
         code(6, "assistant", [{"type": "text", "text": "Aside."}], isSidechain=True), code(7, "assistant", [{"type": "text", "text": "Done."}])],
        "s1", ["user: Fix <skill> it.", f"assistant Claude: {CALLED}", "tool weather: 4 C", "assistant Claude: Done."],
    ),
    "claude-code rewound": (
        [code(1, "user", "Fix it."), code(2, "assistant", "No.", parentUuid="u1"), code(3, "user", "Old way.", parentUuid="u2"),
         code(4, "assistant", [CALL], parentUuid="u3"), code(5, "user", [RESULT], parentUuid="u4"),
         code(6, "user", "New way.", parentUuid="u2"),
         {**code(7, "assistant", [CALL], parentUuid="u6"), "message": {"id": "a1", "role": "assistant", "content": [CALL]}},
         {**code(8, "assistant", "", parentUuid="u7"), "message": {"id": "a1", "role": "assistant", "content": [{**CALL, "id": "t2"}]}},
         code(8, "user", [RESULT], uuid="r1", parentUuid="u7"), code(8, "user", [{**RESULT, "tool_use_id": "t2"}], uuid="r2", parentUuid="u8"),
         code(9, "assistant", "Done.", parentUuid="r2")],
        "s1", ["user: Fix it.", "assistant Claude: No.", "user: New way.", f"assistant Claude: {CALLED}", f"assistant Claude: {CALLED}",
               "tool weather: 4 C", "tool weather: 4 C", "assistant Claude: Done."],
    ),
    "codex": (
        [{"timestamp": T.format(0), "type": "session_meta", "payload": {"id": "x1", "timestamp": T.format(0)}},
         codex(1, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]}),
         *[codex(at + 2, item) for at, item in enumerate(ITEMS)], {"timestamp": T.format(9), "type": "event_msg", "payload": {"type": "agent_message"}}],
        "x1", [each.replace("assistant:", "assistant Codex:") for each in ITEMS_SAID],
    ),
    "codex older": (
        [{"id": "x2", "timestamp": T.format(0), "instructions": None}, {"record_type": "state"}, *ITEMS[:2],
         {**ITEMS[2], "output": json.dumps({"output": "4 C", "metadata": {"exit_code": 0}})}, ITEMS[3]], "x2",
        [each.replace("assistant:", "assistant Codex:") for each in ITEMS_SAID],
    ),
    "vercel": (
        [{"id": "v1", "role": "user", "parts": [{"type": "text", "text": "Hi."}], "metadata": {"createdAt": T.format(1)}},
         {"id": "v2", "role": "assistant", "metadata": {"createdAt": T.format(2)}, "parts": [
             {"type": "tool-weather", "toolCallId": "t1", "state": "output-available", "input": {"city": "Oslo"}, "output": "4 C"}]}],
        "file", ["user: Hi.", f"assistant: {CALLED}", "tool weather: 4 C"],
    ),
    "vercel chat": (
        {"id": "chat", "messages": [{"id": "v1", "role": "user", "content": "Hi.", "createdAt": T.format(1), "parts": [{"type": "text", "text": "Hi."}]}]},
        "chat", ["user: Hi."],
    ),
    "vercel data": (
        [{"id": "v0", "role": "data", "content": "", "data": {"x": 1}, "createdAt": T.format(0), "parts": []},
         {"id": "v1", "role": "user", "content": "Hi.", "createdAt": T.format(1), "parts": [{"type": "text", "text": "Hi."}]}], "file", ["user: Hi."],
    ),
    "gemini-api": (
        {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}, {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}]},
                      {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"output": "4 C"}}}]}]},
        "file", ["user: Hi.", f"assistant: {CALLED}", "tool weather: 4 C"],
    ),
    "gemini-api list": ([{"role": "user", "parts": [{"text": "Hi."}]}, {"role": "model", "parts": [{"text": "Yes."}]}], "file", ["user: Hi.", "assistant: Yes."]),
    "openai-items": (ITEMS, "file", ITEMS_SAID),
    "openai-items page": ({"object": "list", "data": ITEMS[::-1]}, "file", ITEMS_SAID),
    "openai-items response": ({"id": "r", "object": "response", "created_at": 1_772_359_201, "input": "Hi.", "output": ITEMS[1:]}, "r", ITEMS_SAID),
    "openai-items reasoning": (
        {"object": "list", "data": [{"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I can't."}]},
                                    {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "x"}},
                                    {"type": "reasoning", "id": "rs", "summary": []}, ITEMS[0]]},
        "file", ["user: Hi.", 'assistant: [called web_search({"type": "search", "query": "x"})]', "assistant: I can't."],
    ),
    "openai-items thread": (
        {"object": "list", "data": [{"object": "thread.message", "id": f"m{n}", "thread_id": "th", "role": role, "created_at": 1_772_359_200 + n,
                                     "content": [{"type": "text", "text": {"value": text, "annotations": []}}]}
                                    for n, role, text in ((2, "assistant", "Yes."), (1, "user", "Hi."))]},
        "th", ["user: Hi.", "assistant: Yes."],
    ),
    "anthropic": (
        {"model": "c", "system": "s", "messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}]},
        "file", ["user: Hi.", f"assistant: {CALLED}", "tool weather: 4 C"],
    ),
    "langsmith": (
        [{**RUN, "id": "r2", "trace_id": "t2", "start_time": T.format(3), "end_time": T.format(4), "inputs": {"messages": [FIRST, ANSWER, SECOND]},
          "outputs": {"generations": [[{"text": "Ok.", "message": {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": "Ok.", "type": "ai"}}}]]}},
         {**RUN, "id": "r1", "trace_id": "t1", "start_time": T.format(1), "end_time": T.format(2), "inputs": {"messages": [FIRST]}, "outputs": {"choices": [{"message": ANSWER}]}}],
        "th", ["user: I row.", "assistant m1: Nice.", "user: And sail.", "assistant m1: Ok."],
    ),
    "langsmith nested": (
        [{**RUN, "id": "t", "run_type": "chain", "start_time": T.format(1), "end_time": T.format(8), "inputs": {"question": "Cold?"}, "outputs": {"answer": "Yes."},
          "child_runs": [
              {**RUN, "id": "c1", "parent_run_id": "t", "start_time": T.format(2), "end_time": T.format(3), "inputs": {"messages": [{"role": "user", "content": "Say if cold? Context."}]},
               "outputs": {"choices": [{"message": {"role": "assistant", "content": "I look.", "tool_calls": [REQUESTED]}}]}},
              {**RUN, "id": "c2", "parent_run_id": "t", "run_type": "tool", "name": "weather", "start_time": T.format(4), "end_time": T.format(5), "inputs": {"input": "Oslo"}, "outputs": {"output": "4 C"}},
              {**RUN, "id": "c3", "parent_run_id": "t", "start_time": T.format(6), "end_time": T.format(7), "outputs": {"choices": [{"message": {"role": "assistant", "content": "Yes."}}]},
               "inputs": {"messages": [{"role": "user", "content": "Say if cold? Context."}, {"role": "assistant", "content": "I look.", "tool_calls": [REQUESTED]},
                                       {"role": "tool", "tool_call_id": "t1", "content": "4 C"}]}}]}],
        "th", ["user: Cold?", f"assistant m1: I look.\n{CALLED}", "tool weather: 4 C", "assistant m1: Yes."],
    ),
    "langfuse": (
        {"trace": {**LANGFUSE, "input": json.dumps([{"role": "system", "content": "s"}, FIRST]), "output": json.dumps(ANSWER)}, "observations": [
            {"id": "o", "traceId": "tr", "type": "GENERATION", "startTime": T.format(1), "model": "m1", "input": json.dumps([FIRST]), "output": json.dumps(ANSWER)}]},
        "s", ["user: I row.", "assistant m1: Nice."],
    ),
}  # fmt: skip
LINES = ("claude-code", "claude-code rewound", "codex", "codex older", "sillytavern")


def written(name: str) -> bytes:
    content = FILES[name][0]
    if name in LINES:
        assert isinstance(content, list)
        return "\n".join(map(json.dumps, content)).encode()
    return json.dumps(content, indent=1).encode()


def said_in(item: Item) -> list[str]:
    assert isinstance(item, Converted), item
    return [f"{turn['role']}{' ' + turn['name'] if 'name' in turn else ''}: {turn['content']}" for turn in item.turns]


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_this_product_is_recognized_and_read(name: str) -> None:
    file = file_of(written(name), "file.json")
    of, findings, options = chosen([file], None), Findings(), Options("ann")

    [found] = sessions(of, options, findings)

    assert (of.format.name, isinstance(found, Converted) and found.session_id) == (name.split()[0], FILES[name][1])
    assert said_in(found) == FILES[name][2]
    assert not findings.unread
    dated = [turn for turn in found.turns if "timestamp" in turn]  # type: ignore[union-attr]
    assert name != "langsmith nested" or [str(turn["timestamp"])[17:19] for turn in found.turns] == [
        "01",
        "03",
        "05",
        "07",
    ]  # type: ignore[union-attr]
    undated = name in ("gemini-api", "gemini-api list", "anthropic", "codex older") or name.startswith("openai-items")
    assert undated or len(dated) == len(found.turns)  # type: ignore[union-attr]
    assert "langchain" not in "".join(warnings_of(findings, options))


@pytest.mark.parametrize(
    ("name", "field", "what"),
    [("open-webui", "content", "body"), ("sillytavern", "mes", "body"), ("characterai", "raw_content", "body"),
     ("claude", "sender", "sender"), ("zep-facts", "fact", "body"), ("vercel", "role", "sender")],
)  # fmt: skip
def test_a_field_that_is_not_there_is_counted(name: str, field: str, what: str) -> None:
    raw = written(name).replace(f'"{field}"'.encode(), b'"xx"')
    findings = Findings()

    list(sessions(chosen([file_of(raw, "f.json")], name), Options("ann"), findings))

    assert findings.unread[what] > 0
    with pytest.raises(InvalidInput, match=f"no {what} that I can read"):
        warnings_of(findings, Options("ann"))


@pytest.mark.parametrize(
    "said", [{"text": "", "content": []}, {"text": None}, {"content": [{"type": "thinking", "thinking": "x"}]}]
)
def test_a_message_in_which_nothing_is_said_is_left_out(said: dict[str, Any]) -> None:
    messages = [claude(1, "human", "0", **said), claude(2, "human", "m1", text="I sail.")]
    findings = Findings()

    [found] = sessions(
        chosen([file_of(json.dumps([{"uuid": "c", "name": "", "chat_messages": messages}]).encode(), "f.json")], None),
        Options("ann"),
        findings,
    )

    assert (said_in(found), findings.unread.total()) == (["user: I sail."], 0)


def test_bare_messages_are_of_the_chat_that_they_name() -> None:
    rows = [
        {"id": f"m{chat}", "chatId": chat, "role": "user", "parts": [{"type": "text", "text": "Hi."}]} for chat in "ab"
    ]

    assert [item.session_id for item in read_file(json.dumps(rows).encode())] == ["a", "b"]


@pytest.mark.parametrize(
    "name", ["claude-code", "claude-code rewound", "codex", "sillytavern", "openai-items", "langsmith", "vercel"]
)
@pytest.mark.parametrize("broken", ['{"type": "user", "mess', "2026-03-01 INFO started"])
@pytest.mark.parametrize("place", [0, 2])
def test_a_broken_line_is_refused_alone(name: str, broken: str, place: int) -> None:
    rows, findings = [json.dumps(row) for row in FILES[name][0]], Findings()  # type: ignore[attr-defined]
    raw = "\n".join([*rows[:place], broken, *rows[place:]]).encode()

    items = list(sessions(chosen([file_of(raw, "file.log")], None), Options("ann"), findings))

    [refused] = [item for item in items if isinstance(item, Refused)]
    [talk] = [item for item in items if item is not refused]
    assert (refused.position, said_in(talk)) == (place + 1, FILES[name][2])
    assert (findings.notices, len(findings.refused)) == (3 if "rewound" in name else 0, 1)


def test_pages_of_one_chat_are_one_session() -> None:
    pages = [{"turns": [cai(n, "zoe", f"Word {n}.", is_human=True)]} for n in (2, 1)]

    [found] = read_file(json.dumps(pages).encode())

    assert said_in(found) == ["user zoe: Word 1.", "user zoe: Word 2."]


def test_a_zip_of_documents_of_hindsight_is_read(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "bank.zip", "w") as made:
        made.writestr("documents/000000.json", written("hindsight document"))
        made.writestr("manifest.json", '{"schema_version": 1, "document_count": 1}')
    with opened(str(tmp_path / "bank.zip")) as files:
        [found] = sessions(chosen(files, None), Options("ann"), Findings())

    assert said_in(found) == ["user: Zoe sails."]


def test_a_page_of_takeout_says_what_to_choose_instead() -> None:
    with pytest.raises(InvalidInput, match="then JSON"):
        read_file(b'<html><head><title>My Activity History</title></head><body><div class="outer-cell mdl-cell">')
