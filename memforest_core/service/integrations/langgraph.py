"""LangGraph: the long-term store of a graph, whose items are recalled with everything else that the memory knows.

Written against ``langgraph.store.base.BaseStore`` of langgraph-checkpoint 4.3. An item is a session of one turn: the
turn's text is what there is to say of the value, its metadata the value itself. A put adds a turn and deletes the one
before it; the newest turn is the item, whatever is still being deleted.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from memforest_core.domain.conditions import parse_conditions
from memforest_core.domain.extras import needed
from memforest_core.domain.turns import Turn, TurnLimits, checked_metadata
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.service.integrations.conversation import PAGE, Conversation, as_turn

with needed("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
    )

if TYPE_CHECKING:
    from memforest_core.domain.evidence import Evidence
    from memforest_core.observe.reading.records import StoredSession
    from memforest_core.service.integrations.conversation import Memory

STORED_AS = "langgraph"
"""The metadata of an item: of its turn (value, created_at), and of its session (namespace, key)."""
WITHIN = "langgraph_within"
"""Metadata of an item's session: its namespace and all that it is in, so that recall can be bounded to one of them."""
CONVERSATIONS = "conversations"
"""The namespace in which every session that is no item appears: (CONVERSATIONS, session id), a key for each turn."""
UNSEARCHED = "[stored without words]"
"""The text of an item that was put with ``index=False``."""
MOST = 200
"""Evidence items that one search reads."""
VERSIONS = 10
"""Earlier turns of an item that one put searches, to delete them."""


class MemForestStore(BaseStore):
    """A ``BaseStore`` over one owner's memory: ``builder.compile(store=MemForestStore(memory, "alice"))``.

    get, put and delete are exact and at once; a search without a query lists, the newest first. A search with a query
    is a recall, about a second behind: of items and, below ``("conversations",)``, of the turns of all other sessions,
    which can be read but not put.
    """

    supports_ttl = False

    def __init__(self, memory: Memory, owner: str) -> None:
        """``memory`` is a MemForest or a RemoteMemForest; async calls run in threads."""
        self._memory = memory
        self._owner = owner

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads in order, then writes; of several writes of one key the last counts. Raises as ``MemForest.append``."""
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            result: Result = None
            match op:
                case GetOp():
                    result = self._get(op.namespace, op.key)
                case SearchOp():
                    result = self._search(op)
                case ListNamespacesOp():
                    result = self._namespaces(op)
                case PutOp():
                    puts[op.namespace, op.key] = op
            results.append(result)
        for put in puts.values():
            self._put(put)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As ``batch``, in a thread."""
        return await asyncio.to_thread(self.batch, ops)

    def _get(self, namespace: tuple[str, ...], key: str) -> Item | None:
        if namespace[:1] == (CONVERSATIONS,):
            turns = self._conversation(namespace[1]).turns() if len(namespace) == len((CONVERSATIONS, "id")) else ()
            return next((_said(namespace, turn) for turn in turns if turn.id == key), None)
        turn = self._current(_session_id(namespace, key))
        return None if turn is None else _item(namespace, key, turn)

    def _put(self, op: PutOp) -> None:
        if op.namespace[:1] == (CONVERSATIONS,):
            raise InvalidInput(
                f"Put under another namespace than {CONVERSATIONS!r}: what is there comes from sessions.",
                code="invalid_namespace",
            )
        name = _session_id(op.namespace, op.key)
        if op.value is None:
            self._conversation(name).clear()
            return
        before = self._current(name)
        value = checked_metadata(op.value, "The item", TurnLimits())
        stored: dict[str, object] = {"value": value, "searched": op.index is not False}
        if before is not None:
            stored["created_at"] = _created(before).isoformat()
        turn = as_turn({"role": "user", "content": _text(value, op.index)}, {STORED_AS: stored})
        about = {"namespace": list(op.namespace), "key": op.key}
        within = [_path(op.namespace[:depth]) for depth in range(len(op.namespace) + 1)]
        self._memory.append(self._owner, name, turn, metadata={STORED_AS: about, WITHIN: within}, close=True)
        *before_it, _ = self._memory.turns(self._owner, name, last=VERSIONS).items
        old = [turn.id for turn in before_it if not turn.erased]
        if old:
            # Not waited for: the newest turn is the item already.
            self._memory.lifecycle.forget(self._owner, session=name, turns=old, actor=STORED_AS)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        fulfils = parse_conditions(_conditions(op.filter or {}))
        found = self._recalled(op) if op.query else self._listed(op.namespace_prefix)
        wanted = (item for item in found if fulfils(item.value))
        return list(islice(wanted, op.offset, op.offset + op.limit))

    def _recalled(self, op: SearchOp) -> Iterator[SearchItem]:
        """What recall finds below a namespace, best first; each item and each turn once."""
        prefix = op.namespace_prefix
        bounds: dict[str, Any] = {}
        if prefix[:1] == (CONVERSATIONS,):
            bounds = {"metadata": {WITHIN: {"$exists": False}}}
            bounds |= {"sessions": list(prefix[1:2])} if prefix[1:] else {}
        elif prefix:
            bounds = {"metadata": {WITHIN: {"$contains": _path(prefix)}}}
        k = MOST if op.filter else min(MOST, op.offset + op.limit)
        seen = set()
        for piece in self._memory.recall(self._owner, str(op.query), k, **bounds).evidence:
            item = self._found(piece)
            if item is not None and item not in seen:
                seen.add(item)
                yield item

    def _found(self, piece: Evidence) -> SearchItem | None:
        about = piece.session_metadata.get(STORED_AS)
        if isinstance(about, Mapping):
            turn = self._current(piece.session_id)
            # What a put has replaced may be found until it is deleted.
            if turn is None or turn.id not in piece.turn_ids or not _stored(turn)["searched"]:
                return None
            return _searched(_item(tuple(about["namespace"]), str(about["key"]), turn), piece.score)
        if not piece.turn_ids or piece.time.start is None:
            return None
        at = piece.time.start
        value = {"content": piece.text, "speaker": piece.speaker}
        namespace = (CONVERSATIONS, piece.session_id)
        return SearchItem(namespace, piece.turn_ids[0], value, at, at, piece.score)

    def _listed(self, prefix: tuple[str, ...]) -> Iterator[SearchItem]:
        """All items below a namespace, the newest first; turns of conversations only below their own."""
        for session in self._sessions():
            place = _place(session)
            namespace = (CONVERSATIONS, session.id) if place is None else place[0]
            if namespace[: len(prefix)] != prefix:
                continue
            if place is not None and (turn := self._current(session.id)) is not None:
                yield _searched(_item(*place, turn))
            elif place is None and prefix:
                for turn in self._conversation(session.id).turns():
                    yield _searched(_said(namespace, turn))

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = set()
        for session in self._sessions():
            place = _place(session)
            found.add((CONVERSATIONS, session.id) if place is None else place[0])
        conditions = op.match_conditions or ()
        stored = {each[: op.max_depth] for each in found if all(_matches(one, each) for one in conditions)}
        return sorted(stored)[op.offset : op.offset + op.limit]

    def _sessions(self) -> Iterator[StoredSession]:
        cursor = None
        while True:
            page = self._memory.sessions(self._owner, limit=PAGE, cursor=cursor)
            yield from page.items
            if (cursor := page.cursor) is None:
                return

    def _current(self, session_id: str) -> Turn | None:
        """The turn that is an item now."""
        with suppress(NotFound):
            for turn in self._memory.turns(self._owner, session_id, last=1).items:
                return None if turn.erased or STORED_AS not in turn.metadata else turn
        return None

    def _conversation(self, session_id: str) -> Conversation:
        return Conversation(self._memory, self._owner, session_id, STORED_AS)


def _session_id(namespace: tuple[str, ...], key: str) -> str:
    """Of an item's session: namespaces may be longer than an id."""
    return f"langgraph:{hashlib.sha256(_path((*namespace, key)).encode()).hexdigest()}"


def _path(namespace: tuple[str, ...]) -> str:
    return json.dumps(namespace, ensure_ascii=False)


def _place(session: StoredSession) -> tuple[tuple[str, ...], str] | None:
    """The namespace and key of the item that a session is; None of a conversation."""
    about = session.metadata.get(STORED_AS)
    return (tuple(about["namespace"]), str(about["key"])) if isinstance(about, Mapping) else None


def _stored(turn: Turn) -> Mapping[str, Any]:
    stored: Any = turn.metadata[STORED_AS]
    return stored  # type: ignore[no-any-return]


def _created(turn: Turn) -> datetime:
    created = _stored(turn).get("created_at")
    return turn.occurred_at if created is None else datetime.fromisoformat(created)


def _item(namespace: tuple[str, ...], key: str, turn: Turn) -> Item:
    return Item(
        value=dict(_stored(turn)["value"]),
        key=key,
        namespace=namespace,
        created_at=_created(turn),
        updated_at=turn.occurred_at,
    )


def _said(namespace: tuple[str, ...], turn: Turn) -> Item:
    """A turn of a conversation as an item."""
    value = {"content": turn.content, "role": turn.role.value, "speaker": turn.name}
    at = turn.occurred_at
    return Item(value=value, key=turn.id, namespace=namespace, created_at=at, updated_at=at)


def _searched(item: Item, score: float | None = None) -> SearchItem:
    return SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)


def _text(value: Mapping[str, Any], index: object) -> str:
    """What there is to say of a value: the fields that are to be searched, a line each."""
    if index is False:
        return UNSEARCHED
    if isinstance(index, list):
        lines = [text for path in index for text in get_text_at_path(value, path)]
    elif len(value) == 1:
        lines = [_line(each) for each in value.values()]
    else:
        lines = [f"{name}: {_line(each)}" for name, each in value.items()]
    return "\n".join(lines)


def _line(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _conditions(given: Mapping[str, Any]) -> dict[str, Any]:
    """LangGraph's filter in our words: only ``$eq`` has another name."""
    return {
        name: wanted["$eq"] if isinstance(wanted, Mapping) and wanted.keys() == {"$eq"} else wanted
        for name, wanted in given.items()
    }


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", found) for wanted, found in zip(path, part, strict=True))
