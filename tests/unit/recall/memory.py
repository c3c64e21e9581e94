"""A small forest in memory: what recall reads, and an index with scripted scores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid5

import numpy as np

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, PayloadId, SessionId, TenantId, TreeId, TreeKind
from memforest_core.domain.state_order import StoredState
from memforest_core.domain.times import UNKNOWN_TIME, TimeSpan, micros
from memforest_core.errors import IndexUnavailable, ModelUnavailable
from memforest_core.index.vector_index import Hit, Hits, IndexQuery, Point, PointKind, SparseVector
from memforest_core.models.calls import CallRecord, Embedded, Step
from memforest_core.recall.records import (
    FEW_BYTES,
    Around,
    CellRef,
    CellTokens,
    FactHead,
    FactText,
    Link,
    Metadata,
    PlacedNode,
    Said,
    SaidTurn,
    TreeChild,
    TreeRoot,
    TurnHead,
    TurnKey,
)
from memforest_core.recall.states import SourceTurn
from memforest_core.store.owners import ForestRef

SPACE = UUID(int=77)
START = datetime(2024, 3, 4, 9, 0, tzinfo=UTC)
TENANT = TenantId("acme")
FOREST = ForestId(UUID(int=1))


def named(name: str) -> UUID:
    """A stable id for a name."""
    return uuid5(SPACE, name)


Found = TypeVar("Found")


class Cost(NamedTuple):
    """What calls cost, and for which forest."""

    forest: ForestId | None
    calls: Sequence[CallRecord]


class NoStates:
    """A forest without stored states, for any owner."""

    def speakers(self, forest: ForestId) -> list[tuple[str, str]]:
        return []

    def of_subjects(self, *_requested: object) -> list[StoredState]:
        return []

    def turns(self, *_requested: object) -> dict[TurnKey, SourceTurn]:
        return {}


@dataclass
class Forest:
    """Rows of one owner. Every session has a tree: leaves in threes below a root."""

    owner: str = "alice"
    said: dict[TurnKey, str] = field(default_factory=dict)
    heads: dict[TurnKey, TurnHead] = field(default_factory=dict)
    cell_rows: dict[UUID, CellRef] = field(default_factory=dict)
    fact_rows: dict[UUID, FactText] = field(default_factory=dict)
    written: set[UUID] = field(default_factory=set)
    links: list[Link] = field(default_factory=list)
    placed: list[PlacedNode] = field(default_factory=list)
    entities: dict[str, NodeId] = field(default_factory=dict)
    summaries_by_node: dict[NodeId, str] = field(default_factory=dict)
    metadata_of: dict[TurnKey, dict[str, object]] = field(default_factory=dict)
    unseen: list[UUID] = field(default_factory=list)
    transactions: int = 0
    open_transactions: int = 0
    forest_id: ForestId = FOREST
    costs: list[Cost] = field(default_factory=list)

    def session(
        self, name: str, *turns: tuple[str, str], placed: bool = True, days: int = 0, channel: str | None = None
    ) -> None:
        """A session of (speaker, text) turns in cells of two, with its tree."""
        session = SessionId(named(name))
        cells = []
        for ordinal, (speaker, text) in enumerate(turns):
            key = (session, ordinal)
            moment = START + timedelta(days=days, minutes=ordinal)
            role = "user" if speaker == turns[0][0] else "assistant"
            self.said[key] = text
            self.heads[key] = TurnHead(
                *(session, ordinal, f"{name}-{ordinal}", name, speaker, speaker, moment, True, role, None, channel),
                is_question=text.endswith("?"),
                short=len(text.encode()) <= FEW_BYTES,
            )
        for number, first in enumerate(range(0, len(turns), 2)):
            last = min(first + 1, len(turns) - 1)
            cell = CellId(named(f"{name}/{number}"))
            root = NodeId(named(f"{name}#root")) if placed else None
            self.cell_rows[cell] = CellRef(cell, session, first, last, None, None, placed, root)
            cells.append(PayloadId(cell))
        if placed:
            self.tree(name, TreeKind.SESSION, cells, days)

    def tree(self, name: str, kind: TreeKind, payloads: Sequence[PayloadId], days: int = 0) -> NodeId:
        """A tree of two levels above its leaves; node ids are ``name#root`` and ``name#0``, ``name#1``, ..."""
        tree, root = TreeId(named(f"{name}#tree")), NodeId(named(f"{name}#root"))
        span = (micros(START + timedelta(days=days)), micros(START + timedelta(days=days, hours=1)))

        def add(node: UUID, parent: NodeId | None, level: int, payload: PayloadId | None = None) -> None:
            self.placed.append(PlacedNode(NodeId(node), tree, parent, level, payload, *span, False, kind, name))

        add(root, None, 2)
        for at, payload in enumerate(payloads):
            middle = NodeId(named(f"{name}#{at // 3}"))
            if at % 3 == 0:
                add(middle, root, 1)
            add(named(f"{name}@{payload}"), middle, 0, payload)
        return root

    def fact(
        self, text: str, session: str, *ordinals: int, span: TimeSpan = UNKNOWN_TIME, written: bool = False
    ) -> FactId:
        """A fact that those turns say; ``written`` by a model, else a pointer."""
        fact, source = FactId(named(text)), SessionId(named(session))
        head = self.heads[source, ordinals[0]]
        self.fact_rows[fact] = FactText(fact, Statement(text, span, head.occurred_at, head.name, ""))
        if written:
            self.written.add(fact)
        cell = CellId(named(f"{session}/{ordinals[0] // 2}"))
        self.links.append(Link(fact, cell, source, ordinals))
        return fact

    @contextmanager
    def recalling(self, tenant: TenantId) -> Iterator[Forest]:
        assert tenant == TENANT
        self.transactions += 1
        self.open_transactions += 1
        try:
            yield self
        finally:
            self.open_transactions -= 1

    @contextmanager
    def reading(self, tenant: TenantId) -> Iterator[NoStates]:
        assert tenant == TENANT
        yield NoStates()

    def record(self, tenant: TenantId, forest: ForestId | None, calls: Sequence[CallRecord]) -> None:
        assert tenant == TENANT
        self.costs.append(Cost(forest, calls))

    def forest(self, owner: str) -> ForestRef | None:
        return ForestRef(self.forest_id, owner, "UTC") if owner == self.owner else None

    def speakers(self, forest: ForestId) -> list[tuple[str, str]]:
        return []

    def one(self, found: Found) -> Found:
        """Each read is done at once."""
        return found

    def together(self, *found: object) -> tuple[object, ...]:
        return found

    def entity_roots(self, forest: ForestId, keys: Sequence[str], chars: int) -> list[TreeRoot]:
        return self.tree_roots([self.entities[key] for key in keys if key in self.entities], chars)

    def cells(
        self, forest: ForestId, ids: Sequence[UUID], topics: Sequence[UUID] = (), behind: int = 0
    ) -> tuple[list[CellRef], list[TurnHead]]:
        rows = [self.cell_rows[id_] for id_ in ids if id_ in self.cell_rows]
        for topic in (self.cell_rows[id_] for id_ in topics if id_ in self.cell_rows):
            rows += [
                row
                for row in self.cell_rows.values()
                if row.session_id == topic.session_id
                and 0 < row.first_turn - topic.last_turn <= behind
                and row not in rows
            ]
        turns = [(row.session_id, at) for row in rows for at in range(row.first_turn, row.last_turn + 1)]
        return rows, self.turns(turns)

    def cells_of_facts(self, facts: Sequence[UUID], limit: int, until: datetime | None = None) -> list[Said]:
        return [
            (link.fact_id, link.cell_id)
            for link in self.links
            if link.fact_id in facts and (until is None or self.said_at(link.cell_id) <= until)
        ]

    def said_at(self, cell: UUID) -> datetime:
        row = self.cell_rows[cell]
        return self.heads[row.session_id, row.first_turn].occurred_at

    def links_of_cells(self, cells: Sequence[UUID], until: datetime | None = None) -> list[Link]:
        return [link for link in self.links if link.cell_id in cells]

    def fact_heads(self, ids: Sequence[UUID]) -> list[FactHead]:
        return [
            FactHead(fact.id, fact.id not in self.written, fact.statement.time.start, fact.statement.time.end)
            for fact in self.facts(FOREST, ids)
        ]

    def facts(self, forest: ForestId, ids: Sequence[UUID], until: datetime | None = None) -> list[FactText]:
        return [self.fact_rows[id_] for id_ in ids if id_ in self.fact_rows]

    def roots_above(self, payloads: Sequence[UUID], kinds: Collection[TreeKind]) -> list[tuple[UUID, UUID]]:
        return [
            (leaf.payload_id, named(f"{leaf.label}#root"))
            for leaf in self.placed
            if leaf.payload_id is not None and leaf.payload_id in payloads and leaf.kind in kinds
        ]

    def metadata(self, keys: Sequence[TurnKey]) -> dict[TurnKey, Metadata]:
        return {key: Metadata(self.metadata_of.get(key, {}), {}) for key in keys}

    def last_said(self, forest: ForestId) -> datetime | None:
        return max((head.occurred_at for head in self.heads.values()), default=None)

    def sessions(self, forest: ForestId, names: Sequence[str]) -> list[SessionId]:
        return [session for session in {key[0] for key in self.said} if session in {named(name) for name in names}]

    def sessions_in(
        self, forest: ForestId, channels: Sequence[str], names: Sequence[str], limit: int
    ) -> list[SessionId]:
        wanted = {named(name) for name in names}
        found = {head.session_id for head in self.heads.values() if head.channel in channels}
        return [session for session in found if not wanted or session in wanted][:limit]

    def paths(self, payloads: Sequence[UUID], chars: int) -> list[PlacedNode]:
        trees = {leaf.tree_id for leaf in self.placed if leaf.payload_id in payloads}
        reported = {node: text[:chars] for node, text in self.summaries_by_node.items()}
        return [
            node._replace(text=reported.get(node.id))
            for node in self.placed
            if node.tree_id in trees and (node.payload_id is None or node.payload_id in payloads)
        ]

    def tree_roots(self, roots: Sequence[UUID], chars: int) -> list[TreeRoot]:
        found = {node.id: node for node in self.placed}
        return [
            TreeRoot(node.id, node.tree_id, node.kind, node.label, node.time_start, node.time_end, text)
            for node in (found[NodeId(root)] for root in roots if root in found)
            for text in (self.summaries_by_node.get(node.id, "")[:chars] or None,)
        ]

    def children(self, nodes: Sequence[UUID], chars: int) -> list[TreeChild]:
        def made(node: PlacedNode, parent: NodeId) -> TreeChild:
            payload = node.payload_id
            text = (
                self.summaries_by_node.get(node.id, "")
                if payload is None
                else self.texts([payload], chars).get(payload, "")
            )
            return TreeChild(node.id, node.tree_id, parent, payload, node.time_start, node.time_end, text[:chars])

        return [made(child, child.parent_id) for parent in nodes for child in self.placed if child.parent_id == parent]

    def turns(self, keys: Sequence[TurnKey]) -> list[TurnHead]:
        return [self.heads[key] for key in keys if key in self.heads]

    def turn_texts(self, keys: Sequence[TurnKey]) -> dict[TurnKey, str]:
        return {key: self.said[key] for key in keys if key in self.said}

    def around(self, leaves: Sequence[UUID], n: int) -> Mapping[NodeId, Around]:
        found = {}
        for leaf in [node for node in self.placed if node.id in leaves]:
            held = [node.payload_id for node in self.placed if node.tree_id == leaf.tree_id and node.payload_id]
            at = held.index(PayloadId(leaf.payload_id or UUID(int=0)))
            before, after = held[max(0, at - n) : at], held[at + 1 : at + 1 + n]
            found[leaf.id] = before[::-1], after
        return found

    def full_text(
        self, forest: ForestId, words: Sequence[str], limit: int, until: datetime | None = None
    ) -> tuple[dict[UUID, str], dict[UUID, str]]:
        def matches(text: str) -> bool:
            return any(word in text.casefold() for word in words)

        cells = [(id_, text) for id_ in self.cell_rows if matches(text := self.cell_text(id_))]
        facts = [(id_, text) for id_, fact in self.fact_rows.items() if matches(text := fact.statement.text)]
        return dict(cells[:limit]), dict(facts[:limit])

    def tokens(self, forest: ForestId, model: str, cells: Sequence[UUID]) -> dict[UUID, CellTokens]:
        return {}

    def index_unsure(self) -> bool:
        return False

    def cold_text(
        self, forest: ForestId, words: Sequence[str], limit: int, until: datetime | None = None
    ) -> tuple[dict[UUID, str], dict[UUID, str]]:
        return {}, {}

    def cold_topics(self, owner: str) -> str | None:
        return None

    def not_indexed(self, owner: str, limit: int) -> dict[UUID, str]:
        return {id_: self.cell_text(id_) for id_ in self.unseen[:limit]}

    def texts(self, payloads: Sequence[UUID], chars: int) -> dict[UUID, str]:
        cells = {id_: self.cell_text(id_)[:chars] for id_ in payloads if id_ in self.cell_rows}
        return cells | {id_: self.fact_rows[id_].statement.text[:chars] for id_ in payloads if id_ in self.fact_rows}

    def last_turns(self, forest: ForestId, session_external_id: str, n: int) -> list[SaidTurn]:
        keys = sorted(key for key in self.said if key[0] == named(session_external_id))[-n:]
        return [SaidTurn(self.heads[key].name, self.said[key], self.heads[key].occurred_at) for key in keys]

    def cell_text(self, cell: UUID) -> str:
        row = self.cell_rows[cell]
        keys = [(row.session_id, at) for at in range(row.first_turn, row.last_turn + 1)]
        return "\n".join(f"{self.heads[key].name}: {self.said[key]}" for key in keys)


@dataclass
class ScriptedIndex:
    """Scores points by script: by id a kind, a lexical and a dense score."""

    name: str = "scripted"
    points: dict[UUID, tuple[PointKind, float, float]] = field(default_factory=dict)
    roots: set[UUID] = field(default_factory=set)
    calls: list[Sequence[IndexQuery]] = field(default_factory=list)
    unavailable_after: int | None = None
    """How many calls it answers before it is unavailable."""
    forest_id: ForestId = FOREST
    before: Callable[[], None] = lambda: None
    """Called before each search."""

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        self.before()
        if self.unavailable_after is not None and len(self.calls) >= self.unavailable_after:
            raise IndexUnavailable("away")
        self.calls.append(queries)
        return [self._hits(query) for query in queries]

    def _hits(self, query: IndexQuery) -> Hits:
        assert query.filter.tenant == TENANT
        assert query.filter.forest_id == self.forest_id
        at = 1 if isinstance(query.vector, SparseVector) else 2
        found = [
            Hit(id_, scores[0], float(scores[at]))
            for id_, scores in self.points.items()
            if (not query.filter.kinds or scores[0] in query.filter.kinds)
            and (not query.filter.roots_only or id_ in self.roots)
            and (query.filter.ids is None or id_ in query.filter.ids)
            and (at == 2 or float(scores[1]) > 0.0)
        ]
        return Hits.of(sorted(found, key=lambda hit: -hit.score)[: query.limit])

    def prepare(self) -> None: ...

    def upsert(self, points: Sequence[Point]) -> None: ...

    def delete(self, ids: Sequence[UUID]) -> None: ...

    def versions(self, tenant: TenantId, ids: Sequence[UUID]) -> dict[UUID, int]:
        return {}

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        return len(self.points)

    def close(self) -> None: ...


@dataclass
class Grove:
    """Several owners' forests as one store: each read is of the forest it names, else of all of them."""

    forests: list[Forest]

    @contextmanager
    def recalling(self, tenant: TenantId) -> Iterator[Grove]:
        assert tenant == TENANT
        yield self

    @contextmanager
    def reading(self, tenant: TenantId) -> Iterator[NoStates]:
        assert tenant == TENANT
        yield NoStates()

    def forest(self, owner: str) -> ForestRef | None:
        return next((found for each in self.forests if (found := each.forest(owner)) is not None), None)

    def __getattr__(self, name: str) -> Any:
        def read(*given: Any, **more: Any) -> Any:
            own = [each for each in self.forests if given and given[0] in (each.forest_id, each.owner)]
            found = [getattr(each, name)(*given, **more) for each in own or self.forests]
            if isinstance(found[0], dict):
                return {key: value for each in found for key, value in each.items()}
            if isinstance(found[0], list):
                return [value for each in found for value in each]
            return found[0]

        return read


@dataclass
class GroveIndex:
    """Their indexes as one."""

    of_forest: dict[ForestId, ScriptedIndex]

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        [forest] = {query.filter.forest_id for query in queries}
        return self.of_forest[forest].search(queries)


@dataclass
class OneVector:
    """Embeds everything alike, or is unavailable."""

    unavailable: bool = False
    model: str = "one"
    dimension: int = 2

    def embed(self, texts: Sequence[str]) -> Embedded:
        if self.unavailable:
            raise ModelUnavailable("away")
        record = CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, "ok")
        return Embedded(np.array([[1.0, 0.0]] * len(texts), dtype=np.float32), record)

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        return self.embed(texts)
