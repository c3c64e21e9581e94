"""Conversations in ShareGPT's format, in which chat data sets are shared: a list, or one a line.

The format's facts: https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md ("Sharegpt Format") and
https://github.com/lm-sys/FastChat/blob/main/docs/commands/data_cleaning.md: objects with ``id`` (not everywhere) and
``conversations``, a list of ``from`` and ``value``; at times a ``system`` prompt beside it. Nothing is dated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.ingest.formats.items import (
    Converted,
    Item,
    Refused,
    Value,
    Wordless,
    bad_item,
    each,
    list_of,
    mapping_of,
    name_of,
    turns_of,
)

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "system": "system",
    "function_call": "tool",
    "function": "tool",
    "observation": "tool",
    "tool": "tool",
}


def convert(values: Iterable[Value | Refused], owner: str) -> Iterator[Item]:
    """A session for each conversation; one without an id is named by its content."""
    return each(values, lambda value: _conversation(value, owner))


def _conversation(value: Value, owner: str) -> Iterator[Item]:
    conversation = mapping_of(value.content, "A conversation")
    turns: list[TurnInput] = []
    for number, raw in enumerate(list_of(conversation.get("conversations"), "conversations"), start=1):
        where = f"Turn {number}"
        turn = mapping_of(raw, where)
        role = _ROLES.get(str(turn.get("from")).strip().lower())
        if role is None:
            raise bad_item(f"{where}: {str(turn.get('from'))!r:.40} is none of {', '.join(_ROLES)}.")
        said = turn.get("value")
        if not isinstance(said, str):
            raise bad_item(f"{where}: the value must be text.")
        turns += turns_of(role, said)
    name = name_of(conversation.get("id")) or _named_by(turns)
    if turns:
        yield Converted(value.position, owner, name, turns)
    else:
        yield Wordless(value.position, name)


def _named_by(turns: list[TurnInput]) -> str:
    """A name that is the same whenever the same is said."""
    return f"sharegpt-{hashlib.sha256(json.dumps(turns).encode()).hexdigest()[:32]}"
