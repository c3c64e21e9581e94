"""Parts of the messages of chat APIs: words, calls of tools, results of tools, and marks for files.

The shapes are those of the packages' own types: anthropic ``types/*_block_param``, openai ``types/responses`` and
``types/beta/threads``, google-genai ``types.Part``, langchain-core ``messages/content``, the AI SDK's ``UIMessage`` and
``ModelMessage``, Bedrock's ``ContentBlock``. None of them is imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from memforest_core.errors import InvalidInput

MAX_NAME_CHARS = 100
MAX_ARGUMENT_CHARS = 500
"""Of the arguments of one call, written as JSON."""
_MAX_DEPTH = 8
"""Deeper results of tools are written as JSON."""


class Said(StrEnum):
    """What a segment of a message is."""

    WORDS = "words"
    CALL = "call"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of a message as text; ``tool`` and ``call`` name the tool and the id of its call."""

    said: Said
    text: str
    tool: str | None = None
    call: str | None = None


_SILENT = {
    "thinking", "think", "reasoning", "redacted_thinking", "reasoning_content", "reasoning_summary", "thought",
    "step_start", "source", "source_url", "source_document", "cache_point", "item_reference", "compaction",
    "compaction_trigger", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response",
    "additional_tools", "guard_content", "citation", "token_budget",
}  # fmt: skip
"""Parts that are no part of what was said."""
_TEXTS = {"text", "input_text", "output_text", "summary_text"}
_SPOKEN = {"input_audio", "output_audio", "audio"}
"""Parts that may have a transcript."""
_FILES = {
    "image": "image image_url input_image image_file computer_screenshot image_generation_call",
    "audio": "input_audio output_audio audio",
    "video": "video video_url input_video",
    "file": "file text_plain input_file inline_data file_data container_upload media",
    "document": "document",
    "refusal": "refusal",
}
_MARKS = {kind: label for label, kinds in _FILES.items() for kind in kinds.split()}
"""Parts without words for us; a part of any other type is named by its type."""
_CALL = re.compile(r"(?:.+_)?(?:tool_use|call|call_chunk)|tool_invocation|dynamic_tool|executable_code|program")
_RESULT = re.compile(
    r"(?:.+_)?(?:tool_result|call_output|function_response|tool_response|tool_error|code_execution_result)"
    r"|tool_search_output|program_output"
)
_CALLS_SUFFIX = re.compile(r"_(?:call|tool_use|call_output|tool_result)\Z")
_TYPELESS = (
    *("function_call", "function_response", "inline_data", "file_data", "executable_code", "code_execution_result"),
    *("tool_call", "tool_response", "tool_use", "tool_result", "image", "video", "audio", "document", "json"),
    *("reasoning_content", "cache_point", "guard_content", "text"),
)
"""Parts that are named by a key instead of a type (Gemini, Bedrock)."""
_NO_TOOL_NAMES = {"tool-call", "tool-result", "tool-error", "tool-invocation", "tool-call-chunk"}
_UNNAMED = {"tool", "function", "custom_tool"}
_NAMES = ("name", "toolName", "tool_name")
_CALL_IDS = ("tool_call_id", "toolCallId", "call_id", "tool_use_id", "toolUseId", "id")
_ARGUMENTS = ("arguments", "args", "input", "action", "rawInput", "code", "queries", "operation")
_RESULTS = ("output", "result", "results", "outputs", "errorText", "error")
_ANSWERS = ("output", "result", "content", "response", "errorText", "error", "logs")
_WRAPPERS = {"text", "json", "content", "error-text", "error-json"}
"""Types of a result of the AI SDK, which has its words under ``value``."""
_FILE_NAMES = ("filename", "file_name", "fileName", "title", "name", "displayName", "display_name")
_MIME = ("mimeType", "mime_type", "mediaType", "media_type", "contentType", "content_type")
_DATA = {"source", "image_url", "data", "url", "file", "file_id", "image_file", "resource", "base64"}
"""Keys of a file in a tool's result; without one it is an object like any other."""


def named(name: object) -> str:
    """A type or key in snake case: ``functionCall`` and ``function-call`` are ``function_call``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", str(name)).lower()


def item_role(kind: object) -> str | None:
    """The role of a part of this type that is a message by itself, as in OpenAI's Responses; None for others."""
    name = named(kind)
    if _RESULT.fullmatch(name):
        return "tool"
    return "assistant" if name in _SILENT or _CALL.fullmatch(name) else None


def segments_of(part: object, where: str) -> Iterator[Segment]:
    """The segments of a content part: none of one that says nothing. Raises InvalidInput."""
    if isinstance(part, str):
        yield Segment(Said.WORDS, part)
        return
    kind, fields = _part(part, where)
    if kind in _SILENT or fields.get("thought") is True:
        return
    if kind in _MARKS or not item_role(kind):
        yield Segment(Said.WORDS, _shown(kind, fields, where))
        return
    answers = bool(_RESULT.fullmatch(kind))
    if not answers:
        yield called(fields, kind)
    answer = _first(fields, _ANSWERS if answers else _RESULTS)
    if answers or answer is not None:
        yield Segment(Said.RESULT, words_of(answer, where), _text(_first(fields, _NAMES)), _id(fields))


def called(call: object, kind: str = "tool_call") -> Segment:
    """One call as text. Under ``function`` or ``custom`` (OpenAI), or flat."""
    outer: Mapping[str, object] = call if isinstance(call, Mapping) else {}
    inner = next((outer[key] for key in ("function", "custom") if isinstance(outer.get(key), Mapping)), outer)
    fields = inner if isinstance(inner, Mapping) else outer
    own = _CALLS_SUFFIX.sub("", kind)
    name = short(_text(_first(fields, _NAMES)) or ("a tool" if own in _UNNAMED else own), MAX_NAME_CHARS)
    arguments = decoded(_first(fields, _ARGUMENTS))
    text = "" if arguments is None else arguments if isinstance(arguments, str) else written(arguments)
    return Segment(Said.CALL, f"[called {name}({short(text, MAX_ARGUMENT_CHARS)})]", name, _id(outer))


def decoded(value: object, levels: int = 2) -> object:
    """The value of a text that is a JSON object, list or text, also inside of another text; others as they are."""
    if not levels or not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
        return value
    try:
        return decoded(json.loads(value), levels - 1)
    except (ValueError, RecursionError):
        return value


def words_of(value: object, where: str, depth: int = 0) -> str:
    """The words of a tool's result: text, content parts, or JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if depth >= _MAX_DEPTH:
        return written(value)
    if isinstance(value, list | tuple) and all(isinstance(each, str) or _is_part(each) for each in value):
        return "\n".join(text for each in value if (text := words_of(each, where, depth + 1)))
    if isinstance(value, Mapping):
        if _is_part(value):
            kind, fields = _part(value, where)
            return "" if kind in _SILENT else _shown(kind, fields, where, depth + 1)
        inner = _unwrapped(value)
        if inner is not None:
            return words_of(inner, where, depth + 1)
    return written(value)


def _unwrapped(value: Mapping[str, object]) -> object | None:
    """What an object only wraps: a result of the AI SDK, of MCP, or text under a usual key (Gemini)."""
    if value.keys() == {"type", "value"} and str(value["type"]) in _WRAPPERS:
        return value["value"]
    content = value.get("content")
    if isinstance(content, list) and value.keys() <= {"content", "isError", "is_error", "structuredContent", "_meta"}:
        return content
    return _text(_first(value, ("output", "result", "content", "error"))) if len(value) == 1 else None


def written(value: object) -> str:
    """A value as JSON on one line."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return "…"


def short(text: str, limit: int) -> str:
    """Text on one line, cut to ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _part(part: object, where: str) -> tuple[str, Mapping[str, object]]:
    """The kind of a part in snake case, and its fields."""
    if isinstance(part, Mapping):
        given = part.get("type")
        if isinstance(given, str) and given:
            value = part.get("value")
            if given == "non_standard" and isinstance(value, Mapping):
                return _part(value, where) if value.get("type") != given else (given, value)
            inner = part.get("toolInvocation", part.get("tool_call"))  # the AI SDK, LibreChat
            if isinstance(inner, Mapping):
                return "tool_invocation", inner
            if given.startswith("tool-") and given not in _NO_TOOL_NAMES:
                return "tool_invocation", {"toolName": given.removeprefix("tool-"), **part}
            return named(given), part
        keys = {named(key): key for key, value in part.items() if value is not None}
        for kind in _TYPELESS:
            if kind in keys:
                value = part[keys[kind]]
                more = {"thought": True} if part.get("thought") else {}
                return kind, {**value, **more} if isinstance(value, Mapping) else {kind: value, **more}
    raise InvalidInput(f"{where}: give each content part a type, such as text.", code="invalid_content")


def _shown(kind: str, part: Mapping[str, object], where: str, depth: int = 0) -> str:
    """The text of a part that is neither a call nor a result."""
    text = part.get("text")
    if isinstance(text, Mapping):  # OpenAI's threads
        text = text.get("value")
    if kind == "json":
        return written(part.get("json", part))
    if kind in _TEXTS and not isinstance(text, str):
        raise InvalidInput(f"{where}: give the content part of type {kind} a text.", code="invalid_content")
    if kind == "search_result":
        return words_of(part.get("content"), where, depth + 1)
    if kind == "web_search_result":
        return " ".join(str(part[key]) for key in ("title", "url") if part.get(key))
    words = part.get({"refusal": "refusal", "logs": "logs"}.get(kind, "transcript" if kind in _SPOKEN else ""))
    if isinstance(words, str) and words:
        return words
    source = part.get("source", part.get("resource"))
    if not isinstance(text, str) and isinstance(source, Mapping):  # a document, or a resource of MCP
        plain = source.get("data") if source.get("type") == "text" else source.get("text")
        text = plain if isinstance(plain, str) else None
        if source.get("type") == "content":
            text = words_of(source.get("content"), where, depth + 1)
    mark = _mark(kind, part)
    if not isinstance(text, str) or not text:
        return "" if kind in _TEXTS else mark
    return f"{mark}\n{text}" if kind not in _TEXTS and ": " in mark else text


def _mark(kind: str, part: Mapping[str, object]) -> str:
    """``[image: name]`` of a part, by its media type where there is one."""
    objects = [part, *(value for value in part.values() if isinstance(value, Mapping))]
    label = _MARKS.get(kind, kind)
    if label == "file":
        media = next((str(found) for each in objects if (found := _first(each, _MIME))), "").partition("/")[0]
        label = media if media in ("image", "audio", "video") else label
    names = (_text(_first(each, _FILE_NAMES)) for each in objects)
    name = next((found for found in names if found and not found.startswith("data:")), None)
    shown = f"{label}: {short(name, MAX_NAME_CHARS)}" if name and kind in _MARKS else label
    return f"[{short(shown, 2 * MAX_NAME_CHARS)}]"


def _is_part(value: object) -> bool:
    """Whether an object in a tool's result is a content part, and no result that looks like one."""
    if not isinstance(value, Mapping):
        return False
    kind = named(value.get("type"))
    if value.get("type") is None:
        return value.keys() == {"json"} or (value.keys() == {"text"} and isinstance(value["text"], str))
    if kind in _TEXTS:
        return isinstance(value.get("text"), str)
    if kind == "logs":
        return isinstance(value.get("logs"), str)
    return kind in ("search_result", "web_search_result", "resource", *_MARKS) and bool(
        _DATA & value.keys() or kind == "computer_screenshot"
    )


def _first(fields: Mapping[str, object], names: tuple[str, ...]) -> object | None:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _id(fields: Mapping[str, object]) -> str | None:
    return _text(_first(fields, _CALL_IDS))
