"""Proves that nobody changed the audit: each of its rows has the hash of the one before it.

A deferred trigger (``store/functions/seal_audit.sql``) chains a row when its transaction commits, under a lock of the
tenant's chain that ends with that commit: operations don't wait for each other's work, and every row that can be read
is sealed. In a transaction of an app with REPEATABLE READ the commit fails rather than forking the chain.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pydantic import SecretStr

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings
from memforest_core.store.repeating import repeated
from memforest_core.work.rows.operation_rows import ChainedRow, OpenTasks

MOST_FINDINGS = 100
"""Findings that a report names."""


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest row of a tenant's audit, whose hash covers all rows before it."""

    tenant: str
    rows: int
    """How many rows the audit had; 0 when it had none."""
    hash: str = ""
    """The SHA-256 of the newest, in hex."""
    at: datetime | None = None
    """When that row was written."""
    signature: str | None = None
    """HMAC-SHA256 of the other fields with the key of the settings, in hex."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Whether a tenant's audit is as it was written."""

    sound: bool
    head: AuditHead
    findings: Sequence[str]
    """A sentence for each row that was changed, inserted or is missing, the first 100; and for the given head."""
    extends: str | None
    """Whether the audit was compared with a ``signed`` or an ``unsigned`` head; None without one."""


@dataclass(frozen=True, slots=True)
class AuditLog:
    """Heads of the audit, and proofs of it. Thread-safe."""

    open_tasks: OpenTasks
    key: SecretStr | None

    @repeated
    def head(self, tenant: TenantId, *, sign: bool = False) -> AuditHead:
        """The newest row of the audit; keep it elsewhere, to prove later that the audit only grew.

        ``sign`` adds a signature with MEMFOREST_DATABASE__AUDIT_KEY. Raises InvalidSettings without that.
        """
        with self.open_tasks(tenant) as rows:
            head = _head(tenant, next(rows.audit_chain(newest=True), None))
        return replace(head, signature=self._signature(head)) if sign else head

    @repeated
    def verify(self, tenant: TenantId, head: AuditHead | None = None) -> AuditReport:
        """Read the whole audit, and find rows that were changed, removed or inserted.

        Only a ``head`` of before shows that the newest rows were removed. Raises InvalidSettings for a signed one
        without the key.
        """
        wrong = None if head is None else self._wrong(tenant, head)
        found: list[str] = []
        last, seen = None, ""
        with self.open_tasks(tenant) as rows:
            for row in rows.audit_chain():
                finding = _finding(row, last)
                found += [] if finding is None or len(found) == MOST_FINDINGS else [finding]
                last = last if row.place is None or row.hash is None else row
                seen = row.hash.hex() if head and row.hash and row.place == head.rows else seen
        if head is not None and wrong is None and seen != head.hash:
            wrong = f"Row {head.rows} is not the one of the given head."
        found += [] if wrong is None else [wrong]
        extends = None if head is None else "signed" if head.signature else "unsigned"
        return AuditReport(not found, _head(tenant, last), found, extends)

    def _wrong(self, tenant: TenantId, head: AuditHead) -> str | None:
        if head.tenant != tenant:
            return "The given head is of another tenant's audit."
        if head.signature and not hmac.compare_digest(_bytes(head.signature), _bytes(self._signature(head))):
            return "The given head was changed, or signed with another MEMFOREST_DATABASE__AUDIT_KEY."
        return None

    def _signature(self, head: AuditHead) -> str:
        if self.key is None:
            raise InvalidSettings("Set MEMFOREST_DATABASE__AUDIT_KEY to the secret that signs heads of the audit.")
        at = None if head.at is None else head.at.isoformat()
        said = _canonical(["memforest audit head", head.tenant, str(head.rows), head.hash, at])
        return hmac.new(self.key.get_secret_value().encode(), said, hashlib.sha256).hexdigest()


def _head(tenant: TenantId, last: ChainedRow | None) -> AuditHead:
    if last is None or last.place is None or last.hash is None:
        return AuditHead(tenant, 0)
    return AuditHead(tenant, last.place, last.hash.hex(), last.at.astimezone(UTC))


def _canonical(columns: Sequence[str | None]) -> bytes:
    """Texts as bytes that no other texts have: each with its length, None as a dash."""
    return _bytes(",".join("-" if each is None else f"{len(_bytes(each))}:{each}" for each in columns))


def _bytes(text: str) -> bytes:
    """UTF-8, also of what is none in a head that was changed."""
    return text.encode(errors="surrogatepass")


def _finding(row: ChainedRow, before: ChainedRow | None) -> str | None:
    """What is wrong with a row, by the one before it in the chain."""
    place, previous = (0, b"") if before is None else (before.place or 0, before.hash or b"")
    if row.place is None or row.hash is None:
        return f"A row of {row.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} was inserted: it is not in the chain."
    if row.place != place + 1:
        return f"Row {row.place} follows row {place}: rows are missing or exchanged, and it can't be checked."
    if hashlib.sha256(previous + _canonical(row.columns)).digest() != row.hash:
        return f"Row {row.place} or the one before it was changed or exchanged."
    return None
