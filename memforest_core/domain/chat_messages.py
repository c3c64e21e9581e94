"""Messages of chat APIs as turns: content in parts, tools' calls and results, objects of client libraries.

A message is one turn, none when nothing was said (an empty answer, reasoning alone), or several: a tool's result is a
turn of its own. Shapes: OpenAI's chat, Responses items and threads; Anthropic; Gemini; LangChain's
``messages_to_dict``, ``model_dump`` and ``dumpd``; the AI SDK's UIMessage; litellm. No such package is imported: the
fields of an object are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Required, TypedDict

from memforest_core.domain.message_parts import Said, Segment, called, item_role, segments_of
from memforest_core.errors import InvalidInput

MAX_CALLS = 16
"""Calls of one message that are written out; more are counted."""


class TurnInput(TypedDict, total=False):
    """A turn as a caller sends it (docs/input.md)."""

    role: Required[str]
    """user, assistant, system or tool."""
    content: Required[str | Sequence[Mapping[str, object] | str]]
    """Text, or the content parts of a chat API."""
    id: str
    """The caller's own, unique in the session."""
    timestamp: str | float | datetime
    """ISO 8601, unix seconds or milliseconds, or a datetime."""
    speaker_id: str
    name: str
    metadata: Mapping[str, object]


TURN_KEYS = frozenset(TurnInput.__annotations__)
_FILES = ("experimental_attachments", "attachments", "images")
"""Fields with a list of a message's files (the AI SDK, OpenAI's threads, litellm)."""
_TIMES = ("created_at", "createdAt", "create_time", "createTime")
_READ = {*_FILES, *_TIMES, *("tool_calls", "function_call", "tool_call_id", "refusal", "audio", "type", "parts")} | {
    "toolInvocations"
}
"""Fields of others that become part of a turn."""
_LEFT_NAMES = """
    additional_kwargs annotations artifact assistant_id cache_control completed_at container context_management example
    file_ids incomplete_at incomplete_details invalid_tool_calls model object parsed phase provider_specific_fields
    reasoning reasoning_content reasoning_details reasoning_items response_metadata revisionId run_id status stop_reason
    chunk_position stop_sequence thinking_blocks thread_id tool_call_chunks usage usage_metadata
"""
_LEFT = frozenset(_LEFT_NAMES.split())
"""Fields of others that say nothing worth remembering."""
_MAY_BE_EMPTY = {"assistant", "ai", "model", "tool", "function"}
"""Roles whose messages without words are left out; those of others are refused."""
_LIFTED = ("tool_calls", "function_call", "timestamp", "created_at")
"""What LangChain and programs with it put into ``additional_kwargs``."""
_REMOVED = "remove"
"""LangChain's mark that a message was taken out: it says nothing."""


def message_turns(message: object, where: str) -> list[Mapping[str, object]]:
    """The turns of a message: a mapping, or an object with ``model_dump`` (openai, LangChain, google-genai, litellm).

    Text parts are joined by line breaks; files become a mark such as ``[image: cat.png]``, calls
    ``[called NAME(ARGUMENTS)]``. A tool's result is a turn of role tool, with the call's id in the metadata; the second
    turn of a message with an id has the id ``ID#2``. Unknown fields of a mapping stay, to be refused later; those of an
    object, and those that are None, are left out. Raises InvalidInput.
    """
    turn, call, segments = _read(message, where)
    if turn.get("role") == _REMOVED:
        return []
    if not segments:
        empty = not turn.get("content") or isinstance(turn["content"], str | list | tuple)
        skipped = empty and turn.keys() <= TURN_KEYS and (str(turn.get("role")) in _MAY_BE_EMPTY or _answers(turn))
        return [] if skipped else [turn]
    made = [_turn(turn, call, list(said)) for _, said in groupby(segments, _grouped)]
    own = turn.get("id")
    return [each if number == 1 or not own else each | {"id": f"{own}#{number}"} for number, each in enumerate(made, 1)]


def turn_fields(message: object, where: str) -> Mapping[str, object]:
    """A message as one turn, with the words of tools' results among its own. Raises InvalidInput."""
    turn, call, segments = _read(message, where)
    return _turn(turn, call, segments) if segments else turn


def tool_names(message: object, where: str) -> dict[str, str]:
    """The names of the tools that a message calls, by the ids of the calls. Raises InvalidInput."""
    calls = (segment for segment in _read(message, where)[2] if segment.said is Said.CALL)
    return {segment.call: segment.tool for segment in calls if segment.call and segment.tool}


def _read(message: object, where: str) -> tuple[dict[str, object], object, list[Segment]]:
    """The fields of a message's turns but their words, the id of the call that it answers, and what it says."""
    fields = _flat(_fields(message, where))
    turn = {name: value for name, value in fields.items() if name not in _READ | _LEFT}
    if "timestamp" not in turn and (said_at := _time(fields)) is not None:
        turn["timestamp"] = said_at
    known = isinstance(fields.get("content"), str | list | tuple | None)
    segments = [segment for segment in _segments(fields, where) if segment.text.strip()] if known else []
    return turn, fields.get("tool_call_id"), segments


def _fields(message: object, where: str) -> Mapping[str, object]:
    if isinstance(message, Mapping):
        return message
    dump = getattr(message, "model_dump", None)
    fields = dump(mode="json") if callable(dump) and not isinstance(message, type) else None
    if not isinstance(fields, Mapping):
        raise InvalidInput(f"{where}: send an object with role and content.", code="invalid_turns")
    if item_role(fields.get("type")):
        return fields
    return {name: value for name, value in fields.items() if name in TURN_KEYS | _READ}


def _flat(given: Mapping[str, object]) -> dict[str, object]:
    """The fields with a role and with content, out of a wrapper (LangChain), an item (Responses) or parts (Gemini)."""
    fields = {str(name): value for name, value in given.items() if value is not None}
    kwargs, data, kind = fields.get("kwargs"), fields.get("data"), fields.get("type")
    if "lc" in fields and isinstance(kwargs, Mapping):
        path = fields.get("id")
        kind = path[-1] if isinstance(path, list) and path else kwargs.get("type")
        fields = {name: value for name, value in kwargs.items() if value is not None}
    elif "role" not in fields and isinstance(data, Mapping) and isinstance(kind, str):
        del fields["data"]
        fields |= {name: value for name, value in data.items() if value is not None}
    if "role" not in fields and (role := item_role(kind)):
        alone: dict[str, object] = {
            name: fields[name] for name in ("id", "timestamp", "created_at", "metadata") if name in fields
        }
        return {**alone, "role": role, "content": [fields]}
    if "role" not in fields and kind is not None:
        fields["role"] = str(kind).strip().removesuffix("Chunk").removesuffix("Message").lower()
    more = fields.get("additional_kwargs")
    lifted = more if isinstance(more, Mapping) else {}
    fields |= {name: lifted[name] for name in _LIFTED if lifted.get(name) and not fields.get(name)}
    return _with_parts(fields)


def _with_parts(fields: dict[str, object]) -> dict[str, object]:
    """The fields with ``parts`` (Gemini, the AI SDK) or a single part as content."""
    content, parts = fields.get("content"), fields.get("parts")
    if isinstance(content, Mapping):
        inner = content.get("parts")
        fields["content"] = inner if isinstance(inner, list) else [content] if "type" in content else content
    elif isinstance(parts, list | tuple) and parts:
        if not any(isinstance(part, Mapping) and "type" in part for part in parts):
            fields.setdefault("role", "user")  # Gemini's without a role
        worded = any(isinstance(part, str) or (isinstance(part, Mapping) and part.get("text")) for part in parts)
        fields["content"] = [*([content] if isinstance(content, str) and not worded else []), *parts]
    return fields


def _time(fields: Mapping[str, object]) -> object | None:
    metadata = fields.get("metadata")
    objects = (fields, metadata if isinstance(metadata, Mapping) and "parts" in fields else {})
    found = (each.get(name) for each in objects for name in _TIMES)
    return next((value for value in found if isinstance(value, str | int | float | datetime) and value), None)


def _segments(fields: Mapping[str, object], where: str) -> list[Segment]:
    """What a message says, segment by segment; calls that the content repeats are taken once, and at most 16."""
    content = fields.get("content")
    parts = list(content) if isinstance(content, list | tuple) else [content] if isinstance(content, str) else []
    calls = [called(call) for call in (*_listed(fields, "tool_calls"), *_listed(fields, "function_call"))]
    ids = {call.call for call in calls}
    segments = [
        segment
        for part in parts
        for segment in segments_of(part, where)
        if segment.said is not Said.CALL or not calls or (segment.call and segment.call not in ids)
    ]
    segments += [
        segment
        for part in _others(fields, [segment.call for segment in segments])
        for segment in segments_of(part, where)
    ]
    segments += calls
    more = [segment for segment in segments if segment.said is Said.CALL][MAX_CALLS:]
    left = {id(segment) for segment in more}
    segments = [segment for segment in segments if id(segment) not in left]
    return [*segments, Segment(Said.WORDS, f"[{len(more)} more calls]")] if more else segments


def _others(fields: Mapping[str, object], known: Sequence[object]) -> Iterator[object]:
    """Parts that a message has outside of its content."""
    if fields.get("refusal"):
        yield {"type": "refusal", "refusal": fields["refusal"]}
    if fields.get("audio"):
        audio = fields["audio"]
        yield {**(audio if isinstance(audio, Mapping) else {}), "type": "audio"}
    for name in _FILES:
        for file in _listed(fields, name):
            own = file if isinstance(file, Mapping) else {}
            yield {"name": own.get("file_id"), **own, "type": "image_url" if name == "images" else "file"}
    for call in _listed(fields, "toolInvocations"):
        if isinstance(call, Mapping) and call.get("toolCallId") not in known:
            yield {"type": "tool-invocation", "toolInvocation": call}


def _listed(fields: Mapping[str, object], name: str) -> list[object]:
    value = fields.get(name)
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _grouped(segment: Segment) -> object:
    """Equal for neighbours that are one turn: what was said; each result of a tool is its own."""
    return id(segment) if segment.said is Said.RESULT else None


def _turn(turn: Mapping[str, object], call: object, said: Sequence[Segment]) -> dict[str, object]:
    """A turn with these segments, and the id of the call that it answers in its metadata."""
    made, first = dict(turn), said[0]
    if first.said is Said.RESULT:
        made = {name: value for name, value in turn.items() if name not in ("name", "speaker_id")}
        made |= {"role": "tool"} | ({"name": first.tool} if first.tool else {})
        call = first.call or call
    if call is not None:
        metadata = turn.get("metadata")
        made["metadata"] = {**(metadata if isinstance(metadata, Mapping) else {}), "tool_call_id": call}
    return made | {"content": "\n".join(segment.text for segment in said)}


def _answers(turn: Mapping[str, object]) -> bool:
    """Whether the parts of a message include a result of a tool, which had no words."""
    content = turn.get("content")
    kinds = (part.get("type") for part in content if isinstance(part, Mapping)) if isinstance(content, list) else ()
    return any(item_role(kind) for kind in kinds)
