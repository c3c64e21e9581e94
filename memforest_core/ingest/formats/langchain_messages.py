"""Messages as LangChain writes them; none of its packages is needed.

The format's facts: https://python.langchain.com/api_reference/core/messages.html (``messages_to_dict`` makes objects of
``type`` and ``data``, ``model_dump`` flat ones with ``type``) and
https://python.langchain.com/docs/how_to/serialization/ (``dumpd`` makes objects of ``lc``, ``type``, ``id`` and
``kwargs``, the last part of ``id`` being the class). Types are human, ai, system, tool, function and chat (which has a
``role``); a class of streamed parts ends with Chunk. Messages have no time; many programs put one into
``additional_kwargs``.
"""

from __future__ import annotations

from collections.abc import Mapping

from memforest_core.domain.chat_messages import TurnInput, turn_fields
from memforest_core.ingest.formats.file_items import bad_item, mapping_of, name_of, turns_of

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_OTHERS = {"user": "user", "assistant": "assistant", "developer": "system"}
_REMOVED = "remove"
"""A mark that a message was taken out: it says nothing."""
_TIMES = ("timestamp", "created_at", "time")


def is_message(value: object) -> bool:
    """Whether an object is a message in one of LangChain's own forms: with ``data``, ``kwargs``, or ``type``."""
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("data"), Mapping) and isinstance(value.get("type"), str):
        return True
    if "lc" in value and isinstance(value.get("kwargs"), Mapping):
        return True
    return "role" not in value and "content" in value and _kind(value.get("type")) in {*ROLES, "chat", _REMOVED}


def message_turns(raw: Mapping[str, object], where: str) -> list[TurnInput]:
    """The turns of a message: none for one without words, several for a very long one. Raises InvalidInput."""
    kind, fields = _opened(raw, where)
    if kind == _REMOVED:
        return []
    named = fields.get("role") if kind == "chat" else kind
    role = (ROLES | _OTHERS).get(str(named).strip().lower())
    if role is None:
        raise bad_item(f"{where}: {str(named)!r:.40} is none of {', '.join([*ROLES, 'chat'])}.")
    more = mapping_of(fields.get("additional_kwargs") or {}, f"{where}: additional_kwargs")
    read = {name: fields.get(name) for name in ("content", "tool_call_id", "tool_calls") if fields.get(name)}
    for name in ("tool_calls", "function_call"):
        if name not in read and more.get(name):
            read[name] = more[name]
    turn = turn_fields({"role": role, **read}, where)
    content = turn.get("content") or ""
    if not isinstance(content, str):
        raise bad_item(f"{where}: the content must be text or a list of parts.")
    metadata = turn.get("metadata")
    return turns_of(
        role,
        content,
        id=name_of(fields.get("id")),
        name=name_of(fields.get("name")),
        metadata=metadata if isinstance(metadata, Mapping) else None,
        timestamp=_time(fields, more),
    )


def _opened(raw: Mapping[str, object], where: str) -> tuple[str, Mapping[str, object]]:
    """A message's type, and its fields."""
    if "lc" in raw and "kwargs" in raw:
        fields = mapping_of(raw["kwargs"], f"{where}: kwargs")
        path = raw.get("id")
        named = path[-1] if isinstance(path, list) and path else fields.get("type")
        return _kind(named), fields
    if isinstance(raw.get("data"), Mapping):
        return _kind(raw.get("type")), mapping_of(raw["data"], f"{where}: data")
    return _kind(raw.get("type")), raw


def _kind(named: object) -> str:
    """A type by its name or its class: AIMessageChunk is ai."""
    return str(named).strip().removesuffix("Chunk").removesuffix("Message").lower()


def _time(fields: Mapping[str, object], more: Mapping[str, object]) -> object | None:
    found = (place[name] for place in (fields, more) for name in _TIMES if place.get(name))
    return next((value for value in found if isinstance(value, str | int | float)), None)
