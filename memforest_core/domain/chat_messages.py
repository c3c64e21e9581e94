"""Messages of chat APIs as the fields of a turn: content in parts, tool calls, objects of client libraries.

The shapes: https://platform.openai.com/docs/api-reference/chat/create (messages) and LangChain's ``messages_to_dict``
and ``model_dump`` of its messages. Neither package is imported: the fields of an object are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Required, TypedDict

from memforest_core.errors import InvalidInput

MAX_CALLS = 16
"""Calls of one message that are written out; more are counted."""
MAX_NAME_CHARS = 100
MAX_ARGUMENT_CHARS = 500
"""Of the arguments of one call, written as JSON."""


class TurnInput(TypedDict, total=False):
    """A turn as a caller sends it (docs/input.md)."""

    role: Required[str]
    """user, assistant, system or tool."""
    content: Required[str | Sequence[Mapping[str, object]]]
    """Text, or the content parts of a chat API."""
    id: str
    """The caller's own, unique in the session."""
    timestamp: str | float | datetime
    """ISO 8601, unix seconds or milliseconds, or a datetime."""
    speaker_id: str
    name: str
    metadata: Mapping[str, object]


TURN_KEYS = frozenset(TurnInput.__annotations__)
_READ = {"tool_calls", "function_call", "tool_call_id", "refusal", "audio", "type"}
"""Fields of others that become part of a turn."""
_LEFT_NAMES = """
    additional_kwargs annotations artifact example invalid_tool_calls parsed response_metadata status usage_metadata
"""
_LEFT = frozenset(_LEFT_NAMES.split())
"""Fields of others that say nothing worth remembering."""
_TEXT_PARTS = {"text", "input_text", "output_text"}
_PLACEHOLDERS = {
    "image_url": "image",
    "input_image": "image",
    "input_audio": "audio",
    "input_file": "file",
    "refusal": "refusal",
}
"""Parts without words for us; a part of any other type is named by its type."""
_SILENT_PARTS = {"thinking", "reasoning", "redacted_thinking", "tool_use", "tool_call"}
"""Parts that are no part of what was said, or that ``tool_calls`` repeats."""


def turn_fields(message: object, where: str) -> Mapping[str, object]:
    """The fields of a turn in a message: a mapping, or an object with ``model_dump`` (openai, LangChain).

    Text parts are joined by line breaks; other parts become a mark such as ``[image]``. Tool calls become
    ``[called NAME(ARGUMENTS)]``. ``tool_call_id`` goes into the metadata. Unknown
    fields of a mapping stay, to be refused later; those of an object are left out. Raises InvalidInput.
    """
    fields = _fields(message, where)
    if not fields.keys() - TURN_KEYS and isinstance(fields.get("content"), str):
        return fields
    if "role" not in fields and "type" in fields:
        inner = fields.get("data")
        outer = {name: value for name, value in fields.items() if name != "data"}
        fields = {**(outer | dict(inner) if isinstance(inner, Mapping) else fields), "role": fields["type"]}
    turn = {name: value for name, value in fields.items() if name not in _READ | _LEFT}
    said = _said(fields, where)
    if said is not None:
        turn["content"] = said
    if fields.get("tool_call_id") is not None:
        metadata = turn.get("metadata")
        turn["metadata"] = {
            **(metadata if isinstance(metadata, Mapping) else {}),
            "tool_call_id": fields["tool_call_id"],
        }
    return turn


def _fields(message: object, where: str) -> Mapping[str, object]:
    if isinstance(message, Mapping):
        return message
    dump = getattr(message, "model_dump", None)
    fields = dump(mode="json") if callable(dump) and not isinstance(message, type) else None
    if not isinstance(fields, Mapping):
        raise InvalidInput(f"{where}: send an object with role and content.", code="invalid_turns")
    return {name: value for name, value in fields.items() if name in TURN_KEYS | _READ and value is not None}


def _said(fields: Mapping[str, object], where: str) -> object:
    """The text of a message; its content as it is when that is neither text nor parts."""
    content = fields.get("content")
    if isinstance(content, list | tuple):
        parts = [_part(part, where) for part in content]
    elif isinstance(content, str):
        parts = [content]
    elif content is None:
        parts = []
    else:
        return content
    for name in ("refusal", "audio"):
        if fields.get(name):
            parts.append(f"[{name}]")
    parts += _calls(fields)
    return "\n".join(part for part in parts if part) or content


def _part(part: object, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise InvalidInput(f"{where}: give each content part a type, such as text.", code="invalid_content")
    if kind in _SILENT_PARTS:
        return ""
    if kind in _TEXT_PARTS:
        if not isinstance(part.get("text"), str):
            raise InvalidInput(f"{where}: give the content part of type {kind} a text.", code="invalid_content")
        return str(part["text"])
    return f"[{_PLACEHOLDERS.get(kind, _short(kind, MAX_NAME_CHARS))}]"


def _calls(fields: Mapping[str, object]) -> list[str]:
    calls = fields.get("tool_calls")
    given: list[object] = list(calls) if isinstance(calls, list | tuple) else []
    if fields.get("function_call") is not None:
        given.append(fields["function_call"])
    lines = [_call(call) for call in given[:MAX_CALLS]]
    if len(given) > MAX_CALLS:
        lines.append(f"[{len(given) - MAX_CALLS} more calls]")
    return lines


def _call(call: object) -> str:
    """One call as text. Under ``function`` or ``custom`` (OpenAI), or flat (LangChain)."""
    named: Mapping[str, object] = call if isinstance(call, Mapping) else {}
    for under in ("function", "custom"):
        inner = named.get(under)
        if isinstance(inner, Mapping):
            named = inner
    arguments = next((named[key] for key in ("arguments", "args", "input") if named.get(key) is not None), "")
    return f"[called {_short(str(named.get('name') or 'a tool'), MAX_NAME_CHARS)}({_arguments(arguments)})]"


def _arguments(arguments: object) -> str:
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments, ensure_ascii=False, default=str)
        except (TypeError, ValueError, RecursionError):
            return "…"
    return _short(arguments, MAX_ARGUMENT_CHARS)


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
