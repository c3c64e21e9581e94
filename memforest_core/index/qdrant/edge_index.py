"""The vector index on the Qdrant engine inside this process: no server, one owner per directory."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

import qdrant_edge as engine
import structlog

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.memory.in_memory_indexes import InMemoryIndexes, best
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant.collection_schema import named_rows, point_id
from memforest_core.index.qdrant.engine_reads import (
    ASIDE,
    EngineReads,
    IndexDamaged,
    engine_condition,
    engine_failures,
    engine_filter,
)
from memforest_core.index.qdrant.point_encoding import (
    as_compared,
    batches,
    can_match,
    dense_values,
    differing,
    encode_payload,
    engine_limit,
    hits_of,
    newest,
    read_fields,
    scanned_point,
    uuid_of,
)
from memforest_core.index.vector_index import Hits, IndexQuery, Point, PointKey, PointKind, ScanPage, SparseVector

log = structlog.get_logger(__name__)

_FIELD_INDEXES: dict[
    schema.FieldIndex, engine.PayloadSchemaType | engine.UuidIndexParams | engine.IntegerIndexParams
] = {
    schema.FieldIndex.FOREST: engine.UuidIndexParams(is_tenant=True),
    schema.FieldIndex.KEYWORD: engine.PayloadSchemaType.Keyword,
    schema.FieldIndex.UUID: engine.PayloadSchemaType.Uuid,
    schema.FieldIndex.NUMBER: engine.IntegerIndexParams(lookup=True, range=False),
    schema.FieldIndex.FLOAT: engine.PayloadSchemaType.Float,
}


LOGGED = 5_000
"""Points after which the engine's log is cut: some 10 MB of it, in 10 to 130 ms. After a kill 150,000 points that were
still in it took 9.5 s to open, and 0.3 s with these cuts."""

KILLED = 2
"""Processes in a row that ended while they opened the files, until these count as damaged: the engine may want more
memory for them than there is. One may have been killed by anybody."""

IGNORED = "the vector index ignores writes, as its log is damaged"
"""The engine passes over a write whose number in the log is lower than its point's, as after a log lost its end."""

_HALF = engine.VectorStorageDatatype.Float16


@renewed_in_child
class EdgeIndex:
    """A shard of the Qdrant engine under ``path``, one directory per model and dimension.

    Safe for use by many threads of one process; the engine refuses a second process. Acknowledged
    writes are in the engine's log and survive a killed process without ``close``. The engine's
    optimizer is never run: it would hold the interpreter lock for seconds.
    """

    def __init__(self, path: Path, model: str, dimension: int) -> None:
        self._model = model
        self._dimension = dimension
        self._name = schema.collection_name(model, dimension)
        self._directory = path / self._name
        self._shard: engine.EdgeShard | None = None
        self._closed = False
        self._writing = threading.Lock()
        self._logged = 0
        """Points written or deleted since the engine's log was cut."""
        self._damaged: str | None = None
        """Why the files can't be used, until they are set aside and a comparison with the rows has begun."""
        self._new_memory = partial(InMemoryIndexes, EngineReads(self._opened), model, dimension)
        self._memory = self._new_memory()

    @property
    def name(self) -> str:
        return self._name

    def prepare(self) -> None:
        """Open the shard, or create it with its payload indexes; a second call does nothing.

        Files that can't be used are set aside, and an empty shard without a mark is begun: the next comparison fills it
        from rows. Raises IndexUnavailable when it can't be opened all the same (another process has it).
        """
        with self._writing:
            if self._shard is not None:
                return
            if self._closed:
                raise IndexUnavailable("the vector index is closed")
            try:
                if self._damaged is not None:
                    raise IndexDamaged(self._damaged)
                self._shard = self._prepared()
            except IndexDamaged as error:
                self._move_aside(error.message)
                self._shard = self._prepared()
            # Points under earlier names, and those that an earlier process set aside, hold words that nobody would ever
            # erase.
            former = schema.former_names(self._model, self._dimension)
            for name in (*former, self._aside.name) if self._damaged is None else former:
                shutil.rmtree(self._directory.with_name(name), ignore_errors=True)

    def set_aside(self) -> None:
        self._shard, self._damaged = None, "its points are not those of the rows"
        self.prepare()

    def upsert(self, points: Sequence[Point]) -> None:
        for batch in batches(newest(points)):
            named = [(point_id(point.key), point) for point in batch]
            encoded = {id_: self._encode(id_, point) for id_, point in named}
            with self._writing, self._failures("the vector index refused a write"):
                shard = self._opened()
                stored = _versions(shard, list(encoded))
                fresh = [encoded[id_] for id_, point in named if id_ not in stored or stored[id_] < point.version]
                if fresh:
                    with self._forgetting([point.key for point in batch], {point.id: point.kind for point in batch}):
                        shard.update(engine.UpdateOperation.upsert_points(fresh))
                    stored = _versions(shard, list(encoded))
                    if any(stored.get(id_, 0) < point.version for id_, point in named):
                        raise IndexDamaged(IGNORED)
                    self._cut_log(shard, len(fresh))

    def delete(self, keys: Sequence[PointKey]) -> None:
        with self._writing, self._failures("the vector index refused a deletion"):
            shard = self._opened()
            if keys:
                with self._forgetting(keys):
                    shard.update(engine.UpdateOperation.delete_points([point_id(key) for key in keys]))
                self._cut_log(shard, len(keys))

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        found = [Hits.of(()) for _ in queries]
        shard = self._opened()
        if self._damaged is not None:
            raise IndexUnavailable("the vector index was damaged and is being filled from rows")
        left: list[tuple[int, IndexQuery, dict[UUID, UUID] | None]] = []
        for at, query in enumerate(queries):
            if not can_match(query):
                continue
            with self._failures("the vector index refused a read"):
                answer = self._memory.answer(query)
            rest: IndexQuery | None = query
            if answer is not None:
                found[at], rest = answer
            if rest is not None:
                left.append((at, rest, named_rows(rest.filter)))
        if not left:
            return found
        batch = engine.QueryBatchRequest([self._request(query, rows) for _, query, rows in left])
        with self._failures("the vector index refused a search"):
            answers = shard.query_batch(batch)
            for (at, query, rows), points in zip(left, answers, strict=True):
                # The engine makes a new id for each read, and only hits of named rows need one.
                hits = ((each.id if rows is not None else None, each.score, each.payload) for each in points)
                found[at] = _with(found[at], hits_of(hits, query, rows), queries[at])
        return found

    def versions(self, keys: Sequence[PointKey]) -> dict[UUID, int]:
        rows = {point_id(key): key.id for key in keys}
        with self._failures("the vector index refused a read"):
            return {rows[id_]: version for id_, version in _versions(self._opened(), list(rows)).items()}

    def differing(self, points: Sequence[Point]) -> frozenset[UUID]:
        of = {point_id(point.key): point for point in points}
        with self._failures("the vector index refused a read"):
            records = self._opened().retrieve(list(of), True, True)
            found = [(of[uuid_of(each.id)], each.payload or {}, each.vector) for each in records]
            return differing(self, found, self._model)

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        wanted = engine_filter(schema.forest_conditions(tenant, forest_id))
        with self._failures("the vector index refused a count"):
            return self._opened().count(engine.CountRequest(exact=True, filter=wanted))

    def scan(self, cursor: str | None, limit: int, tenant: TenantId | None = None) -> ScanPage:
        wanted = engine.Filter(
            must=[engine_condition(schema.AnyOf(schema.TENANT, (tenant,)))] if tenant is not None else None,
            must_not=[engine.HasIdCondition({schema.MARK_ID})],
        )
        request = engine.ScrollRequest(
            offset=None if cursor is None else UUID(cursor),
            limit=limit,
            filter=wanted,
            with_payload=list(schema.SCANNED),
            with_vector=False,
        )
        with self._failures("the vector index refused a scan"):
            records, following = self._opened().scroll(request)
            points = tuple(scanned_point(record.payload or {}) for record in records)
            if any(point_id(each.key) != uuid_of(record.id) for each, record in zip(points, records, strict=True)):
                raise IndexDamaged("a point of the vector index is stored under another's id")
        return ScanPage(points, None if following is None else str(following))

    def read_mark(self) -> str | None:
        with self._failures("the vector index refused a read"):
            for record in self._opened().retrieve([schema.MARK_ID], [schema.MARK], False):
                return str((record.payload or {})[schema.MARK])
        return None

    def write_mark(self, mark: str) -> None:
        marked = engine.Point(schema.MARK_ID, {}, {schema.KIND: schema.MARK, schema.MARK: mark})
        with self._writing, self._failures("the vector index refused a write"):
            self._opened().update(engine.UpdateOperation.upsert_points([marked]))
            self._damaged = None

    @property
    def refreshing(self) -> bool:
        """Whether an in-memory index is being built or refreshed; the engine answers meanwhile."""
        return self._memory.refreshing

    def close(self) -> None:
        """Flush and release the directory; later calls fail with IndexUnavailable."""
        self._memory.close()
        with self._writing:
            shard, self._shard, self._closed = self._shard, None, True
            if shard is not None:
                with self._failures("the vector index could not be closed"):
                    shard.flush()
                    shard.close()

    def _open(self) -> engine.EdgeShard:
        config = engine.EdgeConfig(
            vectors={schema.DENSE: engine.EdgeVectorParams(self._dimension, engine.Distance.Cosine, datatype=_HALF)},
            sparse_vectors={schema.TERMS: engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)},
        )
        if not self._directory.exists():
            # Made under another name first: a process killed half way must leave nothing half made.
            fresh = self._directory.with_name(f".{self._name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            engine.EdgeShard.create(str(fresh), config).close()
            fresh.rename(self._directory)
        return engine.EdgeShard.load(str(self._directory), config)

    def _prepared(self) -> engine.EdgeShard:
        """The shard, opened or made, with its payload indexes. Raises IndexDamaged, IndexUnavailable."""
        opening = self._directory.with_name(f".{self._name}.opening")
        with engine_failures(f"vector index at {self._directory} can't be opened"):
            opening.parent.mkdir(parents=True, exist_ok=True)
            with opening.open("ab") as tries:
                tries.write(b".")
            try:
                if opening.stat().st_size > KILLED:
                    raise IndexDamaged(f"{KILLED} processes ended while they opened {self._directory}")
                shard = self._open()
                known = shard.info().payload_schema
                for field, kind in schema.FIELD_INDEXES.items():
                    if field not in known and kind in _FIELD_INDEXES:
                        shard.update(engine.UpdateOperation.create_field_index(field, _FIELD_INDEXES[kind]))
                # What was read of the log just now is not read again.
                shard.flush()
                return shard
            finally:
                opening.unlink()

    @property
    def _aside(self) -> Path:
        return self._directory.with_name(f"{self._name}{ASIDE}")

    def _move_aside(self, reason: str) -> None:
        """The files wait under another name until the next start of a process that can use what is there."""
        log.warning("index_set_aside", directory=str(self._aside), reason=reason)
        shutil.rmtree(self._aside, ignore_errors=True)
        if self._directory.exists():
            self._directory.rename(self._aside)
        self._memory.close()
        self._memory, self._damaged = self._new_memory(), reason

    @contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        """The engine's failures as our errors; after damage nothing is read or written before the next ``prepare``."""
        try:
            with engine_failures(what):
                yield
        except IndexDamaged as error:
            self._shard, self._damaged = None, error.message
            raise

    def _cut_log(self, shard: engine.EdgeShard, points: int) -> None:
        """Have the engine write out its log, once that is much: it does so by itself only when it is closed.
        A process that opens it after a kill reads the whole log, and what was deleted is in it."""
        self._logged += points
        if self._logged >= LOGGED:
            shard.flush()
            self._logged = 0

    def _opened(self) -> engine.EdgeShard:
        shard = self._shard
        if shard is None:
            state = "is closed" if self._closed else self._damaged or "is not open yet: call prepare() first"
            raise IndexUnavailable(f"the vector index {state}")
        return shard

    @contextmanager
    def _forgetting(self, keys: Sequence[PointKey], kinds: Mapping[UUID, PointKind] | None = None) -> Iterator[None]:
        """A write of these points: in-memory indexes drop what was before, also when it fails half way."""
        try:
            yield
        finally:
            self._memory.forget(keys, kinds)

    def _encode(self, id: UUID, point: Point) -> engine.Point:
        vectors: dict[str, engine.NamedVector] = {schema.DENSE: dense_values(point.dense, self._model, self._dimension)}
        if point.sparse.indices:
            vectors[schema.TERMS] = _sparse(point.sparse)
        return engine.Point(id, vectors, encode_payload(point))

    def _request(self, query: IndexQuery, named: Mapping[UUID, UUID] | None) -> engine.QueryRequest:
        params = None
        nearest: engine.Query
        if isinstance(query.vector, SparseVector):
            corpus = engine_filter(schema.forest_conditions(query.filter.tenant, query.filter.forest_id))
            params = engine.SearchParams(idf=engine.IdfParams(corpus=corpus))
            nearest = engine.Query.Nearest(_sparse(query.vector), using=schema.TERMS)
        else:
            values = as_compared(query.vector, self._model, self._dimension).tolist()
            nearest = engine.Query.Nearest(values, using=schema.DENSE)
        return engine.QueryRequest(
            limit=engine_limit(query),
            query=nearest,
            filter=engine_filter(schema.conditions(query.filter, named)),
            score_threshold=query.min_score,
            params=params,
            with_payload=read_fields(query),
        )


def _with(in_memory: Hits, read: Hits, query: IndexQuery) -> Hits:
    """The hits of a query of both an in-memory index and the engine."""
    if not in_memory:
        return read
    # Only queries for one kind are answered in memory.
    [kind] = query.filter.kinds
    ids, scores = in_memory.ids + read.ids, in_memory.scores + read.scores
    if query.filter.ids is not None:
        return Hits.of_kind(kind, ids, scores)
    return best(kind, zip(ids, scores, strict=True), query)


def _sparse(vector: SparseVector) -> engine.SparseVector:
    return engine.SparseVector(list(vector.indices), list(vector.values))


def _versions(shard: engine.EdgeShard, ids: Sequence[UUID]) -> dict[UUID, int]:
    return {
        uuid_of(record.id): int((record.payload or {})[schema.VERSION])
        for record in shard.retrieve(list(ids), [schema.VERSION], False)
    }
