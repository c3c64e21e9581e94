"""Making, listing and revoking keys, and finding out who sends one."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import TenantId
from memforest_core.domain.pages import checked_id
from memforest_core.domain.routes import Scope
from memforest_core.domain.turns import checked_name, parse_timestamp
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.service.keys.records import Caller, Key, NewKey
from memforest_core.service.keys.rows import KeyRows, find_caller
from memforest_core.store.engine import Engine

PREFIX = "mf_"
"""Begins each secret, so that scanners of source code know one."""
SECRET_BYTES = 32
"""Random bytes of a secret: nobody guesses 256 bits, so a plain SHA-256 protects it as well as a slow hash would."""
HELD_S = 1.0
"""A process believes what it read of a key for so long. With the time between two checks of a stream, and that of a
statement, a revoked key works for less than 2 seconds more."""
USED_EVERY_S = 60.0
"""The time of last use is written at most so often by each process."""
MOST_HELD = 10_000
"""Keys that a process remembers."""
MAX_RATE = 1_000_000


class Keys:
    """The keys of tenants. Thread-safe."""

    def __init__(self, engine: Engine, label: str = "") -> None:
        """``label`` begins the secrets that are made, after ``mf_``."""
        self._engine = engine
        self._begins = f"{PREFIX}{label}_" if label else PREFIX

    def create(
        self,
        tenant: TenantId,
        name: str,
        *,
        scope: str = Scope.WRITE,
        owners: str | None = None,
        requests_per_minute: int | None = None,
        expires: datetime | str | None = None,
    ) -> NewKey:
        """Make a key for a tenant; its secret is in the answer and nowhere else.

        ``name`` says what it is for, ``scope`` is "read", "write" or "admin", ``owners`` a pattern such as ``user-*``
        that the owners it may reach match, ``requests_per_minute`` its own limit; from
        ``expires`` on (UTC unless it says so) it is refused. Raises InvalidInput, StoreUnavailable.
        """
        if scope not in list(Scope):
            raise InvalidInput(f"Set scope to {', '.join(Scope)}, not {scope!r:.40}.", code="invalid_scope")
        if requests_per_minute is not None and not 1 <= requests_per_minute <= MAX_RATE:
            raise InvalidInput(f"Set requests_per_minute from 1 to {MAX_RATE:,}.", code="invalid_requests_per_minute")
        until = None if expires is None else parse_timestamp(expires, ZoneInfo("UTC"), "expires")
        if until is not None and until <= datetime.now(UTC):
            raise InvalidInput("Set expires to a time to come.", code="invalid_expires")
        key = Key(
            id=uuid4(),
            name=checked_name(name, "name"),
            scope=Scope(scope),
            owners=None if owners is None else checked_name(owners, "owners"),
            requests_per_minute=requests_per_minute,
            created_at=datetime.now(UTC),
            expires_at=until,
        )
        secret = self._begins + secrets.token_urlsafe(SECRET_BYTES)
        with KeyRows.opened(self._engine, tenant) as rows:
            return NewKey(rows.add(key, hashed(secret)), secret)

    def list(self, tenant: TenantId) -> Sequence[Key]:
        """A tenant's keys, the newest first, revoked ones too. Raises StoreUnavailable."""
        with KeyRows.opened(self._engine, tenant) as rows:
            return rows.all()

    def revoke(self, tenant: TenantId, key: UUID | str) -> Key:
        """Revoke a key for good: servers refuse it within 2 seconds.

        Raises NotFound, InvalidInput, StoreUnavailable.
        """
        wanted = checked_id(str(key), "key")
        with KeyRows.opened(self._engine, tenant) as rows:
            found = rows.revoke(wanted)
        if found is None:
            raise NotFound(f"There is no key {wanted}: memforest keys list shows them.")
        return found


@dataclass(slots=True)
class _Held:
    """What was read of a secret, and until when it is believed."""

    caller: Caller | None
    until: float


@renewed_in_child
class Callers:
    """Finds the caller of a secret in the database, for two seconds in memory. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._held: dict[bytes, _Held] = {}
        self._noted: dict[UUID, float] = {}

    def known(self, secret: str) -> Caller | None:
        """Whose secret it is, if that was read within the last seconds; None says nothing."""
        with self._lock:
            held = self._held.get(hashed(secret))
            return held.caller if held is not None and held.until > time.monotonic() else None

    def find(self, secret: str) -> Caller | None:
        """Whose secret it is; None for an unknown or revoked one. Raises StoreUnavailable."""
        return self.find_hashed(hashed(secret)) if secret.startswith(PREFIX) else None

    def find_hashed(self, digest: bytes) -> Caller | None:
        """Whose secret has this hash; None for an unknown or revoked one. Raises StoreUnavailable."""
        now = time.monotonic()
        with self._lock:
            held = self._held.get(digest)
            if held is not None and held.until > now:
                return held.caller
        caller = find_caller(self._engine, digest)
        with self._lock:
            if len(self._held) >= MOST_HELD:
                self._held.clear()
            self._held[digest] = _Held(caller, now + HELD_S)
        if caller is not None:
            self._note(caller, now)
        return caller

    def _note(self, caller: Caller, now: float) -> None:
        with self._lock:
            if self._noted.get(caller.key_id, -USED_EVERY_S) > now - USED_EVERY_S:
                return
            if len(self._noted) >= MOST_HELD:
                self._noted.clear()
            self._noted[caller.key_id] = now
        with KeyRows.opened(self._engine, caller.tenant) as rows:
            rows.used(caller.key_id)


def hashed(secret: str) -> bytes:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode()).digest()
