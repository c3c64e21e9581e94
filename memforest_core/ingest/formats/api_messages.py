"""Messages of chat APIs in files, and in traces of their calls.

Files: a list of messages or items, an object that has them (``messages``, ``contents``, ``data``, ``input`` and
``output``), or one object a line. Traces: LangSmith's runs (https://docs.langchain.com/langsmith/run-data-format) and
Langfuse's traces with observations (https://langfuse.com/docs/observability/data-model). A run has the whole
conversation until then as its input; what the runs before it have is taken once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from memforest_core.domain.chat_messages import message_turns, tool_names
from memforest_core.domain.message_parts import decoded, item_role, words_of
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.export_files import File
from memforest_core.ingest.formats.fields import value_of
from memforest_core.ingest.formats.file_items import Refused, name_of
from memforest_core.ingest.formats.format_table import Format, Found, Reader
from memforest_core.ingest.formats.talks import ROLES, Message, Options, Talk

_MAX_DEPTH = 6
_CHAT = "conversation_id thread_id chat_id session_id"
_LISTS = ("messages", "contents", "data", "items", "messages.data", "items.data")
_PAYLOAD = (
    "messages", "contents", "chat_history", "message", "choices", "generations", "input", "inputs", "question", "query",
    "prompt", "prompts", "output", "outputs", "answer", "response", "result", "text", "content", "data", "items",
)  # fmt: skip
"""Where a payload has its messages, the surer names first."""


@dataclass(slots=True)
class Conversation:
    """The messages of a conversation as they are read; a tool's result gets the name of the tool that was called."""

    messages: list[Message] = field(default_factory=list)
    notices: int = 0
    """Messages that carry a program's own data."""
    _tools: dict[str, str] = field(default_factory=dict)

    def add(
        self, raw: object, where: str, speaker: object = None, time: object = None, id: object = None,
        files: Sequence[str] = (), *, mine: bool = False,
    ) -> None:  # fmt: skip
        """Add a message in any form of a chat API. ``speaker`` is who an assistant is; ``time`` and ``id`` are those of
        a message that has none of its own. Raises InvalidInput."""
        if value_of(raw, "role") == "data":  # Vercel's AI SDK 4
            self.notices += 1
            return
        turns = message_turns(raw, where)
        if any("[called " in str(turn.get("content")) for turn in turns):
            self._tools |= tool_names(raw, where)
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


def payload(value: object, role: str, depth: int = 0) -> list[Mapping[str, object]]:
    """The messages in what a program sent or received: one, a list, an object that has them under a usual name, JSON in
    a text, or a text, which ``role`` says. Empty for what has none."""
    if isinstance(value, str):
        inner = decoded(value, 1)
        found = payload(inner, role, depth + 1) if isinstance(inner, dict | list) else []
        return found or ([{"role": role, "content": inner}] if isinstance(inner, str) and inner.strip() else [])
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
    listed, time = value_of(item, "object") == "list", None
    if value_of(item, "object") == "response":
        time = value_of(item, "created_at")
    name = name_of(value_of(item, f"id {_CHAT} data.0.thread_id"))
    try:
        for number, raw in enumerate(_oldest_first(said) if listed else said, 1):
            made.add(raw if isinstance(raw, Mapping) else {"role": "", "value": raw}, f"Message {number}", None, time)
    except InvalidInput as error:
        return Refused(position, error, name)
    title, started = value_of(item, "title"), value_of(item, "created_at create_time started_at")
    title = title if isinstance(title, str) else None
    return Talk(position, name, made.messages, title, started=started, notices=made.notices)


def _oldest_first(items: Sequence[object]) -> Sequence[object]:
    """Items of a page without times (newest first unless requested otherwise): turned where a tool's result is before
    its call, a question follows reasoning or a call, or an answer is first and a question last."""
    calls = [(name_of(value_of(each, "call_id")), item_role(value_of(each, "type"))) for each in items]
    for at, (call, role) in enumerate(calls):
        if call and role == "tool":
            return items[::-1] if (call, "assistant") in calls[at:] else items
    for one, other in pairwise(items):
        pair = [value_of(each, "role") or item_role(value_of(each, "type")) for each in (one, other)]
        made = one if value_of(one, "role") is None else other if value_of(other, "role") is None else None
        if made is not None and {*pair} == {"user", "assistant"}:
            return items if pair[0] == "user" else items[::-1]
    ends = [value_of(items[at], "role") for at in (0, -1)] if items else []
    undated = not any(value_of(each, "created_at") for each in items)
    return items[::-1] if undated and ends == ["assistant", "user"] else items


_STARTED, _ENDED = "start_time timestamp", "end_time start_time timestamp"
_SENT, _RECEIVED = "inputs input", "outputs output"
_MODEL, _KIND = "extra.metadata.ls_model_name model", "run_type type"
_THREAD = "extra.metadata.thread_id extra.metadata.session_id extra.metadata.conversation_id trace_id id"
_STEPS = {"llm", "generation", "tool"}
"""Kinds of runs that call a model or a tool."""
_NO_ZONE = re.compile(r"T\d\d:\d\d:\d\d(?:\.\d+)?\Z")
_Run = Mapping[str, object]


def _traced(under: str, session: str, parent: str, title: str = "") -> Reader:
    """A reader of runs with their child runs, and of traces with their observations; oldest first."""

    def reader(files: Sequence[File], options: Options) -> Iterator[Found]:
        runs: dict[object, tuple[int, _Run]] = {}
        for value in (value for file in files for value in file.values(under)):
            if isinstance(value, Refused):
                yield value
            elif isinstance(value.content, Mapping):
                for run in _unfolded(value.content):
                    runs.setdefault(name_of(value_of(run, "id")) or len(runs), (value.position, run))
        traces: dict[str, list[tuple[int, _Run]]] = {}
        for position, run in sorted(runs.values(), key=lambda one: str(value_of(one[1], _STARTED))):
            traces.setdefault(name_of(value_of(run, "trace_id id")) or f"{position}", []).append((position, run))
        talks: dict[str, Talk] = {}
        for inner in traces.values():
            position, root = next((one for one in inner if value_of(one[1], parent) is None), inner[0])
            name = name_of(value_of(root, session))
            talk = talks.setdefault(name or "", Talk(position, name, [], name_of(value_of(root, title))))
            talk.owner = talk.owner or name_of(value_of(root, "extra.metadata.user_id user_id"))
            try:
                sent, whole = _exchange([run for _, run in inner], parent)
            except InvalidInput as error:
                yield Refused(position, error, name)
                continue
            history = any(each.role == "assistant" for each in (*sent, *whole[: _after_user(whole)]))
            unanswered = bool(talk.messages) and talk.messages[-1].role == "user"
            _merge(talk.messages, whole, 0 if history else len(talk.messages) - unanswered)
        yield from talks.values()

    return reader


def _unfolded(given: _Run) -> Iterator[_Run]:
    """A run and those in it, each with what it has of its trace."""
    coming = [given]
    for run in coming:  # grows
        trace, seen = value_of(run, "trace"), value_of(run, "child_runs observations")
        own = trace if isinstance(trace, Mapping) else run
        yield own
        shared = {name: value_of(own, name) for name in ("session_id", "user_id")}
        if "child_runs" in run:
            shared = {"trace_id": value_of(own, "trace_id id"), "parent_run_id": value_of(own, "id")}
        inner = [each for each in seen if isinstance(each, Mapping)] if isinstance(seen, list) else []
        coming += [shared | {name: found for name, found in each.items() if found is not None} for each in inner]


def _exchange(runs: Sequence[_Run], parent: str) -> tuple[list[Message], list[Message]]:
    """What the first run of a trace was sent, and what was said: what the root has, with the calls and results of the
    runs in it, else what these have, each with the time of its own run. Raises InvalidInput."""
    steps = [run for run in runs if str(value_of(run, _KIND)).lower() in _STEPS]
    model = next((found for run in steps if (found := value_of(run, _MODEL))), None)
    roots = [run for run in runs if value_of(run, parent) is None]
    sides = (_SENT, _RECEIVED)
    root = next((run for run in roots if all(payload(value_of(run, side), "user") for side in sides)), None)
    tools: dict[str, str] = {}
    inner: list[Message] = []
    times: dict[tuple[str | None, str | None], object] = {}
    read = {id(run): _sides(run, model, tools) for run in (steps or ([] if root else roots or runs[:1]))}
    for sent, received in read.values():
        for each in received:
            times.setdefault((each.role, each.text), each.time)
        said = [*sent[_after_user(sent) if root else 0 :], *received]
        _merge(inner, said, len(inner) if not sent and received and received[0].role == "tool" else 0)
    if root is None:
        return next(iter(read.values()))[0], inner
    sent, received = read.get(id(root)) or _sides(root, model, tools)
    at = _after_user(received)  # it may have all that was said until then
    head, received = (received[:at], received[at:]) if at else (sent, received)
    whole = list(head)
    _merge(whole, [one for one in inner if one.role == "tool" or "[called " in (one.text or "")], _after_user(head))
    _merge(whole, received, len(head))
    times = {(each.role, each.text): each.time for each in sent if each.role == "user"} | times
    return sent, [replace(each, time=times.get((each.role, each.text), each.time)) for each in whole]


def _sides(run: _Run, model: object, tools: dict[str, str]) -> tuple[list[Message], list[Message]]:
    """What a run sent and received, without instructions; of a tool's run its result."""
    tool = str(value_of(run, _KIND)).lower() == "tool"
    made: list[list[Message]] = []
    for side, role, time in ((_SENT, "user", _STARTED), (_RECEIVED, "assistant", _ENDED)):
        value, said = value_of(run, side), Conversation(_tools=tools)
        raws = payload(value, role) if not tool else _result(value) if role == "assistant" else []
        for number, raw in enumerate(raws, 1):
            said.add(raw, f"Message {number}", value_of(run, _MODEL) or model, _utc(value_of(run, time)))
        silent = value is None or value_of(value, "generations") in ([], [[]])
        if not (raws or tool or silent):
            said.messages.append(Message(None, role, raw=run))
        for message in said.messages if tool else ():
            message.speaker = message.speaker or name_of(value_of(run, "name"))
        made.append([each for each in said.messages if each.role != "system"])
    return made[0], made[1]


def _result(value: object) -> list[Mapping[str, object]]:
    """The message of a tool's result."""
    inner = value_of(value, "output")
    found = decoded(value if inner is None else inner)
    if isinstance(found, Mapping) and {"lc", "role", "tool_call_id"} & found.keys():
        return [found]
    return [] if found is None else [{"role": "tool", "content": words_of(found, "The output")}]


def _utc(time: object) -> object:
    """A time of LangSmith's, which is in UTC and names no zone."""
    return f"{time}Z" if isinstance(time, str) and _NO_ZONE.search(time) else time


def _after_user(messages: Sequence[Message]) -> int:
    """The place behind the user's last message, 0 without one."""
    return max((at for at, each in enumerate(messages, 1) if each.role == "user"), default=0)


def _merge(old: list[Message], new: Sequence[Message], start: int) -> None:
    """Add the new messages that are not among the old ones, in their order, from this place on."""
    for message in new:
        place = next((at for at in range(start, len(old)) if _same(old[at], message)), None)
        if place is None:
            old.append(message)
        else:
            start = place + 1


def _same(one: Message, other: Message) -> bool:
    if one.role != "tool" or other.role != "tool":
        return one.text == other.text and one.role == other.role
    calls = [each.metadata.get("tool_call_id") for each in (one, other)]
    return calls[0] == calls[1] if all(calls) else one.text == other.text or one.speaker == other.speaker is not None


API_MESSAGES = (
    Format("vercel", "messages of Vercel's AI SDK", api_files,
           ("parts.type role id", "messages.parts.type messages.role", "toolInvocations role",
            "messages.toolInvocations messages.role", "chatId parts role", "role=data id content",
            "messages.role=data messages.id")),
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
    Format("langsmith", "LangSmith's runs", _traced("runs data", _THREAD, "parent_run_id"),
           ("run_type inputs start_time", "run_type dotted_order", "runs.run_type runs.inputs")),
    Format("langfuse", "Langfuse's traces",
           _traced("traces data", "session_id trace_id id", "trace_id", "trace_name name"),
           ("trace.id trace.timestamp observations", "trace.id trace.projectId", "traceId startTime input",
            "trace_id start_time input output", "htmlPath timestamp input", "sessionId userId timestamp projectId",
            "data.htmlPath data.timestamp")),
)  # fmt: skip
