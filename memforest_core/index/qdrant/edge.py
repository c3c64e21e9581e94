"""The vector index on the Qdrant engine inside this process: no server, one owner per directory."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import assert_never
from uuid import UUID

import numpy as np
import qdrant_edge as engine

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.known_ids import KNOWN_IDS
from memforest_core.errors import IndexUnavailable, InvalidSettings
from memforest_core.index.qdrant import conditions as c
from memforest_core.index.qdrant import schema
from memforest_core.index.qdrant.graphs import GRAPH_FROM, Graphs
from memforest_core.index.qdrant.ids import point_id, point_ids, rows_asked
from memforest_core.index.qdrant.kept import Group, KeptVectors
from memforest_core.index.qdrant.points import (
    asked_limit,
    batches,
    can_match,
    dense_values,
    encode_payload,
    hits_of,
    newest,
    only_named,
    read_fields,
    scanned_point,
    uuid_of,
)
from memforest_core.index.vector_index import (
    DenseVector,
    Hit,
    IndexFilter,
    IndexQuery,
    Point,
    PointKey,
    ScanPage,
    SparseVector,
)

_FIELD_INDEXES: dict[schema.FieldIndex, engine.PayloadSchemaType | engine.UuidIndexParams] = {
    schema.FieldIndex.FOREST: engine.UuidIndexParams(is_tenant=True),
    schema.FieldIndex.KEYWORD: engine.PayloadSchemaType.Keyword,
    schema.FieldIndex.UUID: engine.PayloadSchemaType.Uuid,
    schema.FieldIndex.INTEGER: engine.PayloadSchemaType.Integer,
    schema.FieldIndex.FLOAT: engine.PayloadSchemaType.Float,
}


PAGE = 2_000
"""Vectors read at once to build a graph; each page looks through the forest's ids anew."""


class EdgeIndex:
    """A shard of the Qdrant engine under ``path``, one directory per model and dimension.

    Safe for use by many threads of one process; the engine refuses a second process. Acknowledged
    writes are in the engine's log and survive a killed process without ``close``. The engine's
    optimizer is never run: it would hold the interpreter lock for seconds.
    """

    def __init__(self, path: Path, model: str, dimension: int, graph_from: int = GRAPH_FROM) -> None:
        """``graph_from``: points of one kind in a forest from which on those nearest to a vector are found by a graph
        beside the engine, which compares it with each of them; 0 for never."""
        self._model = model
        self._dimension = dimension
        self._name = schema.collection_name(model, dimension)
        self._directory = path / self._name
        self._shard: engine.EdgeShard | None = None
        self._closed = False
        self._writing = threading.Lock()
        self._kept = KeptVectors(dimension)
        self._graphs = Graphs(self, dimension, graph_from)

    @property
    def name(self) -> str:
        return self._name

    def prepare(self) -> None:
        """Open the shard, or create it with its payload indexes; a second call does nothing.

        Raises InvalidSettings when the directory holds another dimension, IndexUnavailable when it
        can't be opened (another process has it).
        """
        with self._writing:
            if self._shard is not None:
                return
            if self._closed:
                raise IndexUnavailable("the vector index is closed")
            with _engine_failures(f"vector index at {self._directory} can't be opened"):
                shard = self._open()
                known = shard.info().payload_schema
                for field, kind in schema.FIELD_INDEXES.items():
                    if field not in known:
                        shard.update(engine.UpdateOperation.create_field_index(field, _FIELD_INDEXES[kind]))
            # After ours is there: points under earlier names hold words that nobody would ever erase.
            for former in schema.former_names(self._model, self._dimension):
                shutil.rmtree(self._directory.with_name(former), ignore_errors=True)
            self._shard = shard

    def upsert(self, points: Sequence[Point]) -> None:
        for batch in batches(newest(points)):
            named = [(point_id(point.key), point) for point in batch]
            encoded = {id_: self._encode(id_, point) for id_, point in named}
            with self._writing, _engine_failures("the vector index refused a write"):
                shard = self._opened()
                stored = _versions(shard, list(encoded))
                fresh = [encoded[id_] for id_, point in named if id_ not in stored or stored[id_] < point.version]
                if fresh:
                    with self._forgetting([point.key for point in batch]):
                        shard.update(engine.UpdateOperation.upsert_points(fresh))

    def delete(self, keys: Sequence[PointKey]) -> None:
        with self._writing, _engine_failures("the vector index refused a deletion"):
            shard = self._opened()
            if keys:
                with self._forgetting(keys):
                    shard.update(engine.UpdateOperation.delete_points([point_id(key) for key in keys]))

    def search(self, queries: Sequence[IndexQuery]) -> list[list[Hit]]:
        found: list[list[Hit]] = [[] for _ in queries]
        shard = self._opened()
        asked: list[tuple[int, dict[UUID, UUID] | None]] = []
        for at, query in enumerate(queries):
            if not can_match(query):
                continue
            hits = self._beside(shard, query)
            if hits is None:
                asked.append((at, rows_asked(query.filter)))
            else:
                found[at] = hits
        if not asked:
            return found
        batch = engine.QueryBatchRequest([self._request(queries[at], rows) for at, rows in asked])
        with _engine_failures("the vector index refused a search"):
            answers = shard.query_batch(batch)
        for (at, rows), answer in zip(asked, answers, strict=True):
            # The engine makes an id anew each time it is looked at, and only what was asked for by ids needs them.
            told = ((each.id if rows is not None else None, each.score, each.payload) for each in answer)
            found[at] = hits_of(told, queries[at], rows)
        return found

    def versions(self, keys: Sequence[PointKey]) -> dict[UUID, int]:
        rows = {point_id(key): key.id for key in keys}
        with _engine_failures("the vector index refused a read"):
            return {rows[id_]: version for id_, version in _versions(self._opened(), list(rows)).items()}

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        wanted = _filter(c.forest_conditions(tenant, forest_id))
        with _engine_failures("the vector index refused a count"):
            return self._opened().count(engine.CountRequest(exact=True, filter=wanted))

    def scan(self, cursor: str | None, limit: int, tenant: TenantId | None = None) -> ScanPage:
        wanted = engine.Filter(
            must=[_condition(c.AnyOf(schema.TENANT, (tenant,)))] if tenant is not None else None,
            must_not=[engine.HasIdCondition({schema.MARK_ID})],
        )
        request = engine.ScrollRequest(
            offset=None if cursor is None else UUID(cursor),
            limit=limit,
            filter=wanted,
            with_payload=list(schema.SCANNED),
            with_vector=False,
        )
        with _engine_failures("the vector index refused a scan"):
            records, following = self._opened().scroll(request)
        points = tuple(scanned_point(record.payload or {}) for record in records)
        return ScanPage(points, None if following is None else str(following))

    def read_mark(self) -> str | None:
        with _engine_failures("the vector index refused a read"):
            for record in self._opened().retrieve([schema.MARK_ID], [schema.MARK], False):
                return str((record.payload or {})[schema.MARK])
        return None

    def write_mark(self, mark: str) -> None:
        marked = engine.Point(schema.MARK_ID, {}, {schema.KIND: schema.MARK, schema.MARK: mark})
        with self._writing, _engine_failures("the vector index refused a write"):
            self._opened().update(engine.UpdateOperation.upsert_points([marked]))

    @property
    def tending(self) -> bool:
        """Whether a graph is being built, or takes in what changed: searches ask the engine meanwhile."""
        return self._graphs.tending

    def close(self) -> None:
        """Flush and release the directory; later calls fail with IndexUnavailable."""
        self._graphs.close()
        with self._writing:
            shard, self._shard, self._closed = self._shard, None, True
            if shard is not None:
                with _engine_failures("the vector index could not be closed"):
                    shard.flush()
                    shard.close()

    def _open(self) -> engine.EdgeShard:
        config = engine.EdgeConfig(
            vectors={schema.DENSE: engine.EdgeVectorParams(self._dimension, engine.Distance.Cosine)},
            sparse_vectors={schema.TERMS: engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)},
        )
        if not self._directory.exists():
            # Made beside and renamed: a process killed half way must leave nothing half made.
            fresh = self._directory.with_name(f".{self._name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            engine.EdgeShard.create(str(fresh), config).close()
            fresh.rename(self._directory)
        return engine.EdgeShard.load(str(self._directory), config)

    def _opened(self) -> engine.EdgeShard:
        shard = self._shard
        if shard is None:
            state = "is closed" if self._closed else "is not open yet: call prepare() first"
            raise IndexUnavailable(f"the vector index {state}")
        return shard

    @contextmanager
    def _forgetting(self, keys: Sequence[PointKey]) -> Iterator[None]:
        """A write of these points, of which nothing may be kept from before; also when it fails half way."""
        try:
            yield
        finally:
            self._kept.forget(keys)
            self._graphs.forget(keys)

    def counted(self, group: Group) -> int:
        tenant, forest, kind = group
        wanted = _filter(c.conditions(IndexFilter(tenant, forest, (kind,)), None))
        with _engine_failures("the vector index refused a count"):
            return self._opened().count(engine.CountRequest(exact=True, filter=wanted))

    def pages(self, group: Group) -> Iterator[Mapping[UUID, DenseVector]]:
        tenant, forest, kind = group
        wanted, at = _filter(c.conditions(IndexFilter(tenant, forest, (kind,)), None)), None
        while True:
            request = engine.ScrollRequest(
                offset=at, limit=PAGE, filter=wanted, with_payload=[schema.ROW], with_vector=[schema.DENSE]
            )
            with _engine_failures("the vector index refused a scan"):
                records, at = self._opened().scroll(request)
            yield {
                KNOWN_IDS[str((record.payload or {})[schema.ROW])]: np.array(record.vector[schema.DENSE], np.float32)
                for record in records
                if isinstance(record.vector, dict)
            }
            if at is None:
                return

    def named(self, group: Group, rows: Sequence[UUID]) -> Mapping[UUID, DenseVector]:
        tenant, forest, kind = group
        return self._read_vectors(self._opened(), IndexFilter(tenant, forest, (kind,)), rows)

    def _beside(self, shard: engine.EdgeShard, query: IndexQuery) -> list[Hit] | None:
        """Hits without a search of the engine: among kept vectors, or by a graph. None when it has to search."""
        if isinstance(query.vector, SparseVector):
            return None
        if only_named(query):
            return self._products(shard, query.filter, query.vector)
        return self._near(shard, query, query.vector)

    def _near(self, shard: engine.EdgeShard, query: IndexQuery, asked: DenseVector) -> list[Hit] | None:
        """The best hits among what a graph finds; None when there is none, or it does not know the query's bounds."""
        wanted = query.filter
        if len(wanted.kinds) != 1 or wanted != IndexFilter(wanted.tenant, wanted.forest_id, wanted.kinds):
            return None
        numbers = np.array(dense_values(asked, self._model, self._dimension), np.float32)
        kind = wanted.kinds[0]
        near = self._graphs.near((wanted.tenant, wanted.forest_id, kind), numbers, asked_limit(query))
        if near is None:
            return None
        hits = [Hit(row, kind, cosine) for row, cosine in near.found]
        hits += self._products(shard, replace(wanted, ids=tuple(near.changed)), asked)
        if query.min_score is not None:
            hits = [hit for hit in hits if hit.score >= query.min_score]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[: query.limit]

    def _products(self, shard: engine.EdgeShard, wanted: IndexFilter, asked: DenseVector) -> list[Hit]:
        """The cosines of points that are named by their ids: products with kept vectors; others are read and kept."""
        numbers = np.array(dense_values(asked, self._model, self._dimension), np.float32)
        length = float(np.linalg.norm(numbers))
        [kind] = wanted.kinds
        group, rows = (wanted.tenant, wanted.forest_id, kind), list(wanted.ids or ())
        kept, moment = self._kept.of(group, rows)
        vectors = [vector for vector in kept if vector is not None]
        if len(vectors) < len(rows):
            read = self._read_vectors(
                shard, wanted, [row for row, known in zip(rows, kept, strict=True) if known is None]
            )
            self._kept.keep(group, read, moment)
            told = ((row, read.get(row) if known is None else known) for row, known in zip(rows, kept, strict=True))
            there = [(row, vector) for row, vector in told if vector is not None]
            rows, vectors = [row for row, _ in there], [vector for _, vector in there]
        if not rows:
            return []
        products = np.concatenate(vectors).reshape(len(rows), self._dimension) @ (numbers / (length or 1.0))
        return list(map(Hit, rows, repeat(kind), products.tolist()))

    def _read_vectors(
        self, shard: engine.EdgeShard, wanted: IndexFilter, rows: Sequence[UUID]
    ) -> dict[UUID, DenseVector]:
        """The vectors of those of these points that exist and are of the wanted kind; the engine keeps them at length
        1."""
        points = point_ids(wanted.tenant, wanted.forest_id, rows)
        with _engine_failures("the vector index refused a read"):
            records = shard.retrieve(list(points), [schema.KIND], [schema.DENSE])
        return {
            points[uuid_of(record.id)]: np.array(record.vector[schema.DENSE], dtype=np.float32)
            for record in records
            if isinstance(record.vector, dict) and (record.payload or {})[schema.KIND] == wanted.kinds[0].value
        }

    def _encode(self, id: UUID, point: Point) -> engine.Point:
        vectors: dict[str, engine.NamedVector] = {schema.DENSE: dense_values(point.dense, self._model, self._dimension)}
        if point.sparse.indices:
            vectors[schema.TERMS] = _sparse(point.sparse)
        return engine.Point(id, vectors, encode_payload(point))

    def _request(self, query: IndexQuery, asked: Mapping[UUID, UUID] | None) -> engine.QueryRequest:
        params = None
        nearest: engine.Query
        if isinstance(query.vector, SparseVector):
            corpus = _filter(c.forest_conditions(query.filter.tenant, query.filter.forest_id))
            params = engine.SearchParams(idf=engine.IdfParams(corpus=corpus))
            nearest = engine.Query.Nearest(_sparse(query.vector), using=schema.TERMS)
        else:
            values = dense_values(query.vector, self._model, self._dimension)
            nearest = engine.Query.Nearest(values, using=schema.DENSE)
        return engine.QueryRequest(
            limit=asked_limit(query),
            query=nearest,
            filter=_filter(c.conditions(query.filter, asked)),
            score_threshold=query.min_score,
            params=params,
            with_payload=read_fields(query),
        )


@contextmanager
def _engine_failures(what: str) -> Iterator[None]:
    """Turns what the engine raises into our errors; ``what`` failed, in words for messages.

    The engine raises ``Exception`` itself for everything, with no class of its own, so exactly that
    class is taken here; its subclasses are our own errors or bugs and pass unchanged.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        text = str(error)
        if "Incompatible config" in text or "dimension error" in text:
            raise InvalidSettings(
                f"{what}: it was built for another embedding model or dimension ({text}); "
                "set the model that built it, or remove the directory and rebuild the index"
            ) from error
        reason = "another process has it open" if "init WAL" in text else text
        raise IndexUnavailable(f"{what}: {reason}") from error


def _sparse(vector: SparseVector) -> engine.SparseVector:
    return engine.SparseVector(list(vector.indices), list(vector.values))


def _versions(shard: engine.EdgeShard, ids: Sequence[UUID]) -> dict[UUID, int]:
    return {
        uuid_of(record.id): int((record.payload or {})[schema.VERSION])
        for record in shard.retrieve(list(ids), [schema.VERSION], False)
    }


def _filter(wanted: Sequence[c.Condition]) -> engine.Filter:
    return engine.Filter(must=[_condition(condition) for condition in wanted])


def _condition(condition: c.Condition) -> engine.ConditionType:
    match condition:
        case c.AnyOf(field, (only,)):
            return engine.FieldCondition(field, match=engine.MatchValue(only))
        case c.AnyOf(field, values):
            return engine.FieldCondition(field, match=engine.MatchAny(list(map(str, values))))
        case c.Within(field, least, most):
            return engine.FieldCondition(field, range=engine.RangeFloat(gte=least, lte=most))
        case c.Among(ids):
            return engine.HasIdCondition(set(ids))
        case _:
            assert_never(condition)
