"""What the clients of a Qdrant server and of the engine in this process have in common: one collection, its points and
filters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant.collection_schema import named_rows, point_id, space
from memforest_core.index.qdrant.point_encoding import (
    as_compared,
    can_match,
    dense_values,
    differing,
    encode_payload,
    engine_limit,
    hits_of,
    read_fields,
    scanned_point,
)
from memforest_core.index.vector_index import Hits, IndexFilter, IndexQuery, Point, PointKey, ScanPage, SparseVector

Client = TypeVar("Client")
Stored = tuple[UUID, Mapping[str, Any], Any]
"""A point's id, payload and vectors by name."""

_FOREVER = 1e15
"""Seconds; open ends of an interval are clamped here because JSON has no infinity."""


class QdrantIndex(ABC, Generic[Client]):
    """The collection of one embedding model; ``Client`` makes the calls."""

    api: ClassVar[Any]
    """The module of filters, points and requests: both name their parameters alike, with the exceptions below."""
    within: ClassVar[Any]
    idf: ClassVar[Any]

    def __init__(self, model: str, dimension: int) -> None:
        self._model = model
        self._dimension = dimension
        self._name = schema.collection_name(model, dimension)
        self._closed = False

    @property
    def name(self) -> str:
        return self._name

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        found = [Hits.of(()) for _ in queries]
        possible = [(at, named_rows(query.filter)) for at, query in enumerate(queries) if can_match(query)]
        with self._calling("search") as client:
            if possible:
                requests = [self._request(queries[at], rows) for at, rows in possible]
                for (at, rows), hits in zip(possible, self._answers(client, requests), strict=True):
                    found[at] = hits_of(hits, queries[at], rows)
        return found

    def versions(self, keys: Sequence[PointKey]) -> dict[UUID, int]:
        rows = {point_id(key): key.id for key in keys}
        with self._calling("versions") as client:
            found = self._retrieved(client, rows, [schema.VERSION])
            return {rows[id_]: int(payload[schema.VERSION]) for id_, payload, _ in found}

    def differing(self, points: Sequence[Point]) -> frozenset[UUID]:
        of = {point_id(point.key): point for point in points}
        with self._calling("differing") as client:
            found = [(of[id_], *rest) for id_, *rest in self._retrieved(client, of, True, vectors=True)]
            return differing(self.search, found, self._model)

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        with self._calling("count") as client:
            return self._counted(client, self.api.Filter(must=[self._of_forest(tenant, forest_id)]))

    def scan(self, cursor: str | None, limit: int, tenant: TenantId | None = None) -> ScanPage:
        wanted = self.api.Filter(
            must=None if tenant is None else [self._of_forest(tenant, None)], must_not=[self._among([schema.MARK_ID])]
        )
        # A cursor that is none is no damage.
        offset = None if cursor is None else UUID(cursor)
        with self._calling("scan") as client:
            records, following = self._scrolled(client, offset, limit, wanted)
            points = {id_: scanned_point(payload) for id_, payload, _ in records}
            self._check_ids(points.items())
        return ScanPage(tuple(points.values()), None if following is None else str(following))

    def read_mark(self) -> str | None:
        with self._calling("read_mark") as client:
            for _, payload, _ in self._retrieved(client, [schema.MARK_ID], [schema.MARK]):
                return str(payload[schema.MARK])
        return None

    @abstractmethod
    def _calling(self, operation: str) -> AbstractContextManager[Client]:
        """The client for one operation, whose failures become our errors. Raises IndexUnavailable when it is closed."""

    @abstractmethod
    def _retrieved(
        self, client: Client, ids: Iterable[UUID], payload: list[str] | bool, *, vectors: bool = False
    ) -> list[Stored]:
        """Those of these points that exist."""

    @abstractmethod
    def _scrolled(self, client: Client, offset: UUID | None, limit: int, wanted: Any) -> tuple[list[Stored], object]:
        """The next points that pass a filter, with what a scan reads of them, and the next cursor."""

    @abstractmethod
    def _counted(self, client: Client, wanted: Any) -> int:
        """How many points pass a filter."""

    @abstractmethod
    def _answers(self, client: Client, requests: Sequence[Any]) -> Sequence[Iterable[Any]]:
        """The scored points that each request finds."""

    @abstractmethod
    def _nearest(self, vector: Any, using: str) -> dict[str, Any]:
        """The arguments of a request that name its vector."""

    @abstractmethod
    def _among(self, ids: Iterable[UUID]) -> Any:
        """The condition that a point is one of these."""

    def _check_ids(self, points: Iterable[tuple[UUID, Any]]) -> None:
        """Refuse points under ids that are not theirs, as damaged files may have; a server checks its own."""

    def _encoded(self, point: Point) -> tuple[UUID, dict[str, Any], dict[str, Any]]:
        """A point's id, vectors and payload. Raises as ``dense_values`` does."""
        vectors: dict[str, Any] = {schema.DENSE: dense_values(point.dense, self._model, self._dimension)}
        if point.sparse.indices:
            vectors[schema.TERMS] = self._sparse(point.sparse)
        return point_id(point.key), vectors, dict(encode_payload(point))

    def _sparse(self, vector: SparseVector) -> Any:
        return self.api.SparseVector(indices=list(vector.indices), values=list(vector.values))

    def _request(self, query: IndexQuery, named: Mapping[UUID, UUID] | None) -> Any:
        params = None
        if isinstance(query.vector, SparseVector):
            corpus = self.api.Filter(must=[self._of_forest(query.filter.tenant, query.filter.forest_id)])
            params = self.api.SearchParams(idf=self.idf(corpus=corpus))
            nearest = self._nearest(self._sparse(query.vector), schema.TERMS)
        else:
            unit = as_compared(query.vector, self._model, self._dimension)
            nearest = self._nearest(unit.tolist(), schema.DENSE)
        return self.api.QueryRequest(
            **nearest,
            filter=self.api.Filter(must=self._conditions(query.filter, named)),
            params=params,
            score_threshold=query.min_score,
            limit=engine_limit(query),
            with_payload=read_fields(query),
        )

    def _of_forest(self, tenant: TenantId, forest: ForestId | None) -> Any:
        """The condition that a point is of a forest of a tenant; without a forest, of the tenant."""
        if forest is None:
            return self._any_of(schema.TENANT, (tenant,))
        # One condition for both: every posting of every term of a sparse search is compared with these.
        return self._any_of(schema.FOREST, (space(tenant, forest),))

    def _any_of(self, field: str, values: Sequence[object]) -> Any:
        """Flags are stored as 0 and 1: the embedded engine can't match booleans."""
        texts: list[Any] = [value if isinstance(value, int) else str(value) for value in values]
        match = self.api.MatchValue(value=texts[0]) if len(texts) == 1 else self.api.MatchAny(any=texts)
        return self.api.FieldCondition(key=field, match=match)

    def _conditions(self, wanted: IndexFilter, named: Mapping[UUID, UUID] | None) -> list[Any]:
        """All conditions of a filter; every one must hold. ``named`` is that of ``named_rows``."""
        bounds: dict[str, Sequence[object]] = {
            schema.KIND: wanted.kinds,
            schema.ROOT: (1,) if wanted.roots_only else (),
            schema.TREE: wanted.tree_ids,
            schema.TREE_KIND: wanted.tree_kinds,
            schema.SESSION: wanted.session_ids,
        }
        found = [self._of_forest(wanted.tenant, wanted.forest_id)]
        found += [self._any_of(field, values) for field, values in bounds.items() if values]
        if named is not None:
            found.append(self._among(named))
        if wanted.overlaps is not None:
            first, last = wanted.overlaps
            found.append(self.api.FieldCondition(key=schema.START, range=self.within(lte=min(last, _FOREVER))))
            found.append(self.api.FieldCondition(key=schema.END, range=self.within(gte=max(first, -_FOREVER))))
        return found
