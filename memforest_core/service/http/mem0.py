"""The paths of mem0's ``MemoryClient``, so that it works with its ``host`` set to this server.

Paths, fields and answers are those of mem0ai 2.2 (``mem0/client/main.py``). A memory is a fact. No part of the OpenAPI
document: that has operations of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, TypeVar
from uuid import uuid4

from fastapi import APIRouter, Body, FastAPI, Request

from memforest_core.client.async_memory import AsyncMemForest
from memforest_core.client.route_table import ROUTES
from memforest_core.domain.chat_messages import TurnInput, message_turns
from memforest_core.domain.ids import FactId
from memforest_core.domain.turns import TurnLimits, checked_metadata, checked_name
from memforest_core.errors import InvalidInput
from memforest_core.service.http.endpoints import Memories, caller_of, check_owners, check_scope
from memforest_core.service.http.problems import Refused
from memforest_core.service.integrations.mem0_rows import Memory, MemoryRows, Place, unknown
from memforest_core.service.keys.records import Caller
from memforest_core.work.waiting import WaitTimeout

T = TypeVar("T")

PREFIXES = ("/v2/", "/v3/")
"""What its paths begin with in addition to /v1."""
NOT_SERVED = ("/v1/entities/", "/v1/batch/", "/v1/exports/", "/v1/summary/", "/v1/feedback/")
"""Paths of its client under /v1 that have no meaning here; under /v2 and /v3 it is all that is not below."""
FACTS_S = 60.0
"""An ``add`` waits so long for its facts; then it answers that they are pending. The client itself waits 300 s."""
DONE_S = 60.0
"""A change is waited for so long; it goes on after that."""
PAGE = 100
"""Memories of a page, unless the request says how many."""
TOP_K = 10

OWN_SESSION = "mem0-"
"""Begins the ids of sessions that an ``add`` without ``run_id`` makes."""
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

Given = Annotated[dict[str, Any], Body()]


def register(app: FastAPI, memories: Memories) -> None:
    """Serve the paths."""
    router = APIRouter(include_in_schema=False)
    paths = Mem0Paths(memories)
    router.get("/v1/ping/")(paths.ping)
    router.post("/v3/memories/add/")(paths.add)
    router.post("/v3/memories/")(paths.get_all)
    router.post("/v3/memories/search/")(paths.search)
    router.delete("/v1/memories/")(paths.delete_all)
    router.get("/v1/memories/{memory_id}/")(paths.get)
    router.put("/v1/memories/{memory_id}/")(paths.update)
    router.delete("/v1/memories/{memory_id}/")(paths.delete)
    router.get("/v1/memories/{memory_id}/history/")(paths.history)
    for prefix in (*NOT_SERVED, *PREFIXES):
        router.api_route(prefix + "{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])(not_served)
    app.include_router(router)


async def not_served(request: Request) -> None:
    """Say so, instead of leaving it at "not found"."""
    raise Refused(
        HTTPStatus.NOT_IMPLEMENTED,
        "unsupported_by_memforest",
        f"MemForest does not serve {request.url.path!r:.80} of mem0's API: docs/coming-from.md lists what it serves.",
    )


class Mem0Paths:
    """Answers requests of mem0's client. Each is checked as the route of ours that does the same."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories

    async def ping(self, request: Request) -> dict[str, Any]:
        """The client's first request: whether the key is valid. It wants an organization and a project."""
        tenant = caller_of(request).tenant
        return {"status": "ok", "org_id": tenant, "project_id": tenant, "user_email": None}

    async def add(self, request: Request, given: Given) -> dict[str, Any]:
        """Store messages; the memories that came of them, or PENDING when that takes longer."""
        caller = caller_of(request)
        fields = taken(given, "messages", "metadata", "timestamp", "filters", *ENTITIES)
        place = place_of(fields, caller.only_owner)
        memory = self._allowed(caller, "enqueue", place.owner)
        event = str(uuid4())
        turns, session = turns_of(fields, place, event), place.session or f"{OWN_SESSION}{event}"
        if not turns:
            return {"results": [], "event_id": event}
        try:
            if place.session is None:
                await memory.enqueue(place.owner, session, turns, wait="facts", timeout_s=FACTS_S)
            else:
                *first, last = turns
                for turn in first:
                    await memory.append(place.owner, session, turn)
                await memory.append(place.owner, session, last, wait="facts", timeout_s=FACTS_S)
        except WaitTimeout:
            message = "The messages are stored; their facts are still being extracted."
            return {"results": [], "status": "PENDING", "event_id": event, "message": message}
        _, found = await self._read(memory, MemoryRows.page, Place(place.owner, session), 0, PAGE)
        mine = [each for each in found if (each.turn or "").startswith(event)]
        return {"results": [{**shown(each), "event": "ADD"} for each in mine], "event_id": event}

    async def get_all(self, request: Request, given: Given) -> dict[str, Any]:
        """A page of memories, the one that was learned last first."""
        caller = caller_of(request)
        fields = taken({**given, **request.query_params}, "filters", "page", "page_size", *ENTITIES)
        place = place_of(fields, caller.only_owner)
        page, size = whole(fields.get("page", 1), "page", 1_000_000), whole(fields.get("page_size", PAGE), "page_size")
        memory = self._allowed(caller, "facts", place.owner)
        count, found = await self._read(memory, MemoryRows.page, place, (page - 1) * size, size)
        url = request.url.include_query_params(page_size=size)
        return {
            "count": count,
            "next": str(url.include_query_params(page=page + 1)) if page * size < count else None,
            "previous": str(url.include_query_params(page=page - 1)) if page > 1 else None,
            "results": [shown(each) for each in found],
        }

    async def search(self, request: Request, given: Given) -> dict[str, Any]:
        """The facts behind what recall finds, best first."""
        caller = caller_of(request)
        fields = taken(given, "query", "filters", "top_k", "reference_date", *ENTITIES)
        place = place_of(fields, caller.only_owner)
        k = whole(fields.get("top_k", TOP_K), "top_k", 200)
        memory = self._allowed(caller, "recall", place.owner)
        result = await memory.recall(
            place.owner,
            fields.get("query", ""),
            k,
            sessions=None if place.session is None else [place.session],
            metadata=dict(place.metadata) or None,
            asked_at=fields.get("reference_date"),
        )
        scores: dict[Any, float] = {}
        for piece in result.evidence:
            for fact in piece.fact_ids:
                scores.setdefault(fact, piece.score)
        found = await self._read(memory, MemoryRows.found, list(scores))
        shown_facts = [shown(found[fact], score=score) for fact, score in scores.items() if fact in found]
        return {"results": shown_facts[:k]}

    async def get(self, request: Request, memory_id: str) -> dict[str, Any]:
        """One memory, as it is now."""
        _, versions = await self._named(caller_of(request), "facts", memory_id)
        return shown(versions[-1], versions[0])

    async def history(self, request: Request, memory_id: str) -> list[dict[str, Any]]:
        """How a memory was added and updated."""
        _, versions = await self._named(caller_of(request), "facts", memory_id)
        return history(versions)

    async def update(self, request: Request, memory_id: str, given: Given) -> dict[str, Any]:
        """Correct a memory's text. It gets a new id; the old one still names it."""
        caller = caller_of(request)
        fields = taken(given, "text")
        memory, versions = await self._named(caller, "lifecycle.correct", memory_id)
        current = versions[-1]
        operation = await memory.lifecycle.correct(
            current.owner, current.id, text=str(fields.get("text", "")), actor=caller.name
        )
        await memory.lifecycle.wait(operation.id, DONE_S)
        _, versions = await self._named(caller, "lifecycle.correct", memory_id)
        return shown(versions[-1], versions[0])

    async def delete(self, request: Request, memory_id: str) -> dict[str, str]:
        """Delete a memory with all its versions, and the turns that say nothing else."""
        caller = caller_of(request)
        taken(dict(request.query_params))
        memory, versions = await self._named(caller, "lifecycle.forget", memory_id)
        current = versions[-1]
        forgetter = memory.services.forgetter
        tasks = await memory.threads.run(
            forgetter.forget_facts, caller.tenant, current.owner, [FactId(current.id)], actor=caller.name
        )
        for task in tasks:
            await memory.lifecycle.wait(task, DONE_S)
        return {"message": "Memory deleted successfully!"}

    async def delete_all(self, request: Request) -> dict[str, str]:
        """Delete a session (``run_id``), or all that is known of an owner."""
        caller = caller_of(request)
        place = place_of(taken(dict(request.query_params), *ENTITIES), None)
        if place.metadata:
            raise Refused(
                HTTPStatus.BAD_REQUEST, "unsupported_by_memforest", "Delete by user_id or agent_id, and run_id, only."
            )
        memory = self._allowed(caller, "lifecycle.forget", place.owner)
        what: Mapping[str, Any] = {"everything": True} if place.session is None else {"session": place.session}
        operation = await memory.lifecycle.forget(place.owner, **what, actor=caller.name)
        await memory.lifecycle.wait(operation.id, DONE_S)
        return {"message": "Memories deleted successfully!"}

    def _allowed(self, caller: Caller, route: str, owner: str) -> AsyncMemForest:
        """The memory of the caller's tenant. Raises Refused when the key does not allow this of the owner."""
        check_scope(caller, ROUTES[route])
        check_owners(caller, ROUTES[route], {"owner": owner})
        return self._memories.of(caller.tenant)

    async def _named(self, caller: Caller, route: str, memory_id: str) -> tuple[AsyncMemForest, Sequence[Memory]]:
        """A memory's versions by its id. Raises NotFound, also for one that the key does not reach."""
        check_scope(caller, ROUTES[route])
        memory = self._memories.of(caller.tenant)
        versions = await self._read(memory, MemoryRows.versions, memory_id)
        if not caller.may_ask_of(versions[-1].owner):
            raise unknown(memory_id)
        return memory, versions

    @staticmethod
    async def _read(memory: AsyncMemForest, method: Callable[..., T], *args: Any) -> T:
        """What a method of the rows returns, in a transaction and a thread of its own. Raises StoreUnavailable."""

        def read() -> T:
            with MemoryRows.opened(memory.services.engine, memory.tenant) as rows:
                return method(rows, *args)

        return await memory.threads.run(read)


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
    """The turns of an ``add``, none when nobody says anything; their ids begin with that of the ``event``. Raises
    InvalidInput."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidInput("Give messages: a list with role and content each.", code="invalid_turns")
    own = fields.get("metadata", {})
    if not isinstance(own, Mapping):
        raise _refused("Give metadata as an object.")
    turns: list[TurnInput] = []
    read = [turn for number, each in enumerate(messages, start=1) for turn in message_turns(each, f"Message {number}")]
    for number, message in enumerate(read):
        turn = {**message, "id": f"{event}-{number}"}
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
