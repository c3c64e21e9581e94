"""Keys as values; the secret itself is seen once, when a key is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import takewhile
from uuid import UUID

from memforest_core.domain.ids import TenantId
from memforest_core.domain.routes import Scope

_SIGN = re.compile(r"\\[*?\\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is listed."""

    id: UUID
    name: str
    """What it is for; the audit names it."""
    scope: Scope
    owners: str | None
    """The pattern that owners must match (``*`` and ``?`` are any characters and any one, ``\\`` before ``*``, ``?`` or
    ``\\`` makes it plain); None: all owners."""
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
    """What programs send as ``Authorization: Bearer SECRET``. Only its hash is stored: nobody can show it later."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, as their key says."""

    tenant: TenantId
    key_id: UUID
    name: str
    scope: Scope
    owners: str | None = None
    requests_per_minute: int | None = None

    def acting(self, by: str | None) -> str:
        """The key's name for the audit, and ``by`` whom or what."""
        return f"{self.name}: {by}" if by else self.name

    def may_ask_of(self, owner: str) -> bool:
        """Whether this key reaches an owner."""
        if self.owners is None:
            return True
        # A bracket has a meaning for fnmatch, and none here.
        signs = _signs(self.owners)
        parts = (f"[{each[-1]}]" if _is_plain(each) and each[-1] in "*?[" else each[-1] for each in signs)
        return fnmatchcase(owner, "".join(parts))

    @property
    def owners_begin(self) -> str:
        """What all owners that this key reaches begin with."""
        return "".join(sign[-1] for sign in takewhile(_is_plain, _signs(self.owners or "")))

    @property
    def only_owner(self) -> str | None:
        """The one owner that this key reaches; None for a key of several."""
        return self.owners_begin if self.owners is not None and all(map(_is_plain, _signs(self.owners))) else None


def _signs(pattern: str) -> Sequence[str]:
    """The signs of a pattern, each with the backslash that makes it plain."""
    return _SIGN.findall(pattern)


def _is_plain(sign: str) -> bool:
    return sign not in ("*", "?")
