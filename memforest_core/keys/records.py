"""Keys as values; the secret itself is seen once, when a key is made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from uuid import UUID

from memforest_core.domain.ids import TenantId
from memforest_core.domain.routes import Scope


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is listed."""

    id: UUID
    name: str
    """What it is for; the audit names it."""
    scope: Scope
    owners: str | None
    """The pattern that owners must match (``*`` and ``?`` stand for any characters and any one); None: all owners."""
    requests_per_minute: int | None
    """Its own limit; None takes the setting server.requests_per_minute."""
    created_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """To the minute."""
    expires_at: datetime | None = None
    """From then on it is refused; None: never."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made."""

    key: Key
    secret: str
    """What programs send as ``Authorization: Bearer SECRET``. Only its hash is kept: nobody can show it again."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, as their key says."""

    tenant: TenantId
    key_id: UUID
    name: str
    scope: Scope
    owners: str | None = None
    requests_per_minute: int | None = None

    def may_ask_of(self, owner: str) -> bool:
        """Whether this key reaches an owner."""
        return self.owners is None or fnmatchcase(owner, self.owners)

    @property
    def only_owner(self) -> str | None:
        """The one owner that this key reaches; None for a key of several."""
        return self.owners if self.owners is not None and not set("*?[") & set(self.owners) else None
