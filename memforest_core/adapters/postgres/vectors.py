"""The vectors of texts in Postgres: float32 bytes under content hash and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sqlalchemy as sa

from memforest_core.adapters.postgres.accept import text_hash
from memforest_core.domain.ids import TenantId
from memforest_core.ports.models import Vectors


def to_bytes(vector: Vectors) -> bytes:
    """Little-endian float32 bytes of a vector."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def from_bytes(raw: bytes) -> Vectors:
    """The vector of ``to_bytes``."""
    return np.frombuffer(raw, dtype="<f4")


class PostgresVectors:
    """VectorRows over one open transaction."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant

    def vectors_by_hash(self, model: str, hashes: Sequence[bytes]) -> dict[bytes, Vectors]:
        """The stored vectors of those content hashes that have one."""
        if not hashes:
            return {}
        rows = self._db.execute(
            sa.text(
                "SELECT text_hash, vector FROM memforest.vector"
                " WHERE tenant_id = :t AND model = :m AND text_hash = ANY(CAST(:h AS bytea[]))"
            ),
            {"t": self._tenant, "m": model, "h": list(set(hashes))},
        )
        return {bytes(row.text_hash): from_bytes(row.vector) for row in rows}

    def known_vectors(self, model: str, texts: Sequence[str]) -> dict[str, Vectors]:
        found = self.vectors_by_hash(model, [text_hash(text) for text in texts])
        return {text: found[key] for text in texts if (key := text_hash(text)) in found}

    def put_vectors(self, model: str, vectors: Mapping[str, Vectors]) -> None:
        if not vectors:
            return
        rows = sorted((text_hash(text), to_bytes(vector)) for text, vector in vectors.items())
        self._db.execute(
            sa.text(
                "INSERT INTO memforest.vector (tenant_id, model, text_hash, vector)"
                " SELECT :t, :m, h, v FROM unnest(CAST(:h AS bytea[]), CAST(:v AS bytea[])) AS u(h, v)"
                " ON CONFLICT DO NOTHING"
            ),
            {"t": self._tenant, "m": model, "h": [r[0] for r in rows], "v": [r[1] for r in rows]},
        )
