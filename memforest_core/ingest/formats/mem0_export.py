"""Memories exported from mem0: statements without the conversations they came from.

The format's facts: https://docs.mem0.ai/cookbooks/essentials/exporting-memories and
https://docs.mem0.ai/api-reference/memory/get-memory: ``get_all`` answers {"results": [...]}, page by page on the
platform, older versions a plain list; a memory has ``id``, ``memory``, ``user_id``, ``agent_id``, ``metadata``,
``categories``, ``created_at`` and ``updated_at``. An export job's own schema can be anything and is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.turns import parse_timestamp
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import (
    Converted,
    Item,
    Refused,
    Value,
    bad_item,
    mapping_of,
    name_of,
    turns_of,
)

UNDER = ("results", "memories")
"""Keys of a page under which its memories are."""
UNDATED = "mem0-undated"
_METADATA = ("agent_id", "app_id", "run_id", "categories", "metadata", "updated_at")
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class _Memory:
    position: int
    id: str
    text: str
    made: datetime | None
    metadata: Mapping[str, object]


def convert(values: Iterable[Value | Refused], owner: str | None) -> Iterator[Item]:
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
        day = f"mem0-{memory.made:%Y-%m-%d}" if memory.made else UNDATED
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
    more = {name: raw[name] for name in _METADATA if raw.get(name)}
    return whose, _Memory(value.position, id_, text, moment, {"mem0_id": id_, **more})


def _turns(memory: _Memory) -> list[TurnInput]:
    made = memory.made.isoformat() if memory.made else None
    return turns_of("user", memory.text, id=memory.id, metadata=memory.metadata, timestamp=made)
