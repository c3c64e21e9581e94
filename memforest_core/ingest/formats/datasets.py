"""Exports: conversations of LoCoMo, LongMemEval, ShareGPT and ChatGPT, and mem0's memories without theirs.

LoCoMo: https://github.com/snap-research/locomo, README, "Data"; the file has dates of sessions that it leaves out.
LongMemEval: https://github.com/xiaowu0162/LongMemEval, README, "Dataset Format"; a session can be in the histories of
several questions, with other dates. Dates of both name no zone.
ShareGPT: https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md, "Sharegpt Format", and
https://github.com/lm-sys/FastChat/blob/main/docs/commands/data_cleaning.md. Nothing is dated.
mem0: https://docs.mem0.ai/api-reference/memory/get-memory. ``get_all`` answers {"results": [...]}, page by page on the
platform, older versions a plain list. An export job's own schema can be anything and is not read.
ChatGPT's data export: https://github.com/mitkury/chatgpt-export-parser/blob/main/docs/chatgpt-data-export-format.md.
``mapping`` has nodes with ``parent`` and ``message`` (null at the root); ``current_node`` is the last message shown;
edits and regenerated answers are other branches; a message to another recipient than "all" calls a tool. Instructions,
reasoning and messages with weight 0 or hidden by their metadata are not shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from itertools import chain
from zoneinfo import ZoneInfo

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.message_parts import called
from memforest_core.domain.turns import parse_timestamp
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.export_files import File
from memforest_core.ingest.formats.fields import value_of
from memforest_core.ingest.formats.file_items import (
    Converted,
    Item,
    Refused,
    Value,
    Wordless,
    bad_item,
    list_of,
    mapping_of,
    name_of,
    session_of,
    turns_of,
)
from memforest_core.ingest.formats.format_table import Format, Found, each_value, read_each
from memforest_core.ingest.formats.talks import NONE, Fields, Options, mark, marks

_TEXTS = ("text", "multimodal_text")
_OF_TOOLS = (*_TEXTS, "code", "execution_output", "tether_browsing_display", "tether_quote", "system_error")
_CITED = re.compile(
    '\ue200entity\ue202\\["[^"\ue200]*","([^"\ue200]*)"[^\ue200\ue201]*\ue201'
    "|\ue200[^\ue200\ue201]*\ue201|[\ue200-\ue2ff]"
)
"""Marks of citations, and of names that are linked: only the name is said."""
_HIDDEN = ("is_visually_hidden_from_conversation", "is_user_system_message")


def chatgpt(value: Value, options: Options) -> Iterator[Item]:
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
    yield session_of(value.position, options.owner, name, turns, conversation.get("create_time") or None)


def _shown(conversation: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
    """The messages from the root to the current node, by their nodes. Raises InvalidInput."""
    nodes = mapping_of(conversation.get("mapping"), "The conversation's mapping")
    key = name_of(conversation.get("current_node")) or _only_leaf(nodes)
    if nodes and key not in nodes:
        raise bad_item("The conversation's current_node is not in its mapping.")
    path: dict[str, Mapping[str, object]] = {}
    while isinstance(key, str) and key in nodes:
        if key in path:
            raise bad_item("The conversation's messages follow each other in a circle.")
        path[key] = mapping_of(nodes[key], "A node of the mapping")
        key = name_of(path[key].get("parent"))
    said = ((key, node["message"]) for key, node in reversed(path.items()) if node.get("message") is not None)
    return [(key, mapping_of(message, "A message")) for key, message in said]


def _only_leaf(nodes: Mapping[str, object]) -> str | None:
    """The last message where there is one branch only; None in a circle. Raises InvalidInput."""
    parents = {name_of(node.get("parent")) for node in nodes.values() if isinstance(node, dict)}
    leaves = [key for key in nodes if key not in parents]
    if len(leaves) > 1:
        raise bad_item("The conversation has several branches, and no current_node says which one is shown.")
    return leaves[0] if leaves else None


def _turn(node: str, message: Mapping[str, object], more: Mapping[str, object]) -> list[TurnInput]:
    author = mapping_of(message.get("author"), "A message's author")
    content = mapping_of(message.get("content") or {}, "A message's content")
    metadata = mapping_of(message.get("metadata") or {}, "A message's metadata")
    role, to = author.get("role"), message.get("recipient")
    calls = role == "assistant" and to not in (None, "all")
    tool = role == "tool"
    hidden = (
        role not in ("user", "assistant", "tool")
        or content.get("content_type") not in (_OF_TOOLS if calls or tool else _TEXTS)
        or any(metadata.get(name) for name in _HIDDEN)
        or message.get("weight") == 0
        or (message.get("channel") == "analysis" and not calls and not tool)  # a model's reasoning
    )
    if hidden:
        return []
    texts: list[str] = []
    files = marks(metadata.get("attachments"))
    alone = value_of(content, "text result") if calls or tool else None
    for part in list_of(content.get("parts") or [alone], "A message's parts"):
        # What was said aloud is a part with a text of its own.
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            texts.append(_CITED.sub(r"\1", text))
        elif isinstance(part, dict) and not metadata.get("attachments"):
            files.append(mark(str(part.get("content_type") or "file").partition("_")[0]))
    said = "\n".join(text for text in (*texts, *files) if text.strip())
    return turns_of(
        str(role),
        called({"name": to, "arguments": said}).text if calls else said,
        id=name_of(message.get("id")) or node,
        metadata=more,
        timestamp=message.get("create_time") or None,
        name=name_of(author.get("name")) if tool else None,
    )


MEM0_UNDER = "results memories"
"""Keys of a page under which its memories are."""
MEM0_UNDATED = "mem0-undated"
_MEM0_FIELDS = ("agent_id", "app_id", "run_id", "categories", "metadata", "updated_at")
_UTC = ZoneInfo("UTC")


def mem0(values: Iterable[Value | Refused], options: Options) -> Iterator[Found]:
    """A session for each owner and day (UTC) on which memories were made, with a turn for each memory, oldest first.
    The owner is the memory's user, else its agent, else the given one. All memories are held until the end: the days
    come in any order. A memory that is in the file twice is taken once."""
    days: dict[tuple[str, str], dict[str, tuple[int, str, list[TurnInput]]]] = {}

    def add(value: Value) -> Iterable[Item]:
        raw = mapping_of(value.content, "A memory")
        id_, text = name_of(raw.get("id")), raw.get("memory")
        if id_ is None:
            raise bad_item("The memory has no id.")
        if not isinstance(text, str) or not text.strip():
            raise bad_item("The memory has no text under memory.")
        whose = name_of(raw.get("user_id")) or name_of(raw.get("agent_id")) or options.owner
        if whose is None:
            raise bad_item("The memory has neither user_id nor agent_id: give --owner.")
        given = raw.get("created_at")
        made = None if given is None else parse_timestamp(given, _UTC, "created_at").isoformat()
        metadata = {"mem0_id": id_} | {name: raw[name] for name in _MEM0_FIELDS if raw.get(name)}
        turns = turns_of("user", text, id=id_, metadata=metadata, timestamp=made)
        day = MEM0_UNDATED if made is None else f"mem0-{made[:10]}"
        days.setdefault((whose, day), {}).setdefault(id_, (value.position, made or "", turns))
        return ()

    yield from read_each(values, add)
    for (whose, day), found in sorted(days.items()):
        # Undated ones stay in the file's order.
        order = sorted(found, key=lambda id_: (found[id_][1], id_)) if day != MEM0_UNDATED else found
        memories = [found[id_] for id_ in order]
        yield Converted(memories[0][0], whose, day, [turn for _, _, turns in memories for turn in turns])


_SESSION = re.compile(r"session_(\d+)")
_TIMES = (
    "%I:%M %p on %d %B, %Y", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y-%m-%d"
)  # fmt: skip
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")
_LOCOMO = replace(NONE, text="text", id="dia_id", speaker="speaker", metadata="img_url blip_caption")
_LONGMEMEVAL = replace(NONE, text="content", role="role", metadata="has_answer")
_SHAREGPT = replace(NONE, text="value", role="from")


def _said(fields: Fields, raw: object, where: str, id: str | None = None, role: str | None = None) -> list[TurnInput]:
    """The turns of a message; ``id`` and ``role`` are those of one without. Raises InvalidInput."""
    message = fields.message(mapping_of(raw, where), {}, where)
    role = message.role or role
    if role is None or message.text is None:
        raise bad_item(f"{where}: {'nothing says whose words these are' if role is None else 'its text is no text'}.")
    return turns_of(role, message.text, id=message.id or id, metadata=message.metadata, name=message.speaker)


def sharegpt(value: Value, options: Options) -> Iterator[Item]:
    """The session of a conversation; one without an id is named by its content."""
    conversation = mapping_of(value.content, "A conversation")
    raws = list_of(conversation.get("conversations", conversation.get("items")), "conversations")
    turns = [turn for at, raw in enumerate(raws, start=1) for turn in _said(_SHAREGPT, raw, f"Turn {at}")]
    name = name_of(conversation.get("id")) or f"sharegpt-{sha256(json.dumps(turns).encode()).hexdigest()[:32]}"
    yield session_of(value.position, options.owner, name, turns)


def _dated(position: int, owner: str, session: str, said: Iterable[TurnInput], written: object, example: str) -> Item:
    """A session that began at a time without a zone; one that can't be read is refused as a whole."""
    try:
        turns = list(said)
    except InvalidInput as error:
        return Refused(position, error, session)
    if not turns:
        return Wordless(position, session)
    for form in _TIMES:
        try:
            began = datetime.strptime(str(written).strip(), form)  # noqa: DTZ007 - the file names no zone
        except ValueError:
            continue
        return Converted(position, owner, session, turns, began.isoformat())
    return Refused(position, bad_item(f"{str(written)!r:.40} is no time such as {example!r}."), session)


def locomo(value: Value, options: Options) -> Iterator[Item]:
    """A session for each of a sample's; the sample is the owner, unless one is given for all of them."""
    sample, owner = mapping_of(value.content, "A sample"), options.owner
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
        written = conversation.get(f"{key}_date_time")
        said = _locomo_turns(key, conversation[key], dated=bool(written))
        yield _dated(value.position, owner or name, session, said, written, "1:56 pm on 8 May, 2023")


def _locomo_turns(key: str, session: object, *, dated: bool) -> Iterator[TurnInput]:
    for number, raw in enumerate(list_of(session or [], key), start=1):
        where = f"Turn {number} of {key}"
        turn = mapping_of(raw, where)
        if name_of(turn.get("speaker")) is None:
            raise bad_item(f"{where} has no speaker.")
        text, caption = str(turn.get("text") or "").strip(), str(turn.get("blip_caption") or "").strip()
        if caption:
            text = f"{text} [shares {caption}]".strip()
        made = _said(_LOCOMO, {**turn, "text": text}, where, f"D{key.removeprefix('session_')}:{number}", "user")
        if made and not dated:
            raise bad_item(f"{key} has no {key}_date_time.")
        yield from made


def longmemeval(value: Value, options: Options) -> Iterator[Item]:
    """A session for each of a question's history; the question is the owner, unless one is given for all."""
    question, owner = mapping_of(value.content, "A question"), options.owner
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
        day = _WEEKDAY.sub(" ", str(date))
        said = _longmemeval_turns(name, turns)
        yield _dated(value.position, owner or id_, session, said, day, "2023/05/30 (Tue) 23:40")


def _longmemeval_turns(name: str, session: object) -> Iterator[TurnInput]:
    for number, raw in enumerate(list_of(session, "A session"), start=1):
        yield from _said(_LONGMEMEVAL, raw, f"Turn {number}", f"{name}:{number}")


def _mem0(files: Sequence[File], options: Options) -> Iterator[Found]:
    return mem0(chain.from_iterable(file.values(MEM0_UNDER) for file in files), options)


DATASETS = (
    Format("locomo", "LoCoMo's data set", each_value(locomo), ("conversation.session_1", "qa conversation", "qa")),
    Format("longmemeval", "LongMemEval's data set", each_value(longmemeval),
           ("haystack_sessions", "question_id haystack_dates")),
    Format("sharegpt", "ShareGPT's conversations", each_value(sharegpt),
           ("conversations.from conversations.value", "items.from items.value")),
    Format("mem0", "mem0's memories", _mem0, ("memory", "results.memory", "memories.memory", "results relations")),
    Format("openai", "ChatGPT's data export", each_value(chatgpt),
           ("mapping current_node", "mapping title", "conversation_id current_node"),
           has=r"(^|/)conversations(-\d+)?\.json$ (^|/)(user|chat\.html|message_feedback|shared_conversations)\b",
           files=r"(^|/)conversations(-\d+)?\.json$"),
)  # fmt: skip
