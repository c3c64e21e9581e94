"""The vector index on a Qdrant server, shared by all workers; every call is one round trip."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any, ClassVar
from uuid import UUID

import httpx
from qdrant_client import QdrantClient
from qdrant_client import models as q
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated, MemForestError
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant.collection_schema import point_id
from memforest_core.index.qdrant.point_encoding import batches, newest
from memforest_core.index.qdrant.qdrant_index import QdrantIndex, Stored
from memforest_core.index.vector_index import Point, PointKey

_REASON_LIMIT = 300


@contextmanager
def server_failures(collection: str, operation: str) -> Iterator[None]:
    """Translates transport errors and refusals of one call on a collection."""
    try:
        yield
    except ResourceExhaustedResponse as error:
        wait = float(error.retry_after_s)
        raise IndexUnavailable(f"Qdrant limits the rate of {operation} on {collection!r}", retry_after=wait) from error
    except UnexpectedResponse as error:
        raise refusal(collection, operation, error) from error
    except (ResponseHandlingException, QdrantException, httpx.HTTPError, json.JSONDecodeError) as error:
        cause = error.source if isinstance(error, ResponseHandlingException) else error
        raise IndexUnavailable(
            f"Qdrant did not answer {operation} on {collection!r}: {type(cause).__name__}"
        ) from error


def unreachable(error: IndexUnavailable) -> bool:
    """Whether no server answered at the address, or broke off."""
    return isinstance(error.__cause__, ResponseHandlingException)


def refusal(collection: str, operation: str, error: UnexpectedResponse) -> MemForestError:
    """The error that an HTTP status other than success means."""
    status = error.status_code or 500
    at = f"{operation} on {collection!r}"
    if status in (401, 403):
        return InvalidSettings(f"Qdrant refuses {at} ({status}): check the api key in the settings")
    if status == 404:
        # The index may be dropped at any time; until it is rebuilt, reads do without it.
        return IndexUnavailable(f"collection {collection!r} is missing: rebuild the vector index")
    if status in (408, 429) or status >= 500:
        return IndexUnavailable(f"Qdrant can't do {at} now ({status}): {_reason(error.content)}")
    reason = _reason(error.content)
    if "dimension" in reason.lower():
        return InvalidSettings(
            f"Qdrant refuses {at}: {reason}; set the embedding model that built this index, or rebuild it"
        )
    return InvariantViolated(f"Qdrant refuses {at} ({status}): {reason}")


def _reason(content: bytes) -> str:
    text = content.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except ValueError:
        return text[:_REASON_LIMIT]
    status = body.get("status") if isinstance(body, dict) else None
    reason = status.get("error") if isinstance(status, dict) else None
    return str(reason if reason is not None else text)[:_REASON_LIMIT]


# Only the forest gets graph links of its own; the other fields narrow a search inside it.
_FIELD_INDEXES: dict[
    schema.FieldIndex, q.UuidIndexParams | q.KeywordIndexParams | q.IntegerIndexParams | q.FloatIndexParams
] = {
    schema.FieldIndex.FOREST: q.UuidIndexParams(type=q.UuidIndexType.UUID, is_tenant=True),
    schema.FieldIndex.KEYWORD: q.KeywordIndexParams(type=q.KeywordIndexType.KEYWORD, enable_hnsw=False),
    schema.FieldIndex.UUID: q.UuidIndexParams(type=q.UuidIndexType.UUID, enable_hnsw=False),
    schema.FieldIndex.NUMBER: q.IntegerIndexParams(
        type=q.IntegerIndexType.INTEGER, lookup=True, range=False, enable_hnsw=False
    ),
    schema.FieldIndex.OLDER: q.IntegerIndexParams(
        type=q.IntegerIndexType.INTEGER, lookup=False, range=True, enable_hnsw=False
    ),
    schema.FieldIndex.FLOAT: q.FloatIndexParams(type=q.FloatIndexType.FLOAT, enable_hnsw=False),
}


def qdrant_client(url: str, api_key: str | None, timeout_s: float) -> QdrantClient:
    """A client of the server at ``url``; ``timeout_s`` (rounded up) bounds each read."""
    # The compatibility check is a request of its own on a thread of its own at start.
    return QdrantClient(url=url, api_key=api_key, timeout=math.ceil(timeout_s), check_compatibility=False)


@renewed_in_child
class QdrantServerIndex(QdrantIndex[QdrantClient]):
    """One collection on a Qdrant server (1.18 or newer: conditional upserts, IDF within a filter).

    ``connect`` makes the connection on first use, so that a forked worker gets one of its own.
    """

    api: ClassVar[Any] = q
    within: ClassVar[Any] = q.Range
    idf: ClassVar[Any] = q.IdfCorpusParams

    def __init__(
        self,
        connect: Callable[[], QdrantClient],
        model: str,
        dimension: int,
        *,
        shards: int | None = None,
        replicas: int | None = None,
    ) -> None:
        """``shards`` and ``replicas`` are those of a collection that is made now; None: the server's choice."""
        super().__init__(model, dimension)
        self._connect = connect
        self._shards = shards
        self._replicas = replicas
        self._connecting = threading.Lock()
        self._client: QdrantClient | None = None

    @classmethod
    def at(
        cls, url: str, api_key: str | None, model: str, dimension: int, timeout_s: float, **spread: int | None
    ) -> QdrantServerIndex:
        """The index on the server at ``url``; ``timeout_s`` bounds each read, ``spread`` has shards and replicas."""
        return cls(partial(qdrant_client, url, api_key, timeout_s), model, dimension, **spread)

    def prepare(self) -> None:
        """Create the collection and its payload indexes when missing; safe to race and repeat.

        Raises InvalidSettings when an existing collection has another dimension; IndexUnavailable.
        """
        with self._calling("prepare") as client:
            if not client.collection_exists(self._name):
                self._create(client)
            info = client.get_collection(self._name)
            vectors = info.config.params.vectors
            dense = vectors.get(schema.DENSE) if isinstance(vectors, dict) else None
            if dense is None or dense.size != self._dimension:
                size = "no such vector" if dense is None else f"dimension {dense.size}"
                raise InvalidSettings(
                    f"collection {self._name!r} has {size} where model {self._model!r} needs "
                    f"dimension {self._dimension}: set the model that built it, or drop the "
                    "collection and rebuild the index"
                )
            for field, kind in schema.FIELD_INDEXES.items():
                if field not in info.payload_schema:
                    client.create_payload_index(self._name, field, _FIELD_INDEXES[kind], wait=True)
            # After ours is there: points under earlier names hold words that nobody would ever erase.
            for former in schema.former_names(self._model, self._dimension):
                if client.collection_exists(former):
                    client.delete_collection(former)

    def upsert(self, points: Sequence[Point]) -> None:
        ordered = sorted(newest(points), key=lambda point: point.version)
        for batch in batches(ordered):
            operations = [
                self._upsert_operation(version, list(group))
                for version, group in groupby(batch, key=lambda point: point.version)
            ]
            with self._calling("upsert") as client:
                client.batch_update_points(self._name, operations, wait=True)

    def delete(self, keys: Sequence[PointKey]) -> None:
        with self._calling("delete") as client:
            if keys:
                client.delete(self._name, q.PointIdsList(points=[str(point_id(key)) for key in keys]), wait=True)

    def set_aside(self) -> None:
        """Nothing: what differs is written again by a repair or a rebuild."""

    def write_mark(self, mark: str) -> None:
        payload = {schema.KIND: schema.MARK, schema.MARK: mark}
        marked = q.PointStruct(id=str(schema.MARK_ID), vector={}, payload=payload)
        with self._calling("write_mark") as client:
            client.upsert(self._name, [marked], wait=True)

    def close(self) -> None:
        """Close the connections; later calls fail with IndexUnavailable."""
        with self._connecting:
            client, self._client, self._closed = self._client, None, True
        if client is not None:
            client.close()

    @contextmanager
    def _calling(self, operation: str) -> Iterator[QdrantClient]:
        with server_failures(self._name, operation):
            yield self._connected()

    def _connected(self) -> QdrantClient:
        with self._connecting:
            if self._closed:
                raise IndexUnavailable("the vector index is closed")
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _create(self, client: QdrantClient) -> None:
        dense = q.VectorParams(size=self._dimension, distance=q.Distance.COSINE, datatype=q.Datatype.FLOAT16)
        try:
            client.create_collection(
                self._name,
                vectors_config={schema.DENSE: dense},
                sparse_vectors_config={schema.TERMS: q.SparseVectorParams(modifier=q.Modifier.IDF)},
                hnsw_config=q.HnswConfigDiff(m=0, payload_m=schema.PAYLOAD_M),
                shard_number=self._shards,
                replication_factor=self._replicas,
            )
        except UnexpectedResponse:
            # Two workers start at once: the loser finds the winner's collection, or the real error.
            if not client.collection_exists(self._name):
                raise

    def _upsert_operation(self, version: int, points: Sequence[Point]) -> q.UpsertOperation:
        older = q.FieldCondition(key=schema.VERSION, range=q.Range(lt=version))
        encoded = map(self._encoded, points)
        structs = [q.PointStruct(id=str(id_), vector=vectors, payload=payload) for id_, vectors, payload in encoded]
        return q.UpsertOperation(upsert=q.PointsList(points=structs, update_filter=q.Filter(must=[older])))

    def _retrieved(
        self, client: QdrantClient, ids: Iterable[UUID], payload: list[str] | bool, *, vectors: bool = False
    ) -> list[Stored]:
        named = list(map(str, ids))
        records = client.retrieve(self._name, named, with_payload=payload, with_vectors=vectors) if named else []
        return list(map(_stored, records))

    def _scrolled(
        self, client: QdrantClient, offset: UUID | None, limit: int, wanted: q.Filter
    ) -> tuple[list[Stored], object]:
        fields = list(schema.SCANNED)
        at = None if offset is None else str(offset)
        records, following = client.scroll(self._name, wanted, limit=limit, offset=at, with_payload=fields)
        return list(map(_stored, records)), following

    def _counted(self, client: QdrantClient, wanted: q.Filter) -> int:
        return client.count(self._name, count_filter=wanted, exact=True).count

    def _answers(self, client: QdrantClient, requests: Sequence[q.QueryRequest]) -> Sequence[Iterable[q.ScoredPoint]]:
        """Requests are sent as they are: the client's own method first copies each vector, number by number, in case it
        is a text to embed."""
        batch = q.QueryRequestBatch(searches=list(requests))
        answers = client.http.search_api.query_batch_points(self._name, query_request_batch=batch).result or []
        return [answer.points for answer in answers]

    def _nearest(self, vector: Any, using: str) -> dict[str, Any]:
        return {"query": vector, "using": using}

    def _among(self, ids: Iterable[UUID]) -> q.HasIdCondition:
        return q.HasIdCondition(has_id=list(map(str, ids)))


def _stored(record: q.Record) -> Stored:
    return UUID(str(record.id)), record.payload or {}, record.vector
