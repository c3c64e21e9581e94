"""The vector index on a Qdrant server, shared by all workers; every call is one round trip."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import assert_never
from uuid import UUID

import httpx
from qdrant_client import QdrantClient
from qdrant_client import models as q
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated, MemForestError
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant.collection_schema import named_rows, point_id
from memforest_core.index.qdrant.point_encoding import (
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
)
from memforest_core.index.vector_index import Hits, IndexQuery, Point, PointKey, ScanPage, SparseVector

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


@renewed_in_child
class QdrantServerIndex:
    """One collection on a Qdrant server (1.18 or newer: conditional upserts, IDF within a filter).

    ``client`` makes the connection on first use, so that a forked worker gets one of its own.
    """

    def __init__(
        self,
        client: Callable[[], QdrantClient],
        model: str,
        dimension: int,
        *,
        shards: int | None = None,
        replicas: int | None = None,
    ) -> None:
        """``shards`` and ``replicas`` are those of a collection that is made now; None: the server's choice."""
        self._connect = client
        self._shards = shards
        self._replicas = replicas
        self._model = model
        self._dimension = dimension
        self._name = schema.collection_name(model, dimension)
        self._connecting = threading.Lock()
        self._client: QdrantClient | None = None
        self._closed = False

    @classmethod
    def at(
        cls,
        url: str,
        api_key: str | None,
        model: str,
        dimension: int,
        timeout_s: float,
        *,
        shards: int | None = None,
        replicas: int | None = None,
    ) -> QdrantServerIndex:
        """The index on the server at ``url``; ``timeout_s`` (rounded up) bounds each read."""

        def connect() -> QdrantClient:
            # The compatibility check is a request of its own on a thread of its own at start.
            return QdrantClient(url=url, api_key=api_key, timeout=math.ceil(timeout_s), check_compatibility=False)

        return cls(connect, model, dimension, shards=shards, replicas=replicas)

    @property
    def name(self) -> str:
        return self._name

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

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        found = [Hits.of(()) for _ in queries]
        possible = [(at, named_rows(query.filter)) for at, query in enumerate(queries) if can_match(query)]
        with self._calling("search") as client:
            if not possible:
                return found
            requests = [self._request(queries[at], rows) for at, rows in possible]
            answers = _answers(client, self._name, requests)
        for (at, rows), answer in zip(possible, answers, strict=True):
            hits = ((each.id, each.score, each.payload) for each in answer.points)
            found[at] = hits_of(hits, queries[at], rows)
        return found

    def versions(self, keys: Sequence[PointKey]) -> dict[UUID, int]:
        rows = {point_id(key): key.id for key in keys}
        with self._calling("versions") as client:
            if not rows:
                return {}
            records = client.retrieve(self._name, list(map(str, rows)), with_payload=[schema.VERSION])
        return {rows[UUID(str(record.id))]: int((record.payload or {})[schema.VERSION]) for record in records}

    def differing(self, points: Sequence[Point]) -> frozenset[UUID]:
        of = {str(point_id(point.key)): point for point in points}
        with self._calling("differing") as client:
            records = client.retrieve(self._name, list(of), with_payload=True, with_vectors=True) if of else []
        found = [(of[str(each.id)], each.payload or {}, each.vector) for each in records]
        return differing(self, found, self._model)

    def set_aside(self) -> None:
        """Nothing: what differs is written again by a repair or a rebuild."""

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        wanted = _filter(schema.forest_conditions(tenant, forest_id))
        with self._calling("count") as client:
            return client.count(self._name, count_filter=wanted, exact=True).count

    def scan(self, cursor: str | None, limit: int, tenant: TenantId | None = None) -> ScanPage:
        wanted = q.Filter(
            must=[_condition(schema.AnyOf(schema.TENANT, (tenant,)))] if tenant is not None else None,
            must_not=[q.HasIdCondition(has_id=[str(schema.MARK_ID)])],
        )
        with self._calling("scan") as client:
            records, following = client.scroll(
                self._name,
                scroll_filter=wanted,
                limit=limit,
                offset=cursor,
                with_payload=list(schema.SCANNED),
                with_vectors=False,
            )
        points = tuple(scanned_point(record.payload or {}) for record in records)
        return ScanPage(points, None if following is None else str(following))

    def read_mark(self) -> str | None:
        with self._calling("read_mark") as client:
            for record in client.retrieve(self._name, [str(schema.MARK_ID)], with_payload=[schema.MARK]):
                return str((record.payload or {})[schema.MARK])
        return None

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
        return q.UpsertOperation(
            upsert=q.PointsList(points=[self._encode(point) for point in points], update_filter=q.Filter(must=[older]))
        )

    def _encode(self, point: Point) -> q.PointStruct:
        vectors: dict[str, q.Vector] = {schema.DENSE: dense_values(point.dense, self._model, self._dimension)}
        if point.sparse.indices:
            vectors[schema.TERMS] = _sparse(point.sparse)
        return q.PointStruct(id=str(point_id(point.key)), vector=vectors, payload=encode_payload(point))

    def _request(self, query: IndexQuery, named: Mapping[UUID, UUID] | None) -> q.QueryRequest:
        vector: q.SparseVector | list[float]
        if isinstance(query.vector, SparseVector):
            corpus = _filter(schema.forest_conditions(query.filter.tenant, query.filter.forest_id))
            params = q.SearchParams(idf=q.IdfCorpusParams(corpus=corpus))
            vector, using = _sparse(query.vector), schema.TERMS
        else:
            params = None
            vector, using = dense_values(query.vector, self._model, self._dimension), schema.DENSE
        return q.QueryRequest(
            query=vector,
            using=using,
            filter=_filter(schema.conditions(query.filter, named)),
            params=params,
            score_threshold=query.min_score,
            limit=engine_limit(query),
            with_payload=read_fields(query),
        )


def _answers(client: QdrantClient, name: str, requests: Sequence[q.QueryRequest]) -> Sequence[q.QueryResponse]:
    """The answers to requests, sent as they are: the client's own method first copies each vector, number by number, in
    case it is a text to embed."""
    batch = q.QueryRequestBatch(searches=list(requests))
    return client.http.search_api.query_batch_points(name, query_request_batch=batch).result or []


def _sparse(vector: SparseVector) -> q.SparseVector:
    return q.SparseVector(indices=list(vector.indices), values=list(vector.values))


def _filter(wanted: Sequence[schema.Condition]) -> q.Filter:
    return q.Filter(must=[_condition(condition) for condition in wanted])


def _condition(condition: schema.Condition) -> q.Condition:
    match condition:
        case schema.AnyOf(field, (only,)):
            return q.FieldCondition(key=field, match=q.MatchValue(value=only))
        case schema.AnyOf(field, values):
            return q.FieldCondition(key=field, match=q.MatchAny(any=list(map(str, values))))
        case schema.Within(field, least, most):
            return q.FieldCondition(key=field, range=q.Range(gte=least, lte=most))
        case schema.Among(ids):
            return q.HasIdCondition(has_id=list(map(str, ids)))
        case _:
            assert_never(condition)
