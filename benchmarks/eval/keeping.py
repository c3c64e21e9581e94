"""What store, index and embedder answered about one conversation is kept: a row that isn't timed asks what is new.

The memory does not change during a run, so the same statement, query or text has the same answer for every variant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.evidence import Evidence
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.scoring import Item, Voted
from memforest_core.index.vector_index import DenseVector, Hit, Hits, IndexFilter, IndexQuery, SparseVector, VectorIndex
from memforest_core.models.calls import Embedded, Embedder
from memforest_core.recall.candidates import Candidates
from memforest_core.recall.gathering import Gathered
from memforest_core.recall.records import CellTokens, FactText, Metadata, PlacedNode, TurnKey
from memforest_core.recall.rows.reading import RecallRows, RecallStore
from memforest_core.store.pipelines import Statement
from memforest_core.store.reads import Read, Reader, Rows

V = TypeVar("V")
VectorKey = SparseVector | bytes
StatementKey = tuple[TenantId, str, tuple[tuple[str, object], ...]]


@dataclass
class Kept:
    """Answers about one conversation; another conversation's drop them. One thread uses it."""

    conversation: str = ""
    rows: dict[StatementKey, Rows] = field(default_factory=dict)
    """Of statements of Postgres, by their values."""
    named: dict[tuple[str, ForestId | None, datetime | None], dict[Any, Any]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Rows that statements name, each by itself; None for one that does not exist."""
    hits: dict[tuple[VectorKey, IndexFilter, int, float | None], Hits] = field(default_factory=dict)
    """Of searches that choose among all points."""
    points: dict[tuple[VectorKey, IndexFilter], dict[UUID, Hit | None]] = field(default_factory=dict)
    """Of searches that score named points, point by point; None for one that was not found."""
    vectors: dict[tuple[str, ...], Embedded] = field(default_factory=dict)
    """Of questions."""
    gathered: dict[Hashable, Gathered] = field(default_factory=dict)
    """Candidates, by question and by all settings that they depend on."""
    items: dict[int, tuple[Candidates, list[Item]]] = field(default_factory=dict)
    """What candidates can be delivered as, by their identity, with these."""
    evidence: dict[Hashable, list[tuple[Voted, Evidence]]] = field(default_factory=dict)
    """Pieces, by the candidates that they were made of."""
    pieces: dict[Hashable, Evidence | None] = field(default_factory=dict)
    """Each piece by itself; None for one whose fact is gone."""
    words: dict[str, frozenset[str]] = field(default_factory=dict)
    """The terms of pieces' texts."""

    def about(self, conversation: str) -> None:
        """What follows is asked about this conversation."""
        if conversation != self.conversation:
            self.conversation = conversation
            for each in fields(self):
                if each.name != "conversation":
                    getattr(self, each.name).clear()


class KeptReader(Reader):
    """Reads whose rows are kept."""

    def __init__(self, engine: sa.Engine, tenant: TenantId, kept: Kept) -> None:
        super().__init__(engine, tenant)
        self._kept = kept.rows

    def _found(self, sent: Sequence[Statement]) -> list[Rows]:
        keys = [(self._tenant, wording.text, _hashable(values)) for wording, values in sent]
        missing = {key: each for key, each in zip(keys, sent, strict=True) if key not in self._kept}
        if missing:
            self._kept.update(zip(missing, super()._found(list(missing.values())), strict=True))
        return [list(self._kept[key]) for key in keys]


def _hashable(values: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in values.items())


class KeptRows(RecallRows):
    """Reads that are kept; what many variants name in other selections is kept row by row.

    Nothing measured depends on the ways down to pieces: they are not read.
    """

    def __init__(self, engine: sa.Engine, tenant: TenantId, kept: Kept) -> None:
        super().__init__(engine, tenant)
        reader = KeptReader(engine, tenant, kept)
        self.one, self.together = reader.one, reader.together
        self._named = kept.named

    def facts(self, forest: ForestId, ids: Sequence[UUID], until: datetime | None = None) -> Read[list[FactText]]:
        """Those of the facts that exist, as far as corrections are known by ``until``, in the order of the ids."""
        known: dict[UUID, FactText | None] = self._named["facts", forest, until]
        new = [id_ for id_ in ids if id_ not in known]
        read = super().facts(forest, new, until)

        def made(rows: Rows) -> list[FactText]:
            known.update(dict.fromkeys(new))
            known.update((fact.id, fact) for fact in read.made(rows))
            return [fact for fact in map(known.__getitem__, dict.fromkeys(ids)) if fact is not None]

        return Read(read.statement, read.values, made)

    def tokens(self, forest: ForestId, model: str, cells: Sequence[UUID]) -> Read[dict[UUID, CellTokens]]:
        """The token vectors of those of these cells that have some of this embedding model."""
        known: dict[UUID, CellTokens | None] = self._named[f"tokens of {model}", forest, None]
        new = [cell for cell in cells if cell not in known]
        read = super().tokens(forest, model, new)

        def made(rows: Rows) -> dict[UUID, CellTokens]:
            known.update(dict.fromkeys(new))
            known.update(read.made(rows))
            return {cell: found for cell in cells if (found := known[cell]) is not None}

        return Read(read.statement, read.values, made)

    def turn_texts(self, keys: Sequence[TurnKey]) -> Read[dict[TurnKey, str]]:
        """The contents of turns."""
        return self._of_keys("texts", keys, super().turn_texts)

    def metadata(self, keys: Sequence[TurnKey]) -> Read[dict[TurnKey, Metadata]]:
        """The metadata of turns and of their sessions."""
        return self._of_keys("metadata", keys, super().metadata)

    def paths(self, payloads: Sequence[UUID], chars: int) -> Read[list[PlacedNode]]:
        """None."""
        return Read(None, {}, lambda _: [])

    def _of_keys(
        self, what: str, keys: Sequence[TurnKey], asked: Callable[[Sequence[TurnKey]], Read[dict[TurnKey, V]]]
    ) -> Read[dict[TurnKey, V]]:
        known: dict[TurnKey, V | None] = self._named[what, None, None]
        new = [key for key in keys if key not in known]
        read = asked(new)

        def made(rows: Rows) -> dict[TurnKey, V]:
            known.update(dict.fromkeys(new))
            known.update(read.made(rows))
            return {key: value for key in keys if (value := known[key]) is not None}

        return Read(read.statement, read.values, made)


class KeptStore(RecallStore):
    """Where recall reads; priorities of topics are read anew, as they depend on the clock."""

    def __init__(self, engine: sa.Engine, kept: Kept) -> None:
        super().__init__(engine)
        self._kept = kept

    @contextmanager
    def recalling(self, tenant: TenantId) -> Iterator[RecallRows]:
        """Reads of a tenant, which raise StoreUnavailable."""
        yield KeptRows(self._engine, tenant, self._kept)


class KeptIndex:
    """Searches of an index. A named point's score depends on no other point, so each is asked for once."""

    def __init__(self, index: VectorIndex, kept: Kept) -> None:
        self._index = index
        self._kept = kept

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        """As the index's own; what is new goes there in one round trip. Raises IndexUnavailable."""
        asked = [query for query in map(self._unknown, queries) if query is not None]
        for query, hits in zip(asked, self._index.search(asked) if asked else (), strict=True):
            self._keep(query, hits)
        return [self._known(query) for query in queries]

    def _unknown(self, query: IndexQuery) -> IndexQuery | None:
        """What of a query was not asked before."""
        ids = _named(query)
        if ids is None:
            return None if _whole(query) in self._kept.hits else query
        known = self._kept.points.get(_points(query), {})
        new = tuple(id_ for id_ in ids if id_ not in known)
        return replace(query, filter=replace(query.filter, ids=new), limit=len(new)) if new else None

    def _keep(self, query: IndexQuery, hits: Hits) -> None:
        ids = _named(query)
        if ids is None:
            self._kept.hits[_whole(query)] = hits
            return
        known = self._kept.points.setdefault(_points(query), {})
        known.update(dict.fromkeys(ids))
        known.update((hit.id, hit) for hit in hits)

    def _known(self, query: IndexQuery) -> Hits:
        ids = _named(query)
        if ids is None:
            return self._kept.hits[_whole(query)]
        known = self._kept.points.get(_points(query), {})
        return Hits.of(hit for hit in map(known.__getitem__, ids) if hit is not None)


def _named(query: IndexQuery) -> tuple[UUID, ...] | None:
    """The points that a query names, when it asks for each of them."""
    ids = query.filter.ids
    return ids if ids is not None and query.limit >= len(ids) and query.min_score is None else None


def _whole(query: IndexQuery) -> tuple[VectorKey, IndexFilter, int, float | None]:
    return _vector(query.vector), query.filter, query.limit, query.min_score


def _points(query: IndexQuery) -> tuple[VectorKey, IndexFilter]:
    return _vector(query.vector), replace(query.filter, ids=())


def _vector(vector: SparseVector | DenseVector) -> VectorKey:
    return vector if isinstance(vector, SparseVector) else vector.tobytes()


class KeptEmbedder:
    """Vectors of questions by their texts; those of other texts are made anew."""

    def __init__(self, embedder: Embedder, kept: Kept) -> None:
        self._embedder = embedder
        self._kept = kept

    @property
    def model(self) -> str:
        """As the embedder's own."""
        return self._embedder.model

    @property
    def dimension(self) -> int:
        """As the embedder's own."""
        return self._embedder.dimension

    def embed(self, texts: Sequence[str]) -> Embedded:
        """As the embedder's own."""
        return self._embedder.embed(texts)

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """As the embedder's own, once for the same texts."""
        key = tuple(texts)
        if key not in self._kept.vectors:
            self._kept.vectors[key] = self._embedder.embed_query(texts)
        return self._kept.vectors[key]
