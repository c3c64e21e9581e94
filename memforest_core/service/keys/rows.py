"""The table of keys: those of a tenant, and whose a secret is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import TenantId
from memforest_core.domain.routes import Scope
from memforest_core.service.keys.records import Caller, Key
from memforest_core.store import tables as m
from memforest_core.store.engine import NO_TENANT, Engine, tenant_transaction
from memforest_core.store.rows import TenantRows

_TENANT = sa.text("INSERT INTO memforest.tenant (tenant_id) VALUES (:t) ON CONFLICT DO NOTHING")
_CALLER = sa.text("SELECT * FROM memforest.key_caller(:hash)")


class KeyRows(TenantRows):
    """The keys of a tenant, in one transaction."""

    def add(self, key: Key, secret_hash: bytes) -> Key:
        """Store a new key; it comes back with the database's time."""
        self._run(_TENANT)
        values = {
            "tenant_id": self._tenant,
            "key_id": key.id,
            "secret_hash": secret_hash,
            "name": key.name,
            "scope": key.scope.value,
            "owners": key.owners,
            "requests_per_minute": key.requests_per_minute,
            "expires_at": key.expires_at,
        }
        return _key(self._db.execute(sa.insert(m.ApiKey).values(values).returning(*_SHOWN)).one())

    def all(self) -> Sequence[Key]:
        """All keys, the newest first; revoked ones too."""
        wanted = self._select(*_SHOWN)
        return [_key(row) for row in self._db.execute(wanted.order_by(m.ApiKey.created_at.desc(), m.ApiKey.key_id))]

    def revoke(self, id_: UUID) -> Key | None:
        """Revoke a key for good; revoked again it stays as it was. None when the tenant has no such key."""
        moment = sa.func.coalesce(m.ApiKey.revoked_at, sa.func.clock_timestamp())
        revoked = self._update_rows(m.ApiKey).where(m.ApiKey.key_id == id_).values(revoked_at=moment)
        found = self._db.execute(revoked.returning(*_SHOWN)).first()
        return None if found is None else _key(found)

    def used(self, id_: UUID) -> None:
        """Note that a key was used."""
        own = self._update_rows(m.ApiKey).where(m.ApiKey.key_id == id_)
        self._db.execute(own.values(last_used_at=sa.func.clock_timestamp()))


def find_caller(engine: Engine, secret_hash: bytes) -> Caller | None:
    """Whose secret has this hash, in whichever tenant; None for an unknown or revoked one. Raises StoreUnavailable."""
    with tenant_transaction(engine, NO_TENANT) as connection:
        row = connection.execute(_CALLER, {"hash": secret_hash}).first()
    if row is None:
        return None
    scope, limit = Scope(row.scope), row.requests_per_minute
    return Caller(TenantId(row.tenant_id), row.key_id, row.name, scope, row.owners, limit)


_SHOWN = [
    column.label("id") if column.name == "key_id" else column
    for column in m.ApiKey.__table__.c
    if column.name not in ("tenant_id", "secret_hash")
]


def _key(row: sa.Row[*tuple[Any, ...]]) -> Key:
    times = {name: at.astimezone(UTC) for name, at in row._mapping.items() if isinstance(at, datetime)}
    return Key(**{**row._mapping, **times, "scope": Scope(row.scope)})
