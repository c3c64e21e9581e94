"""Facts as mem0's memories: what a request of its client means here, and a fact with its corrections as one memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from memforest_core.domain.chat_messages import TurnInput, turn_fields
from memforest_core.domain.ids import TenantId
from memforest_core.domain.turns import TurnLimits, checked_metadata, checked_name
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.service.integrations.mem0_rows import Memory, MemoryRows, Place
from memforest_core.store.engine import Engine

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


OWN_SESSION = "mem0-"
"""Begins the ids of sessions that an ``add`` without ``run_id`` makes."""


@dataclass(frozen=True, slots=True)
class Memories:
    """Reads memories, each call in one transaction. Thread-safe."""

    engine: Engine

    def page(self, tenant: TenantId, place: Place, page: int, size: int) -> tuple[int, Sequence[Memory]]:
        """How many memories hold at a place, and those of a ``page`` (from 1) of ``size``. Raises StoreUnavailable."""
        with MemoryRows.opened(self.engine, tenant) as rows:
            return rows.page(place, (page - 1) * size, size)

    def found(self, tenant: TenantId, ids: Collection[UUID]) -> Mapping[UUID, Memory]:
        """The memories with these ids. Raises StoreUnavailable."""
        with MemoryRows.opened(self.engine, tenant) as rows:
            return rows.found(ids)

    def versions(self, tenant: TenantId, id_: str) -> Sequence[Memory]:
        """A memory as it was and is, the oldest first: by its id, or by that of any of its versions.

        Raises NotFound, StoreUnavailable.
        """
        with MemoryRows.opened(self.engine, tenant) as rows:
            memory = _one(rows, id_)
            while memory.superseded_by is not None and (newer := rows.found([memory.superseded_by])):
                memory = newer[memory.superseded_by]
            versions, older = [memory], rows.corrected_to(memory.id)
            while older:
                versions = older + versions
                older = [each for one in older for each in rows.corrected_to(one.id)]
            return versions


def _one(rows: MemoryRows, id_: str) -> Memory:
    try:
        found = rows.found([UUID(id_)])
    except ValueError:
        found = {}
    if not found:
        raise NotFound(f"There is no memory {id_!r:.60}: take an id from an answer of add, search or get_all.")
    return next(iter(found.values()))


def shown(memory: Memory, since: Memory | None = None, score: float | None = None) -> dict[str, Any]:
    """A memory as mem0 answers it; ``since`` is its first version."""
    own = {name: value for name, value in memory.metadata.items() if name not in ("agent_id", "app_id")}
    fields = {
        "id": str(memory.id),
        "memory": memory.text,
        "user_id": memory.owner,
        "agent_id": memory.metadata.get("agent_id"),
        "app_id": memory.metadata.get("app_id"),
        "run_id": None if (memory.session or OWN_SESSION).startswith(OWN_SESSION) else memory.session,
        "metadata": own or None,
        "categories": None,
        "created_at": (since or memory).created_at.isoformat(),
        "updated_at": memory.created_at.isoformat(),
    }
    return fields if score is None else {**fields, "score": score}


def history(versions: Sequence[Memory]) -> list[dict[str, Any]]:
    """A memory's versions as mem0's history has them: how it was added, and each update."""
    current = versions[-1]
    return [
        {
            "id": str(version.id),
            "memory_id": str(current.id),
            "old_memory": before.text if before else None,
            "new_memory": version.text,
            "user_id": version.owner,
            "event": "UPDATE" if before else "ADD",
            "metadata": dict(version.metadata) or None,
            "created_at": versions[0].created_at.isoformat(),
            "updated_at": version.created_at.isoformat(),
        }
        for before, version in zip((None, *versions), versions, strict=False)
    ]
