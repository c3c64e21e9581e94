"""Proves that nobody changed the audit: each of its rows has the hash of the one before it.

A deferred trigger (``store/functions/seal_audit.sql``) chains a row when its transaction commits, under a lock of the
tenant's chain that ends with that commit. A lock from the request on would make operations wait for each other's work;
a worker that seals later would leave rows that are not sealed yet. So the chain is in the order of commits, a
transaction that aborts or is killed never has a place, and every row that can be read is sealed, whichever version
wrote it. In a transaction of an app with REPEATABLE READ the commit fails rather than forking the chain.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pydantic import SecretStr

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput, InvalidSettings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.rows.audit_rows import AuditRows, ChainedRow

MOST_FINDINGS = 100
"""Findings that a report names."""
LONGEST = timedelta(hours=1)
"""No transaction takes as long: rows are in the order of their commits, which may be later than their times."""


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest row of a tenant's audit, whose hash covers all rows before it."""

    tenant: str
    rows: int
    """How many rows the audit had; 0 when it had none."""
    hash: str
    """The SHA-256 of the newest, in hex."""
    at: datetime | None
    """When that row was written."""
    signature: str | None = None
    """HMAC-SHA256 of the other fields with the key of the settings, in hex."""


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """What is wrong at a row of the chain."""

    row: int
    """Its place, from 1; 0 for a row without one."""
    kind: str
    """``missing``, ``changed``, ``inserted``, ``dated``, or ``head``."""
    what: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Whether a tenant's audit is as it was written."""

    sound: bool
    head: AuditHead
    findings: Sequence[AuditFinding]
    """At most 100."""
    found: int
    """How many findings there are."""
    extends: str | None
    """Whether the audit was compared with a ``signed`` or an ``unsigned`` head; None without one."""


class AuditLog:
    """Heads of the audit, and proofs of it. Thread-safe."""

    def __init__(self, engine: Engine, key: SecretStr | None) -> None:
        self._engine = engine
        self._key = key

    @repeated
    def head(self, tenant: TenantId, *, sign: bool = False) -> AuditHead:
        """The newest row of the audit; keep it elsewhere, to prove later that the audit only grew.

        ``sign`` adds a signature with MEMFOREST_DATABASE__AUDIT_KEY. Raises InvalidSettings without that.
        """
        with AuditRows.opened(self._engine, tenant) as rows:
            head = _head(tenant, rows.last())
        return replace(head, signature=self._signature(head)) if sign else head

    @repeated
    def verify(self, tenant: TenantId, head: AuditHead | None = None) -> AuditReport:
        """Read the whole audit, and find rows that were changed, removed or inserted.

        Only a ``head`` of before shows that the newest rows were removed. Raises InvalidInput for a head that is
        another tenant's or whose signature is wrong, InvalidSettings for a signed one without the key.
        """
        if head is not None:
            self._check(tenant, head)
        found: list[AuditFinding] = []
        count, last, seen = 0, None, ""
        with AuditRows.opened(self._engine, tenant) as rows:
            for row, finding in _checked(rows.chain()):
                last = row if row.place is not None else last
                if head is not None and row.place == head.rows and row.hash is not None:
                    seen = row.hash.hex()
                if finding is not None:
                    count += 1
                    found += [finding] if count <= MOST_FINDINGS else []
        if head is not None and seen != head.hash:
            count += 1
            found.append(AuditFinding(head.rows, "head", f"Row {head.rows} is not the one of the given head."))
        extends = None if head is None else "signed" if head.signature else "unsigned"
        return AuditReport(count == 0, _head(tenant, last), found, count, extends)

    def _check(self, tenant: TenantId, head: AuditHead) -> None:
        if head.tenant != tenant:
            raise InvalidInput("This head is of another tenant's audit.", code="other_audit")
        if head.signature and not hmac.compare_digest(head.signature.encode(), self._signature(head).encode()):
            raise InvalidInput(
                "This head was changed, or signed with another MEMFOREST_DATABASE__AUDIT_KEY.", code="wrong_signature"
            )

    def _signature(self, head: AuditHead) -> str:
        if self._key is None:
            raise InvalidSettings("Set MEMFOREST_DATABASE__AUDIT_KEY to the secret that signs heads of the audit.")
        at = None if head.at is None else head.at.isoformat()
        said = _canonical(["memforest audit head", head.tenant, str(head.rows), head.hash, at])
        return hmac.new(self._key.get_secret_value().encode(), said, hashlib.sha256).hexdigest()


def _head(tenant: TenantId, last: ChainedRow | None) -> AuditHead:
    if last is None or last.place is None or last.hash is None:
        return AuditHead(tenant, 0, "", None)
    return AuditHead(tenant, last.place, last.hash.hex(), last.at.astimezone(UTC))


def _canonical(columns: Sequence[str | None]) -> bytes:
    """Texts as bytes that no other texts have: each with its length, None as a dash."""
    return ",".join("-" if each is None else f"{len(each.encode())}:{each}" for each in columns).encode()


def _checked(rows: Iterator[ChainedRow]) -> Iterator[tuple[ChainedRow, AuditFinding | None]]:
    """Each row of a chain, in its order, and what is wrong with it."""
    place, previous, at = 0, b"", None
    for row in rows:
        if row.place is None or row.hash is None:
            yield (
                row,
                AuditFinding(
                    row.place or 0, "inserted", f"A row of {row.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} has no seal."
                ),
            )
            continue
        finding = None
        if row.place != place + 1:
            gone = f"{row.place - place - 1} rows are missing before row {row.place}, so it can't be checked."
            finding = AuditFinding(place + 1, "missing", gone)
        elif hashlib.sha256(previous + _canonical(row.columns)).digest() != row.hash:
            what = f"Row {row.place} or the one before it was changed or exchanged."
            finding = AuditFinding(row.place, "changed", what)
        elif at is not None and row.at < at - LONGEST:
            finding = AuditFinding(row.place, "dated", f"Row {row.place} is dated over an hour before the one before.")
        yield row, finding
        place, previous, at = row.place, row.hash, row.at
