"""The vectors of texts in Postgres: half precision under forest, model and content hash. No two forests share one."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, SessionId
from memforest_core.domain.indexed import cell_text
from memforest_core.models.calls import CallRecord, OwnText, Vectors
from memforest_core.store.call_ledger import record_calls
from memforest_core.store.rows import TenantRows

Key = tuple[ForestId, bytes]
"""A forest and the content hash of a text in it."""

HALF = b"h"
"""What vectors of half precision end with."""

UNUSED = """NOT EXISTS (SELECT 1 FROM memforest.cell c
                         WHERE c.tenant_id = :t AND c.forest_id = v.forest_id AND c.text_hash = v.text_hash)
       AND NOT EXISTS (SELECT 1 FROM memforest.fact f
                        WHERE f.tenant_id = :t AND f.forest_id = v.forest_id AND f.text_hash = v.text_hash)
       AND NOT EXISTS (SELECT 1 FROM memforest.candidate k JOIN memforest.cell c
                           ON c.tenant_id = :t AND c.cell_id = k.cell_id AND c.forest_id = v.forest_id
                        WHERE k.tenant_id = :t AND k.text_hash = v.text_hash)
       AND NOT EXISTS (SELECT 1 FROM memforest.candidate k JOIN memforest.cell c
                           ON c.tenant_id = :t AND c.cell_id = k.cell_id AND c.forest_id = v.forest_id
                        WHERE k.tenant_id = :t AND k.routing_hash = v.text_hash)"""
"""The condition that no cell, fact or candidate of its own forest has the text of vector ``v``: it is an orphan."""

_SELECT = sa.text("""
    SELECT v.forest_id, v.text_hash, v.vector, v.tokens IS NOT NULL AS has_tokens
      FROM unnest(CAST(:f AS uuid[]), CAST(:h AS bytea[])) AS u(forest, hash)
      JOIN memforest.vector v
        ON v.tenant_id = :t AND v.forest_id = u.forest AND v.model = :m AND v.text_hash = u.hash
    """)

_HOLD_FORESTS = sa.text("""
    SELECT forest_id FROM memforest.forest
     WHERE tenant_id = :t AND forest_id = ANY(CAST(:f AS uuid[])) AND state <> 'gone'
     ORDER BY forest_id FOR KEY SHARE
    """)

# Always in the same order: two writers of the same texts can't deadlock.
_PUT = sa.text("""
    INSERT INTO memforest.vector (tenant_id, forest_id, model, text_hash, vector, tokens)
    SELECT :t, u.forest, :m, u.hash, u.vector, u.tokens
      FROM unnest(CAST(:f AS uuid[]), CAST(:h AS bytea[]), CAST(:v AS bytea[]), CAST(:k AS bytea[]))
           AS u(forest, hash, vector, tokens)
     ORDER BY u.forest, u.hash
    ON CONFLICT DO NOTHING
    """)

# Vectors that an import stored without their tokens get them. A writer of vectors holds locks of
# index rows, and another that has locked a vector may wait for those: what is locked is left for the next time.
_ADD_TOKENS = sa.text("""
    WITH missing AS (
        SELECT v.forest_id, v.text_hash, u.tokens
          FROM unnest(CAST(:f AS uuid[]), CAST(:h AS bytea[]), CAST(:k AS bytea[])) AS u(forest, hash, tokens)
          JOIN memforest.vector v
            ON v.tenant_id = :t AND v.forest_id = u.forest AND v.model = :m AND v.text_hash = u.hash
         WHERE v.tokens IS NULL AND u.tokens IS NOT NULL FOR NO KEY UPDATE OF v SKIP LOCKED)
    UPDATE memforest.vector v SET tokens = missing.tokens FROM missing
     WHERE v.tenant_id = :t AND v.forest_id = missing.forest_id AND v.model = :m AND v.text_hash = missing.text_hash
    """)

_OF_HASHES = """v.tenant_id = :t AND v.forest_id = :f AND v.model IN (SELECT model FROM memforest.collection)
       AND v.text_hash = ANY(CAST(:h AS bytea[]))"""

_HOLD = sa.text(
    f"SELECT 1 FROM memforest.vector v WHERE {_OF_HASHES} ORDER BY v.model, v.text_hash FOR UPDATE"  # noqa: S608
)
_DROP_UNUSED = sa.text(f"DELETE FROM memforest.vector v WHERE {_OF_HASHES} AND {UNUSED}")  # noqa: S608
_DROP_ORPHANS = sa.text(
    f"DELETE FROM memforest.vector v WHERE v.tenant_id = :t AND v.forest_id = :f AND {UNUSED}"  # noqa: S608
)


def text_hash(text: str) -> bytes:
    """The content hash under which a text's vector is stored."""
    return hashlib.sha256(text.encode()).digest()


def cell_hash(text: str, started: datetime) -> bytes:
    """The content hash of what is embedded of a cell: its text under its date."""
    return text_hash(cell_text(text, started.astimezone(UTC)))


def to_bytes(vector: Vectors) -> bytes:
    """Little-endian float32 bytes of a vector: of sums, and of what leaves the store."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def to_half(vector: Vectors) -> bytes:
    """Little-endian float16 bytes of a vector of length one, and one byte more that distinguishes them from float32."""
    return np.ascontiguousarray(vector, dtype="<f2").tobytes() + HALF


def as_stored(vector: Vectors) -> Vectors:
    """A vector as it is read again: an index that is rebuilt then has the same points."""
    return from_bytes(to_half(vector))


def pooled_half(pooled: Vectors, vector: Vectors) -> bytes | None:
    """What a summary stores as the mean vector of its leaves: nothing, where its own vector is the same."""
    stored = to_half(pooled)
    return None if stored == to_half(vector) else stored


def from_bytes(raw: bytes) -> Vectors:
    """The vector of ``to_bytes`` or ``to_half`` as float32: only half precision has an odd number of bytes."""
    if len(raw) % 2:
        return np.frombuffer(raw, dtype="<f2", count=len(raw) // 2).astype(np.float32)
    return np.frombuffer(raw, dtype="<f4")


class VectorRows(TenantRows):
    """The vectors of texts, stored under forest, model and content hash."""

    def record_calls(self, calls: Sequence[CallRecord], forest: ForestId | None, session: SessionId | None) -> None:
        """Account for model calls."""
        record_calls(self._db, self._tenant, calls, forest, session)

    def vectors_by_hash(self, model: str, keys: Iterable[Key]) -> dict[Key, Vectors]:
        """The stored vectors of those content hashes that have one in their forest."""
        return {key: vector for key, vector, _ in self._vectors(model, keys)}

    def _vectors(self, model: str, keys: Iterable[Key]) -> Iterator[tuple[Key, Vectors, bool]]:
        """The keys that have a vector, with it, and whether its token vectors are stored."""
        wanted = list(set(keys))
        if wanted:
            rows = self._run(_SELECT, m=model, f=[forest for forest, _ in wanted], h=[key for _, key in wanted])
            for row in rows:
                yield (ForestId(row.forest_id), bytes(row.text_hash)), from_bytes(row.vector), row.has_tokens

    def known_vectors(
        self, model: str, texts: Collection[OwnText], with_tokens: Collection[OwnText] = ()
    ) -> dict[OwnText, Vectors]:
        """The stored vectors, shape (dimension,), of those texts that have one; of texts ``with_tokens`` only where
        their token vectors are stored too."""
        keys = {text: (text.forest_id, text_hash(text.text)) for text in texts}
        strict = {keys[text] for text in with_tokens}
        rows = self._vectors(model, keys.values())
        found = {key: vector for key, vector, has_tokens in rows if has_tokens or key not in strict}
        return {text: found[key] for text, key in keys.items() if key in found}

    def hold_forests(self, forests: Collection[ForestId]) -> frozenset[ForestId]:
        """Keep forests from being deleted before this transaction ends; those that are not being deleted yet.

        Comes before any other lock: a deletion locks the forest first, and then the forest's rows.
        """
        return frozenset(ForestId(each) for each in self._run(_HOLD_FORESTS, f=list(forests)).scalars())

    def put_vectors(
        self, model: str, vectors: Mapping[OwnText, Vectors], tokens: Mapping[OwnText, bytes] | None = None
    ) -> None:
        """Store vectors, with the token vectors of some of these texts; what is there already stays. Those of a forest
        that is being deleted are left out."""
        if not vectors:
            return
        alive = self.hold_forests({text.forest_id for text in vectors})
        living = [(text, vector) for text, vector in vectors.items() if text.forest_id in alive]
        known = tokens or {}
        keys = {
            "m": model,
            "f": [text.forest_id for text, _ in living],
            "h": [text_hash(text.text) for text, _ in living],
            "k": [known.get(text) for text, _ in living],
        }
        stored = self._run(_PUT, **keys, v=[to_half(vector) for _, vector in living]).rowcount
        if known and stored < len(living):
            self._run(_ADD_TOKENS, **keys)

    def drop_unused(self, forest: ForestId, hashes: Collection[bytes]) -> int:
        """Drop those of a forest's vectors whose text no cell, fact or candidate of it has any more; how many."""
        if not hashes:
            return 0
        self._run(_HOLD, f=forest, h=list(hashes))
        return self._run(_DROP_UNUSED, f=forest, h=list(hashes)).rowcount

    def drop_orphans(self, forest: ForestId) -> int:
        """Drop all of a forest's vectors that belong to no text of it any more; how many. Reads the whole forest."""
        return self._run(_DROP_ORPHANS, f=forest).rowcount


def of_forest(forest: ForestId, texts: Sequence[str]) -> list[OwnText]:
    """These texts as texts of one forest."""
    return [OwnText(forest, text) for text in texts]
