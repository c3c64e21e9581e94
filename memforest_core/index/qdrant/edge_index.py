"""The vector index on the Qdrant engine inside this process: no server, one owner per directory."""

from __future__ import annotations

import errno
import re
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import qdrant_edge as engine
import structlog

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import KNOWN_IDS, ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.memory.forest_index import best
from memforest_core.index.memory.in_memory_indexes import InMemoryIndexes
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant.collection_schema import point_id
from memforest_core.index.qdrant.point_encoding import batches, can_match, newest, uuid_of
from memforest_core.index.qdrant.qdrant_index import QdrantIndex, Stored
from memforest_core.index.vector_index import Hits, IndexQuery, Point, PointKey, PointKind, SparseVector

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


class IndexDamaged(IndexUnavailable):
    """The files of the embedded index can't be used: it sets them aside and is filled from rows."""

    code = "index_damaged"


ASIDE = ".damaged"
"""What the name of a directory that was set aside ends with."""

_OS_ERROR = re.compile(r"os error (\d+)")
_OF_MACHINE = frozenset(
    {errno.EPERM, errno.EIO, errno.ENOMEM, errno.EACCES, errno.ENFILE, errno.EMFILE, errno.ENOSPC, errno.EROFS}
)
"""What no other directory would change."""


@contextmanager
def engine_failures(what: str) -> Iterator[None]:
    """Turns what the engine raises into our errors; ``what`` failed, in words for messages.

    The engine raises ``Exception`` itself for everything, with no class of its own, and a panic of its own as a
    ``BaseException``; fields of damaged payload are missing or have other values. What else is raised are our own
    errors or bugs and passes unchanged. Raises IndexDamaged, but IndexUnavailable for what is missing on the machine.
    """
    try:
        yield
    except OSError as error:
        raise IndexUnavailable(f"{what}: {error}") from error
    except (KeyError, ValueError) as error:
        raise IndexDamaged(f"{what}: a stored point can't be read ({type(error).__name__})") from error
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        text = str(error)
        if "WouldBlock" in text:
            raise IndexUnavailable(f"{what}: another process has it open") from error
        number = _OS_ERROR.search(text)
        if number is not None and int(number[1]) in _OF_MACHINE:
            raise IndexUnavailable(f"{what}: {text}") from error
        raise IndexDamaged(f"{what}: {text}") from error


LOGGED = 5_000
"""Points after which the engine's log is cut: some 10 MB of it, in 10 to 130 ms. After a kill 150,000 points that were
still in it took 9.5 s to open, and 0.3 s with these cuts."""

KILLED = 2
"""Processes in a row that ended while they opened the files, until these count as damaged: the engine may want more
memory for them than there is. One may have been killed by anybody."""

IGNORED = "the vector index ignores writes, as its log is damaged"
"""The engine passes over a write whose number in the log is lower than its point's, as after a log lost its end."""

PAGE = 2_000
"""Points of one read of a forest; each page scans the forest's ids from the start."""
LENGTH_ERROR = 0.01
"""By how much a stored vector may be longer or shorter than 1."""

_HALF = engine.VectorStorageDatatype.Float16
_READ = [schema.ROW, schema.KIND, schema.ROOT, schema.TREE_KIND, schema.VERSION]


@renewed_in_child
class EdgeIndex(QdrantIndex[engine.EdgeShard]):
    """A shard of the Qdrant engine under ``path``, one directory per model and dimension.

    Safe for use by many threads of one process; the engine refuses a second process. Acknowledged
    writes are in the engine's log and survive a killed process without ``close``. The engine's
    optimizer is never run: it would hold the interpreter lock for seconds.
    """

    api: ClassVar[Any] = engine
    within: ClassVar[Any] = engine.RangeFloat
    idf: ClassVar[Any] = engine.IdfParams

    def __init__(self, path: Path, model: str, dimension: int) -> None:
        super().__init__(model, dimension)
        self._directory = path / self._name
        self._aside = path / f"{self._name}{ASIDE}"
        self._shard: engine.EdgeShard | None = None
        self._writing = threading.Lock()
        self._logged = 0
        """Points written or deleted since the engine's log was cut."""
        self._damaged: str | None = None
        """Why the files can't be used, until they are set aside and a comparison with the rows has begun."""
        self._new_memory = partial(InMemoryIndexes, self, model, dimension)
        self._memory = self._new_memory()

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
            versions = {point_id(point.key): point.version for point in batch}
            encoded = {id_: engine.Point(id_, vectors, fields) for id_, vectors, fields in map(self._encoded, batch)}
            with self._writing, self._calling("upsert") as shard:
                stored = _versions(shard, encoded)
                fresh = [encoded[id_] for id_, version in versions.items() if stored.get(id_, -1) < version]
                if fresh:
                    self._write(shard, engine.UpdateOperation.upsert_points(fresh), [point.key for point in batch])
                    stored = _versions(shard, encoded)
                    if any(stored.get(id_, 0) < version for id_, version in versions.items()):
                        raise IndexDamaged(IGNORED)

    def delete(self, keys: Sequence[PointKey]) -> None:
        with self._writing, self._calling("delete") as shard:
            if keys:
                self._write(shard, engine.UpdateOperation.delete_points([point_id(key) for key in keys]), keys)

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        self._opened()
        if self._damaged is not None:
            raise IndexUnavailable("the vector index was damaged and is being filled from rows")
        found = [Hits.of(()) for _ in queries]
        left: list[tuple[int, IndexQuery]] = []
        for at, query in enumerate(queries):
            if can_match(query):
                found[at], rest = self._memory.answer(query)
                if rest is not None:
                    left.append((at, rest))
        if left:
            for (at, _), hits in zip(left, super().search([rest for _, rest in left]), strict=True):
                found[at] = _with(found[at], hits, queries[at])
        return found

    def write_mark(self, mark: str) -> None:
        marked = engine.Point(schema.MARK_ID, {}, {schema.KIND: schema.MARK, schema.MARK: mark})
        with self._writing, self._calling("write_mark") as shard:
            shard.update(engine.UpdateOperation.upsert_points([marked]))
            self._damaged = None

    def pages(self, tenant: TenantId, forest_id: ForestId) -> Iterator[Sequence[Point]]:
        """All points of a forest, for its in-memory index: without sessions and times."""
        wanted, at = engine.Filter(must=[self._of_forest(tenant, forest_id)]), None
        while True:
            request = engine.ScrollRequest(offset=at, limit=PAGE, filter=wanted, with_payload=_READ, with_vector=True)
            with self._calling("scan") as shard:
                records, at = shard.scroll(request)
                page = [_point(tenant, forest_id, record) for record in records]
            yield page
            if at is None:
                return

    def named(self, tenant: TenantId, forest_id: ForestId, rows: Sequence[UUID]) -> Sequence[Point]:
        """Those of these points of a forest that exist, as ``pages``."""
        with self._calling("retrieve") as shard:
            records = shard.retrieve([point_id(PointKey(tenant, forest_id, row)) for row in rows], _READ, True)
            return [_point(tenant, forest_id, record) for record in records]

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
                with engine_failures("the vector index could not be closed"):
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

    def _move_aside(self, reason: str) -> None:
        """The files wait under another name until the next start of a process that can use what is there."""
        log.warning("index_set_aside", directory=str(self._aside), reason=reason)
        shutil.rmtree(self._aside, ignore_errors=True)
        if self._directory.exists():
            self._directory.rename(self._aside)
        self._memory.close()
        self._memory, self._damaged = self._new_memory(), reason

    def _opened(self) -> engine.EdgeShard:
        shard = self._shard
        if shard is None:
            state = "is closed" if self._closed else self._damaged or "is not open yet: call prepare() first"
            raise IndexUnavailable(f"the vector index {state}")
        return shard

    @contextmanager
    def _calling(self, operation: str) -> Iterator[engine.EdgeShard]:
        """After damage nothing is read or written before the next ``prepare``."""
        try:
            with engine_failures(f"{operation} failed in the vector index"):
                yield self._opened()
        except IndexDamaged as error:
            self._shard, self._damaged = None, error.message
            raise

    def _write(self, shard: engine.EdgeShard, operation: engine.UpdateOperation, keys: Sequence[PointKey]) -> None:
        """Write or delete these points; in-memory indexes drop what was before, also when it fails half way.

        Has the engine write out its log, once that is much: it does so by itself only when it is closed. A process that
        opens it after a kill reads the whole log, and what was deleted is in it.
        """
        try:
            shard.update(operation)
        finally:
            self._memory.forget(keys)
        self._logged += len(keys)
        if self._logged >= LOGGED:
            shard.flush()
            self._logged = 0

    def _retrieved(
        self, client: engine.EdgeShard, ids: Iterable[UUID], payload: list[str] | bool, *, vectors: bool = False
    ) -> list[Stored]:
        return [_stored(record) for record in client.retrieve(list(ids), payload, vectors)]

    def _scrolled(
        self, client: engine.EdgeShard, offset: UUID | None, limit: int, wanted: Any
    ) -> tuple[list[Stored], object]:
        fields = list(schema.SCANNED)
        request = engine.ScrollRequest(offset=offset, limit=limit, filter=wanted, with_payload=fields)
        records, following = client.scroll(request)
        return [_stored(record) for record in records], following

    def _counted(self, client: engine.EdgeShard, wanted: Any) -> int:
        return client.count(engine.CountRequest(exact=True, filter=wanted))

    def _answers(self, client: engine.EdgeShard, requests: Sequence[Any]) -> Sequence[Iterable[Any]]:
        return client.query_batch(engine.QueryBatchRequest(list(requests)))

    def _nearest(self, vector: Any, using: str) -> dict[str, Any]:
        return {"query": engine.Query.Nearest(vector, using=using)}

    def _among(self, ids: Iterable[UUID]) -> Any:
        return engine.HasIdCondition(set(ids))

    def _check_ids(self, points: Iterable[tuple[UUID, Any]]) -> None:
        if any(point_id(point.key) != id_ for id_, point in points):
            raise IndexDamaged("a point of the vector index is stored under another's id")


def read_all(directory: Path) -> int:
    """Read the points of a shard that no process has open; how many. Raises IndexDamaged, IndexUnavailable."""
    with engine_failures(f"{directory} can't be read: the node sets it aside and rebuilds the index when it starts"):
        shard, points, at = engine.EdgeShard.load(str(directory)), 0, None
        rows = engine.Filter(must_not=[engine.HasIdCondition({schema.MARK_ID})])
        while True:
            request = engine.ScrollRequest(offset=at, limit=PAGE, filter=rows, with_payload=True, with_vector=True)
            records, at = shard.scroll(request)
            if any(abs(float(np.linalg.norm(_vectors(record)[schema.DENSE])) - 1) > LENGTH_ERROR for record in records):
                raise ValueError("a vector of another length")
            points += len(records)
            if at is None:
                shard.close()
                return points


def _stored(record: engine.Record) -> Stored:
    return uuid_of(record.id), record.payload or {}, record.vector


def _vectors(record: engine.Record) -> dict[str, Any]:
    # The engine makes a list of a record's numbers each time it is read.
    vectors = record.vector
    return dict(vectors) if isinstance(vectors, dict) else {}


def _point(tenant: TenantId, forest_id: ForestId, record: engine.Record) -> Point:
    """The engine stores vectors at length 1."""
    payload, vectors = record.payload or {}, _vectors(record)
    terms = vectors.get(schema.TERMS)
    return Point(
        id=KNOWN_IDS[str(payload[schema.ROW])],
        tenant=tenant,
        forest_id=forest_id,
        kind=PointKind(str(payload[schema.KIND])),
        version=int(payload[schema.VERSION]),
        dense=np.array(vectors[schema.DENSE], np.float32),
        sparse=SparseVector(tuple(terms.indices), tuple(terms.values)) if terms else SparseVector((), ()),
        tree_kind=payload.get(schema.TREE_KIND),
        is_root=bool(payload[schema.ROOT]),
    )


def _versions(shard: engine.EdgeShard, ids: Iterable[UUID]) -> dict[UUID, int]:
    records = shard.retrieve(list(ids), [schema.VERSION], False)
    return {uuid_of(record.id): int((record.payload or {})[schema.VERSION]) for record in records}


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
