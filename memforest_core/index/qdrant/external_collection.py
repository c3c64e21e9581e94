"""One external collection on a Qdrant server that is only read: its nearest points to a vector, with their payload."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

from qdrant_client import QdrantClient
from qdrant_client import models as q

from memforest_core.errors import IndexUnavailable
from memforest_core.index.qdrant.server_index import qdrant_client, server_failures
from memforest_core.index.vector_index import DenseVector, SourceHit, SourceMismatch
from memforest_core.settings import SourceSettings


class SourceCollection:
    """Reads one collection; nothing here writes. Thread-safe; connects on first use.

    ``key`` is the server's api key, ``dimension`` that of a question's vector.
    """

    def __init__(self, settings: SourceSettings, key: str | None, dimension: int) -> None:
        self._settings = settings
        self._key = key
        self._dimension = dimension
        self._lock = threading.Lock()
        self._client: QdrantClient | None = None
        self._fits = False

    def search(self, vector: DenseVector, tenant: str, owners: Sequence[str], limit: int) -> list[SourceHit]:
        """The nearest points that the mapping lets this tenant and these owners see, the nearest first.

        One call, and one more until the collection was seen to fit. Raises SourceMismatch, IndexUnavailable,
        InvalidSettings, InvariantViolated.
        """
        try:
            return self._searched(vector, tenant, owners, limit)
        except RecursionError:
            raise IndexUnavailable("a source answers with JSON that nests too deeply") from None

    def _searched(self, vector: DenseVector, tenant: str, owners: Sequence[str], limit: int) -> list[SourceHit]:
        settings = self._settings
        with server_failures(settings.collection, "search"):
            client = self._connected()
            if not self._fits:
                self._check(client)
            found = client.query_points(
                settings.collection,
                query=vector.astype(float).tolist(),
                using=settings.vector or None,
                query_filter=self._filter(tenant, owners),
                limit=limit,
                with_payload=self._fields(),
            )
        return [
            SourceHit(str(point.id), point.score, point.payload or {})
            for point in found.points[:limit]
            if math.isfinite(point.score)
        ]

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> QdrantClient:
        with self._lock:
            if self._client is None:
                self._client = qdrant_client(self._settings.url, self._key, self._settings.timeout_s)
            return self._client

    def _check(self, client: QdrantClient) -> None:
        """Raises SourceMismatch for a collection whose vectors don't compare with ours."""
        settings = self._settings
        vectors = client.get_collection(settings.collection).config.params.vectors
        own = vectors.get(settings.vector) if isinstance(vectors, dict) else None if settings.vector else vectors
        if own is None:
            named = f"no vector {settings.vector!r:.80}" if settings.vector else "no vector without a name"
            raise SourceMismatch(f"its collection has {named}")
        if own.size != self._dimension:
            raise SourceMismatch(
                f"its vectors have {own.size} numbers where those of the embedding model have {self._dimension}"
            )
        if own.distance is not q.Distance.COSINE:
            raise SourceMismatch(f"its vectors are compared by {own.distance.value} where Cosine is needed")
        self._fits = True

    def _filter(self, tenant: str, owners: Sequence[str]) -> q.Filter | None:
        must: list[q.Condition] = []
        if self._settings.tenant is not None:
            must.append(q.FieldCondition(key=self._settings.tenant, match=q.MatchValue(value=tenant)))
        if self._settings.owner is not None:
            must.append(q.FieldCondition(key=self._settings.owner, match=q.MatchAny(any=list(owners))))
        return q.Filter(must=must) if must else None

    def _fields(self) -> list[str]:
        settings = self._settings
        named = (settings.text, settings.time, settings.owner, *settings.metadata)
        return list(dict.fromkeys(name for name in named if name is not None))
