"""What a request of mem0's client means here: whose memory, which session, which turns.

The fields are those of ``mem0/client/types.py`` of mem0ai 2.2. What has no meaning here is refused, never left out in
silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memforest_core.domain.chat_messages import TurnInput, turn_fields
from memforest_core.domain.turns import TurnLimits, checked_metadata, checked_name
from memforest_core.errors import InvalidInput

MOST = 1_000
"""Memories of one answer."""
ENTITIES = ("user_id", "agent_id", "app_id", "run_id")
_AS_IT_IS: Mapping[str, object] = {
    "infer": True,
    "latest_only": True,
    "show_expired": False,
    "keyword_search": True,
    "rerank": False,
    "delete_linked": True,
}
"""Switches of mem0 that stand as they are here: the other position is refused."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a request is about."""

    owner: str
    """``user_id``, else ``agent_id``: as ``memforest ingest --format mem0`` has it."""
    session: str | None = None
    """``run_id``."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What its turns have: the caller's, and the ids that are no owner's."""


def taken(given: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The fields of a request that are known here; None is not given. Raises InvalidInput for any other."""
    fields = {name: value for name, value in given.items() if value is not None}
    for name, value in list(fields.items()):
        if name in _AS_IT_IS:
            if value is not _AS_IT_IS[name] and str(value).lower() != str(_AS_IT_IS[name]).lower():
                raise _refused(f"MemForest has {name} as {_AS_IT_IS[name]} always: leave it out.")
            del fields[name]
        elif name not in known:
            raise _refused(f"MemForest has nothing for mem0's {name!r:.60}: leave it out.")
    return fields


def place_of(fields: Mapping[str, Any], owner: str | None) -> Place:
    """Whose memory is meant by ids outside or in ``filters``; ``owner`` when they name nobody. Raises InvalidInput."""
    ids: dict[str, Any] = {name: fields[name] for name in ENTITIES if name in fields}
    metadata: dict[str, Any] = {}
    for name, value in _flat(fields.get("filters") or {}):
        if name == "metadata" and isinstance(value, Mapping):
            metadata |= value
        elif name in ENTITIES:
            if ids.setdefault(name, value) != value:
                raise _refused(f"Give one {name}: the request names two.")
        else:
            raise _refused(f"Filter by {', '.join(ENTITIES)} or metadata: {name!r:.60} is not known here.")
    for name, value in ids.items():
        if not isinstance(value, str) or value == "*":
            raise _refused(f"Give {name} as one id: lists and * are not known here.")
    whose = next((name for name in ("user_id", "agent_id") if name in ids), None)
    found = ids.pop(whose) if whose else owner
    if found is None:
        raise InvalidInput("Give user_id or agent_id: whose memory is meant?", code="owner_missing")
    session = ids.pop("run_id", None)
    if session is not None:
        checked_name(session, "run_id")
    return Place(checked_name(found, "user_id"), session, checked_metadata(metadata | ids, "filters", TurnLimits()))


def turns_of(fields: Mapping[str, Any], place: Place, event: str) -> list[TurnInput]:
    """The turns of an ``add``; their ids begin with that of the ``event``. Raises InvalidInput."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidInput("Give messages: a list with role and content each.", code="invalid_turns")
    own = fields.get("metadata", {})
    if not isinstance(own, Mapping):
        raise _refused("Give metadata as an object.")
    turns: list[TurnInput] = []
    for number, message in enumerate(messages):
        turn = {**turn_fields(message, f"Message {number + 1}"), "id": f"{event}-{number}"}
        said = turn.get("metadata", {})
        turn["metadata"] = {**(said if isinstance(said, Mapping) else {}), **own, **place.metadata}
        if "timestamp" in fields:
            turn.setdefault("timestamp", fields["timestamp"])
        turns.append(turn)  # type: ignore[arg-type]  # checked when it is stored
    return turns


def whole(value: object, name: str, most: int = MOST) -> int:
    """A number of a query or a body. Raises InvalidInput."""
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or not 1 <= int(text) <= most:
        raise _refused(f"Set {name} to a whole number from 1 to {most}.")
    return int(text)


def _flat(filters: object) -> Sequence[tuple[str, Any]]:
    """The conditions of a filter, all of which must hold. Raises InvalidInput for OR, NOT and the like."""
    if not isinstance(filters, Mapping):
        raise _refused('Give filters as an object, such as {"user_id": "alice"}.')
    found: list[tuple[str, Any]] = []
    for name, value in filters.items():
        if name == "AND" and isinstance(value, list):
            found += [each for part in value for each in _flat(part)]
        else:
            found.append((name, value))
    return found


def _refused(sentence: str) -> InvalidInput:
    return InvalidInput(sentence, code="unsupported_by_memforest")
