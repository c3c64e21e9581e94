"""Statements that the folders share: who speaks in a memory, and texts that were made of it, under hashes.

Each text is stored in ``summary_cache`` as one about the whole forest: any deletion drops it in its own transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

import sqlalchemy as sa
from pydantic import BaseModel, ValidationError
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import FactId, ForestId
from memforest_core.store import tables as m
from memforest_core.store.owners import VISIBLE, ForestRows, lock_forest
from memforest_core.store.rows import among

Stored = TypeVar("Stored", bound=BaseModel)

# The oldest texts of a memory beyond those that are stored.
_DROP_OLD = sa.text("""
    DELETE FROM memforest.summary_cache WHERE tenant_id = :t AND tree_id = :f AND input_hash IN (
        SELECT input_hash FROM memforest.summary_cache WHERE tenant_id = :t AND tree_id = :f
         ORDER BY created_at DESC, input_hash OFFSET :stored FOR UPDATE SKIP LOCKED)
    """)

_SPOKEN = sa.text("""
    SELECT EXISTS (SELECT 1 FROM memforest.session s
                     JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id AND t.role = 'user'
                    WHERE s.tenant_id = :t AND s.forest_id = :f AND NOT s.note AND t.speaker_id = ANY(:ids))
    """)

_NOTED = sa.text("""
    SELECT t.speaker_id, t.name FROM memforest.session s
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id AND NOT t.erased
     WHERE s.tenant_id = :t AND s.forest_id = :f AND s.external_id = :session AND s.note
    """)


@dataclass(frozen=True, slots=True)
class Fence:
    """The row that a text is stored in, as it was before the text's sources were read."""

    forest: ForestId
    key: bytes
    mark: str
    """Another one after a deletion."""
    hash: str
    """Of what the stored text was made from, hexadecimal; empty without one."""
    text: str


def hash_of(*made_of: object) -> bytes:
    """The hash of all that a text is made of, as JSON values: the key under which it is stored."""
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).digest()


def read_stored(shape: type[Stored], text: str | None) -> Stored | None:
    """What is stored, if this program wrote it."""
    try:
        return None if text is None else shape.model_validate_json(text)
    except ValidationError:
        return None


class PeopleRows(ForestRows):
    """Who speaks in a memory."""

    def has_spoken(self, forest: ForestId, speakers: Collection[str]) -> bool:
        """Whether one of these ids has said a turn that is no note."""
        return bool(self._run(_SPOKEN, f=forest, ids=list(speakers)).scalar_one())

    def noted(self, forest: ForestId, session: str) -> tuple[str, str] | None:
        """The speaker's id and name that a stored note is under."""
        row = self._run(_NOTED, f=forest, session=session).first()
        return None if row is None else (row.speaker_id, row.name)


class MadeTextRows(PeopleRows):
    """Texts that were made of a tenant's memories."""

    def made_text(self, key: bytes, *, lock: bool = False) -> str | None:
        """The text under a hash; with ``lock`` locked until the transaction ends, None if another one has it."""
        stored = m.Summary
        statement = self._select(stored.text).where(stored.input_hash == key)
        found: str | None = self._db.scalar(statement.with_for_update(skip_locked=True) if lock else statement)
        return found

    def store_text(self, forest: ForestId, key: bytes, text: str, facts: Mapping[FactId, bytes]) -> bool:
        """Store a text in place of the one before; False when one of its facts has gone since.

        ``facts`` are those that it was made from, with the hashes of their texts. Their rows and that of the text are
        locked until the transaction ends: a deletion either is seen here, or waits and then finds the text. This waits
        for no deletion: a text whose facts, or whose row, one has locked is not stored.
        """
        free = self.made_text(key, lock=True) is not None or self.made_text(key) is None
        if not free or self._locked_facts(forest, facts) != facts:
            return False
        self._put_text(forest, key, text)
        return True

    def drop_old_texts(self, forest: ForestId, most: int) -> None:
        """Delete all but the newest texts of a forest."""
        self._run(_DROP_OLD, f=forest, stored=most)

    def fence(self, owner: str, person: str, version: int) -> Fence | None:
        """The row of a person's merged text, made if there is none.

        Any deletion drops it in its own transaction, which holds the forest. So it is made under the forest's lock;
        None when another transaction holds it, or the owner has no memory that can be written.
        """
        forest = self.find_forest(owner)
        if forest is None or forest.frozen:
            return None
        key = hash_of("merged", version, str(forest.id), person)
        found = self.made_text(key)
        if found is None:
            if lock_forest(self._db, self._tenant, forest.id, wait=False) not in VISIBLE:
                return None
            found = json.dumps({"mark": uuid4().hex, "hash": "", "text": ""})
            self._put_text(forest.id, key, found)
        return Fence(forest.id, key, **json.loads(found))

    def store_merged(self, fence: Fence, hash_: str, text: str) -> bool:
        """Store a text; False when its row has gone since, or another transaction holds it."""
        found = self.made_text(fence.key, lock=True)
        if found is None or json.loads(found)["mark"] != fence.mark:
            return False
        self._put_text(fence.forest, fence.key, json.dumps({"mark": fence.mark, "hash": hash_, "text": text}))
        return True

    def _put_text(self, forest: ForestId, key: bytes, text: str) -> None:
        row = {"tenant_id": self._tenant, "input_hash": key, "text": text, "forest_id": forest, "tree_id": forest}
        new = insert(m.Summary).values(row)
        renewed = {"text": new.excluded.text, "created_at": sa.func.clock_timestamp()}
        self._db.execute(new.on_conflict_do_update(index_elements=["tenant_id", "input_hash"], set_=renewed))

    def _locked_facts(self, forest: ForestId, facts: Collection[FactId]) -> dict[FactId, bytes]:
        """Those of these facts that no deletion has locked or taken, with the hashes of their texts."""
        fact = m.FactRow
        found = self._db.execute(
            self._select(fact.fact_id, fact.text_hash)
            .where(fact.forest_id == forest, among(fact.fact_id, facts))
            .order_by(fact.fact_id)
            .with_for_update(read=True, key_share=True, skip_locked=True)
        )
        return {FactId(row.fact_id): bytes(row.text_hash) for row in found}
