"""Messages of chat APIs in files, and in traces of their calls.

Files: a list of messages or items, an object that has them (``messages``, ``contents``, ``data``, ``input`` and
``output``), or one object a line. Traces: LangSmith's runs (https://docs.langchain.com/langsmith/run-data-format) and
Langfuse's traces with observations (https://langfuse.com/docs/observability/data-model). A run has the whole
conversation until then as its input; what the runs before it have is taken once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memforest_core.domain.chat_messages import message_turns, tool_names
from memforest_core.domain.message_parts import item_role
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.export_files import File
from memforest_core.ingest.formats.fields import value_of
from memforest_core.ingest.formats.file_items import Item, Refused, name_of
from memforest_core.ingest.formats.format_table import Format, Found, Reader
from memforest_core.ingest.formats.talks import ROLES, Message, Options, Talk

_MAX_DEPTH = 6
_CHAT = "conversation_id thread_id chat_id session_id"
_LISTS = ("messages", "contents", "data", "items", "messages.data", "items.data")
_PAYLOAD = (
    "messages", "contents", "chat_history", "message", "choices", "generations", "input", "inputs", "question", "query",
    "prompt", "output", "outputs", "answer", "response", "result", "text", "content", "data", "items",
)  # fmt: skip
"""Where a payload has its messages, the surer names first."""


@dataclass(slots=True)
class Conversation:
    """The messages of a conversation as they are read; a tool's result gets the name of the tool that was called."""

    messages: list[Message] = field(default_factory=list)
    _tools: dict[str, str] = field(default_factory=dict)

    def add(
        self, raw: object, where: str, speaker: object = None, time: object = None, id: object = None,
        files: Sequence[str] = (), *, mine: bool = False,
    ) -> None:  # fmt: skip
        """Add a message in any form of a chat API. ``speaker`` is who an assistant is; ``time`` and ``id`` are those of
        a message that has none of its own. Raises InvalidInput."""
        raw = _with_objects(raw)
        self._tools |= tool_names(raw, where)
        turns = message_turns(raw, where)
        for number, turn in enumerate(turns or [{"role": "user", "content": ""}] if files else turns):
            role = ROLES.get(str(turn.get("role")).strip().lower())
            content, metadata, own = turn.get("content"), turn.get("metadata"), name_of(turn.get("id"))
            call = metadata.get("tool_call_id") if isinstance(metadata, Mapping) else None
            if own is None and (given := name_of(id)):
                own = given if number == 0 else f"{given}#{number + 1}"
            named = name_of(turn.get("name"))
            if role == "assistant":
                named = named or name_of(speaker)
            elif role == "tool":
                named = named or self._tools.get(str(call))
            silent = isinstance(content, list) or (isinstance(raw, Mapping) and raw.get("content", raw) is None)
            text = content if isinstance(content, str) else "" if silent else None
            made = Message(text, role, named, time=turn.get("timestamp", time), id=own, raw=raw)
            made.mine, made.files = mine and role == "user", files if number == 0 else ()
            made.metadata = {"tool_call_id": call} if call else {}
            self.messages.append(made)


def _with_objects(raw: object, levels: int = 3) -> object:
    """A message with the arguments of its calls as objects, so that all are written alike."""
    if not isinstance(raw, Mapping) or not levels:
        return raw
    made, calls, text = dict(raw), raw.get("tool_calls"), raw.get("arguments")
    if isinstance(text, str):
        made["arguments"] = text if (found := _parsed(text)) is None else found
    if isinstance(raw.get("function"), Mapping):
        made["function"] = _with_objects(raw["function"], levels - 1)
    if isinstance(calls, list):
        made["tool_calls"] = [_with_objects(each, levels - 1) for each in calls]
    return made


def payload(value: object, role: str, depth: int = 0) -> list[Mapping[str, object]]:
    """The messages in what a program sent or received: one, a list, an object that has them under a usual name, JSON in
    a text, or a text, which ``role`` says. Empty for what has none."""
    if isinstance(value, str):
        inner = _parsed(value)
        found = [] if inner is None else payload(inner, role, depth + 1)
        return found or ([{"role": role, "content": value}] if value.strip() and inner is None else [])
    if depth > _MAX_DEPTH:
        return []
    if isinstance(value, list):
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str) and value[0].lower() in ROLES:
            return [{"role": value[0], "content": value[1]}]  # LangChain's short form
        return [message for each in value for message in payload(each, role, depth + 1)]
    if not isinstance(value, Mapping):
        return []
    kind = value.get("type")
    if {"role", "lc"} & {*value} or item_role(kind) or (isinstance(kind, str) and {"content", "data"} & {*value}):
        return [value]
    for name in _PAYLOAD:
        inner = value_of(value, name)
        inner = inner[:1] if name == "choices" and isinstance(inner, list) else inner
        if found := payload(inner, role, depth + 1):
            return found
    return [{"role": role, **value}] if "parts" in value else []


def _parsed(text: str) -> object | None:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def api_files(files: Sequence[File], options: Options) -> Iterator[Found]:
    """A conversation for each object that has messages; bare messages are of the one that they name, or of the file."""
    for file in files:
        bare: dict[str | None, list[object]] = {}
        for value in file.values():
            if isinstance(value, Refused):
                yield value
                continue
            item = value.content
            alone = value_of(item, "role parts content") is not None or item_role(value_of(item, "type"))
            listed = [value_of(item, name) for name in _LISTS]
            said = None if alone else next((each for each in listed if isinstance(each, list)), None)
            if said is None and not alone:
                both = payload(value_of(item, "input"), "user") + payload(value_of(item, "output"), "assistant")
                said = both or None
            if said is None:
                bare.setdefault(name_of(value_of(item, _CHAT)), []).append(item)
            else:
                yield _talk(value.position, item, said)
        for name, messages in bare.items():
            yield _talk(1, {"id": name}, messages)


def _talk(position: int, item: object, said: Sequence[object]) -> Talk | Refused:
    """The conversation of an object with these messages; one with a message that can't be read is refused."""
    made = Conversation()
    listed = value_of(item, "object") == "list"
    name = name_of(value_of(item, f"id {_CHAT} data.0.thread_id"))
    try:
        for number, raw in enumerate(_oldest_first(said) if listed else said, 1):
            made.add(raw if isinstance(raw, Mapping) else {"role": "", "value": raw}, f"Message {number}")
    except InvalidInput as error:
        return Refused(position, error, name)
    title, started = value_of(item, "title"), value_of(item, "created_at create_time started_at")
    return Talk(position, name, made.messages, title if isinstance(title, str) else None, started=started)


def _oldest_first(items: Sequence[object]) -> Sequence[object]:
    """Items of a page without times (newest first unless requested otherwise): turned where a tool's result is before
    its call, or an answer is first and a question last."""
    calls = [(name_of(value_of(each, "call_id")), item_role(value_of(each, "type"))) for each in items]
    for at, (call, role) in enumerate(calls):
        if call and role == "tool":
            return items[::-1] if (call, "assistant") in calls[at:] else items
    ends = [value_of(items[at], "role") for at in (0, -1)] if items else []
    undated = not any(value_of(each, "created_at") for each in items)
    return items[::-1] if undated and ends == ["assistant", "user"] else items


@dataclass(frozen=True, slots=True)
class _Names:
    """Under which names a trace's runs have what is needed."""

    trace: str
    session: str
    owner: str
    started: str
    ended: str
    sent: str
    received: str
    model: str
    parent: str
    kind: str
    """Whether it is a call of a model."""
    title: str = ""


_LANGSMITH = _Names(
    "trace_id id", "extra.metadata.thread_id extra.metadata.session_id extra.metadata.conversation_id trace_id id",
    "extra.metadata.user_id", "start_time", "end_time", "inputs", "outputs", "extra.metadata.ls_model_name",
    "parent_run_id", "run_type",
)  # fmt: skip
_LANGFUSE = _Names(
    "trace_id id", "session_id trace_id id", "user_id", "start_time timestamp", "end_time start_time timestamp",
    "input", "output", "model", "trace_id", "type", "trace_name name",
)  # fmt: skip
_NO_ZONE = re.compile(r"T\d\d:\d\d:\d\d(?:\.\d+)?\Z")
_MODEL_KINDS = {"llm", "generation"}


def _traced(names: _Names, under: str) -> Reader:
    """A reader of runs, and of traces with their observations."""

    def reader(files: Sequence[File], options: Options) -> Iterator[Found]:
        runs: list[tuple[int, Mapping[str, object]]] = []
        for value in (value for file in files for value in file.values(under)):
            if isinstance(value, Refused):
                yield value
            elif isinstance(value.content, Mapping):
                trace, seen = value_of(value.content, "trace"), value_of(value.content, "observations")
                own = trace if isinstance(trace, Mapping) else value.content
                shared = {name: value_of(own, name) for name in ("session_id", "user_id")}
                inner = [each for each in seen if isinstance(each, Mapping)] if isinstance(seen, list) else []
                runs += [(value.position, own), *((value.position, {**shared, **each}) for each in inner)]
        yield from _traces(runs, names)

    return reader


def _traces(runs: Sequence[tuple[int, Mapping[str, object]]], names: _Names) -> Iterator[Talk | Item]:
    """The conversations of runs, oldest first: of each trace what its root has, else what its calls of models have."""
    traces: dict[str, list[tuple[int, Mapping[str, object]]]] = {}
    for position, run in sorted(runs, key=lambda one: str(value_of(one[1], names.started))):
        traces.setdefault(name_of(value_of(run, names.trace)) or f"{position}", []).append((position, run))
    talks: dict[str, tuple[Talk, Conversation]] = {}
    for inner in traces.values():
        roots = [one for one in inner if value_of(one[1], names.parent) is None]
        calls = [one for one in inner if str(value_of(one[1], names.kind)).lower() in _MODEL_KINDS]
        sides = (names.sent, names.received)
        whole = [one for one in roots if all(payload(value_of(one[1], side), "user") for side in sides)]
        model = next((value_of(one[1], names.model) for one in calls), None)
        for position, run in whole or calls or roots or inner[:1]:
            name = name_of(value_of(run, names.session))
            new = Talk(position, name, [], name_of(value_of(run, names.title)))
            talk, made = talks.setdefault(name or "", (new, Conversation()))
            talk.owner = talk.owner or name_of(value_of(run, names.owner))
            try:
                _add_run(made, run, names, model)
            except InvalidInput as error:
                yield Refused(position, error, name)
    for talk, made in talks.values():
        talk.messages = made.messages
        yield talk


def _add_run(made: Conversation, run: Mapping[str, object], names: _Names, model: object) -> None:
    """Add what a run sent and received, without what the conversation has already."""
    speaker = value_of(run, names.model) or model
    for side, role, time in ((names.sent, "user", names.started), (names.received, "assistant", names.ended)):
        said = Conversation(_tools=made._tools)
        for number, raw in enumerate(payload(value_of(run, side), role), 1):
            said.add(raw, f"Message {number}", speaker, _utc(value_of(run, time)))
        new = [each for each in said.messages if each.role != "system"]
        made.messages += new[_known(made.messages, new) :]
        if not said.messages and value_of(run, side) is not None:
            made.messages.append(Message(None, role, raw=run))


def _utc(time: object) -> object:
    """A time of LangSmith's, which is in UTC and names no zone."""
    return f"{time}Z" if isinstance(time, str) and _NO_ZONE.search(time) else time


def _known(before: Sequence[Message], new: Sequence[Message]) -> int:
    """How many of the new messages the conversation begins or ends with."""
    old, fresh = ([(each.role, each.text) for each in some] for some in (before, new))
    longest = range(min(len(old), len(fresh)), 0, -1)
    return next((n for n in longest if fresh[:n] in (old[:n], old[-n:])), 0)


API_MESSAGES = (
    Format("vercel", "messages of Vercel's AI SDK", api_files,
           ("parts.type role id", "messages.parts.type messages.role", "toolInvocations role",
            "messages.toolInvocations messages.role", "chatId parts role")),
    Format("gemini-api", "Gemini's contents", api_files,
           ("contents.parts contents.role", "contents.parts.text", "parts.text role=model", "parts.text role")),
    Format("openai-items", "items of OpenAI's Responses, conversations and threads", api_files,
           ("type=function_call call_id arguments", "type=function_call_output call_id output",
            "content.type=input_text role", "content.type=output_text role", "object=response output",
            "data.object=thread.message object=list", "object=thread.message content thread_id",
            "data.type=message object=list data.content", "data.type=function_call object=list",
            "data.content.type=input_text object=list")),
    Format("anthropic", "messages of Anthropic's API", api_files,
           ("messages.content.type=tool_use messages.role messages.content.input",
            "messages.content.type=tool_result messages.role messages.content.tool_use_id",
            "messages.content.type=thinking messages.role messages.content.thinking",
            "content.type=tool_use role content.input", "content.type=tool_result role content.tool_use_id")),
    Format("langsmith", "LangSmith's runs", _traced(_LANGSMITH, "runs data"),
           ("run_type inputs start_time", "run_type dotted_order", "runs.run_type runs.inputs")),
    Format("langfuse", "Langfuse's traces", _traced(_LANGFUSE, "traces data"),
           ("trace.id trace.timestamp observations", "trace.id trace.projectId", "traceId startTime input",
            "trace_id start_time input output", "htmlPath timestamp input", "sessionId userId timestamp projectId",
            "data.htmlPath data.timestamp")),
)  # fmt: skip
