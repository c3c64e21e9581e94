"""Exports: conversations of LoCoMo, LongMemEval, ShareGPT and ChatGPT, and mem0's memories without theirs.

LoCoMo (https://github.com/snap-research/locomo, README, "Data"; ``locomo10.json``): a list of samples with
``sample_id`` and ``conversation``, which has ``speaker_a``, ``speaker_b`` and for each n ``session_<n>`` and
``session_<n>_date_time``; a turn has ``speaker``, ``dia_id``, ``text``, and for a shared picture ``img_url`` and
``blip_caption``. The file has dates of sessions that it leaves out.

LongMemEval (https://github.com/xiaowu0162/LongMemEval, README, "Dataset Format"; oracle, S and M): a list of objects
with ``question_id``, ``haystack_sessions`` (lists of turns with ``role``, ``content`` and, where the answer was said,
``has_answer``), and as many ``haystack_session_ids`` and ``haystack_dates``. A session can be in the histories of
several questions, with other dates. Dates of both name no zone.

ShareGPT (https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md, "Sharegpt Format", and
https://github.com/lm-sys/FastChat/blob/main/docs/commands/data_cleaning.md): objects with ``id`` (not everywhere) and
``conversations``, a list of ``from`` and ``value``, in some files with a ``system`` prompt. Nothing is dated.

mem0 (https://docs.mem0.ai/cookbooks/essentials/exporting-memories and
https://docs.mem0.ai/api-reference/memory/get-memory): ``get_all`` answers {"results": [...]}, page by page on the
platform, older versions a plain list; a memory has ``id``, ``memory``, ``user_id``, ``agent_id``, ``metadata``,
``categories``, ``created_at`` and ``updated_at``. An export job's own schema can be anything and is not read.

ChatGPT's data export (``conversations.json``;
https://help.openai.com/en/articles/7260999-how-do-i-export-my-chatgpt-history-and-data says how to get it; its fields
are in https://github.com/mitkury/chatgpt-export-parser/blob/main/docs/chatgpt-data-export-format.md and
https://difegam.github.io/chatgpt-to-markdown/reference/data-models): ``mapping`` has nodes with ``parent`` and
``message`` (null at the root); ``current_node`` is the last message shown; edits and regenerated answers are other
branches. Instructions, tools, reasoning and messages with weight 0 or hidden by their metadata are not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.turns import parse_timestamp
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import (
    Conversations,
    Converted,
    Item,
    MessageFields,
    Refused,
    Value,
    Wordless,
    bad_item,
    list_of,
    mapping_of,
    moment_of,
    name_of,
    refusable,
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


MEM0_UNDER = ("results", "memories")
"""Keys of a page under which its memories are."""
MEM0_UNDATED = "mem0-undated"
_MEM0_FIELDS = ("agent_id", "app_id", "run_id", "categories", "metadata", "updated_at")
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class _Memory:
    position: int
    id: str
    text: str
    made: datetime | None
    metadata: Mapping[str, object]


def mem0(values: Iterable[Value | Refused], owner: str | None) -> Iterator[Item]:
    """A session for each owner and day (UTC) on which memories were made, with a turn for each memory, oldest first.

    The owner is the memory's user, else its agent, else the given one. All memories are held until the end: the days
    come in any order. A memory that is in the file twice is taken once.
    """
    days: dict[tuple[str, str], dict[str, _Memory]] = {}
    for value in values:
        if isinstance(value, Refused):
            yield value
            continue
        try:
            whose, memory = _memory(value, owner)
        except InvalidInput as error:
            yield Refused(value.position, error)
            continue
        day = f"mem0-{memory.made:%Y-%m-%d}" if memory.made else MEM0_UNDATED
        days.setdefault((whose, day), {}).setdefault(memory.id, memory)
    for whose, day in sorted(days):
        # Undated ones stay in the file's order; a stable sort leaves it where there is nothing to sort by.
        memories = sorted(days[whose, day].values(), key=lambda one: (one.made, one.id) if one.made else ())
        yield Converted(memories[0].position, whose, day, [turn for one in memories for turn in _turns(one)])


def _memory(value: Value, owner: str | None) -> tuple[str, _Memory]:
    """The owner of a memory, and the memory. Raises InvalidInput."""
    raw = mapping_of(value.content, "A memory")
    id_, text = name_of(raw.get("id")), raw.get("memory")
    if id_ is None:
        raise bad_item("The memory has no id.")
    if not isinstance(text, str) or not text.strip():
        raise bad_item("The memory has no text under memory.")
    whose = name_of(raw.get("user_id")) or name_of(raw.get("agent_id")) or owner
    if whose is None:
        raise bad_item("The memory has neither user_id nor agent_id: give --owner.")
    made = raw.get("created_at")
    moment = None if made is None else parse_timestamp(made, _UTC, "created_at")
    more = {name: raw[name] for name in _MEM0_FIELDS if raw.get(name)}
    return whose, _Memory(value.position, id_, text, moment, {"mem0_id": id_, **more})


def _turns(memory: _Memory) -> list[TurnInput]:
    made = memory.made.isoformat() if memory.made else None
    return turns_of("user", memory.text, id=memory.id, metadata=memory.metadata, timestamp=made)


_SESSION = re.compile(r"session_(\d+)")
_LOCOMO_TIMES = ("%I:%M %p on %d %B, %Y", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")
_LONGMEMEVAL_TIMES = ("%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y-%m-%d")
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")
_LOCOMO = MessageFields("text", id="dia_id", name="speaker", metadata=("img_url", "blip_caption"))
_LONGMEMEVAL = MessageFields(
    "content", "role", {"user": "user", "assistant": "assistant"}, metadata=("has_answer",), silent=True
)
_SHAREGPT_ROLES = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model"), "assistant"),
    "system": "system",
    **dict.fromkeys(("function_call", "function", "observation", "tool"), "tool"),
}
sharegpt = Conversations("sharegpt", "conversations", MessageFields("value", "from", _SHAREGPT_ROLES))


def locomo(value: Value, owner: str | None) -> Iterator[Item]:
    """A session for each of a sample's; the sample is the owner, unless one is given for all of them."""
    sample = mapping_of(value.content, "A sample")
    conversation = mapping_of(sample.get("conversation"), "The sample's conversation")
    name = name_of(sample.get("sample_id"))
    if name is None:
        if owner is None:
            raise bad_item("Add a sample_id to the sample, or give --owner.")
        name = f"sample-{value.position}"
    found = [found for key in conversation if (found := _SESSION.fullmatch(key))]
    for key in (one[0] for one in sorted(found, key=lambda one: int(one[1]))):
        # Samples of one owner have sessions of the same names.
        session = key if owner is None else f"{name}/{key}"
        make = partial(_locomo_session, value.position, owner or name, session, key, conversation)
        yield refusable(value.position, session, make)


def _locomo_session(position: int, owner: str, session: str, key: str, conversation: Mapping[str, object]) -> Item:
    turns: list[TurnInput] = []
    for number, raw in enumerate(list_of(conversation[key] or [], key), start=1):
        turns += _locomo_turn(key, number, raw)
    if not turns:
        return Wordless(position, session)
    written = conversation.get(f"{key}_date_time")
    if not written:
        raise bad_item(f"{key} has no {key}_date_time.")
    return Converted(
        position, owner, session, turns, moment_of(written, _LOCOMO_TIMES, "1:56 pm on 8 May, 2023").isoformat()
    )


def _locomo_turn(key: str, number: int, raw: object) -> list[TurnInput]:
    where = f"Turn {number} of {key}"
    turn = mapping_of(raw, where)
    if name_of(turn.get("speaker")) is None:
        raise bad_item(f"{where} has no speaker.")
    text, caption = str(turn.get("text") or "").strip(), str(turn.get("blip_caption") or "").strip()
    if caption:
        text = f"{text} [shares {caption}]".strip()
    return _LOCOMO.turns({**turn, "text": text}, where, f"D{key.removeprefix('session_')}:{number}")


def longmemeval(value: Value, owner: str | None) -> Iterator[Item]:
    """A session for each of a question's history; the question is the owner, unless one is given for all."""
    question = mapping_of(value.content, "A question")
    id_ = name_of(question.get("question_id"))
    if id_ is None:
        raise bad_item("Add a question_id to the question.")
    histories = list_of(question.get("haystack_sessions"), "haystack_sessions")
    dates = list_of(question.get("haystack_dates"), "haystack_dates")
    names = list_of(question.get("haystack_session_ids") or [None] * len(histories), "haystack_session_ids")
    if not len(histories) == len(dates) == len(names):
        raise bad_item(f"The question has {len(histories)} sessions, {len(dates)} dates and {len(names)} session ids.")
    used: set[str] = set()
    for number, (given, date, turns) in enumerate(zip(names, dates, histories, strict=True), start=1):
        name = name_of(given) or f"session-{number}"
        while name in used:
            name += "+"
        used.add(name)
        # Histories of one owner share sessions, with other dates.
        session = name if owner is None else f"{id_}/{name}"
        make = partial(_longmemeval_session, value.position, owner or id_, session, name, date, turns)
        yield refusable(value.position, session, make)


def _longmemeval_session(position: int, owner: str, session: str, name: str, date: object, raw: object) -> Item:
    turns: list[TurnInput] = []
    for number, one in enumerate(list_of(raw, "A session"), start=1):
        turns += _LONGMEMEVAL.turns(one, f"Turn {number}", f"{name}:{number}")
    if not turns:
        return Wordless(position, session)
    return Converted(
        position,
        owner,
        session,
        turns,
        moment_of(_WEEKDAY.sub(" ", str(date)), _LONGMEMEVAL_TIMES, "2023/05/30 (Tue) 23:40").isoformat(),
    )
