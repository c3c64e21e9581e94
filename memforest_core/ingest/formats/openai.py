"""ChatGPT's data export (``conversations.json``): a tree of messages for each conversation, one branch of it shown.

How people get it: https://help.openai.com/en/articles/7260999-how-do-i-export-my-chatgpt-history-and-data; its fields
are not documented there. The format's facts are from
https://github.com/mitkury/chatgpt-export-parser/blob/main/docs/chatgpt-data-export-format.md and
https://difegam.github.io/chatgpt-to-markdown/reference/data-models: ``mapping`` has nodes with ``parent`` and
``message`` (null at the root); ``current_node`` is the last message shown; edits and regenerated answers are other
branches. Instructions, tools, reasoning and messages with weight 0 or hidden by their metadata are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.ingest.formats.file_items import (
    Item,
    Value,
    bad_item,
    list_of,
    mapping_of,
    name_of,
    session_of,
    turns_of,
)

_ROLES = ("user", "assistant")
_TEXTS = ("text", "multimodal_text")
_HIDDEN = ("is_visually_hidden_from_conversation", "is_user_system_message")
_REASONING = "analysis"
"""The channel of a model's reasoning."""


def chatgpt(value: Value, owner: str | None) -> Iterator[Item]:
    """The session of a conversation: what its user and the assistant said on the branch that is shown."""
    conversation = mapping_of(value.content, "A conversation")
    name = name_of(conversation.get("conversation_id")) or name_of(conversation.get("id"))
    if name is None:
        raise bad_item("The conversation has no id.")
    title = conversation.get("title")
    turns: list[TurnInput] = []
    for node, message in _shown(conversation):
        more = {"title": title} if isinstance(title, str) and title and not turns else {}
        turns += _turn(node, message, more)
    yield session_of(value.position, owner, name, turns, conversation.get("create_time") or None)


def _shown(conversation: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
    """The messages from the root to the current node, by their nodes. Raises InvalidInput."""
    nodes = mapping_of(conversation.get("mapping"), "The conversation's mapping")
    if not nodes:
        return []
    key = conversation.get("current_node") or _only_leaf(nodes)
    if key not in nodes:
        raise bad_item("The conversation's current_node is not in its mapping.")
    path: list[tuple[str, Mapping[str, object]]] = []
    seen: set[str] = set()
    while isinstance(key, str) and key in nodes:
        if key in seen:
            raise bad_item("The conversation's messages follow each other in a circle.")
        seen.add(key)
        node = mapping_of(nodes[key], "A node of the mapping")
        message = node.get("message")
        if message is not None:
            path.append((key, mapping_of(message, "A message")))
        key = node.get("parent")
    return path[::-1]


def _only_leaf(nodes: Mapping[str, object]) -> object:
    """The last message where there is one branch only. Raises InvalidInput."""
    parents = {node.get("parent") for node in nodes.values() if isinstance(node, dict)}
    leaves = [key for key in nodes if key not in parents]
    if len(leaves) > 1:
        raise bad_item("The conversation has several branches, and no current_node says which one is shown.")
    return leaves[0] if leaves else None


def _turn(node: str, message: Mapping[str, object], more: Mapping[str, object]) -> list[TurnInput]:
    author = mapping_of(message.get("author"), "A message's author")
    content = mapping_of(message.get("content") or {}, "A message's content")
    role, kind = author.get("role"), content.get("content_type")
    if role not in _ROLES or kind not in _TEXTS or _hidden(message):
        return []
    texts: list[str] = []
    others: list[str] = []
    for part in list_of(content.get("parts") or [], "A message's parts"):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])  # what was said aloud, written down
        elif isinstance(part, dict):
            others.append(str(part.get("content_type") or "unknown"))
    return turns_of(
        str(role),
        "\n".join(text for text in texts if text.strip()),
        id=name_of(message.get("id")) or node,
        metadata={**more, "left_out": others} if others else more,
        timestamp=message.get("create_time") or None,
    )


def _hidden(message: Mapping[str, object]) -> bool:
    """Whether it is not shown: internal, to a tool, or thought only."""
    metadata = mapping_of(message.get("metadata") or {}, "A message's metadata")
    return (
        any(metadata.get(name) for name in _HIDDEN)
        or message.get("weight") == 0
        or message.get("recipient") not in (None, "all")
        or message.get("channel") == _REASONING
    )
