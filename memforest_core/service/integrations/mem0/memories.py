"""Reading facts as mem0's memories: a fact and what it was corrected to are one memory, with a history."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from memforest_core.domain.ids import TenantId
from memforest_core.errors import NotFound
from memforest_core.service.integrations.mem0.requests import Place
from memforest_core.service.integrations.mem0.rows import Memory, MemoryRows
from memforest_core.store.engine import Engine

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
