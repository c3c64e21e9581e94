"""Verification over a connection pool and an index: no models, no broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from memforest_core.domain.ids import TenantId
from memforest_core.index.rows import IndexStore
from memforest_core.index.vector_index import VectorIndex
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.verify.report import Report
from memforest_core.verify.rows.verifying import VerifyStore
from memforest_core.verify.service import VerificationService


class VerifiedServices(Protocol):
    """What of a process's services verification needs."""

    @property
    def settings(self) -> Settings:
        """The configuration."""
        ...

    @property
    def engine(self) -> Engine:
        """The connection pool."""
        ...

    @property
    def index(self) -> VectorIndex:
        """The prepared index, or one that is away."""
        ...


@dataclass(frozen=True, slots=True)
class Verification:
    """Verification bound to the tenant of the settings."""

    service: VerificationService
    tenant: TenantId

    def run(self, tenant: TenantId | None = None, owner: str | None = None, repair: bool = False) -> Report:
        """Check a tenant (that of the settings if none is named), or one owner. Raises NotFound, StoreUnavailable."""
        return self.service.run(tenant or self.tenant, owner, repair=repair)

    def run_all(self, repair: bool = False) -> Report:
        """Check all tenants. Raises StoreUnavailable."""
        return self.service.run_all(repair=repair)


def open_verification(services: VerifiedServices) -> Verification:
    """Wire verification; what is open stays the caller's to close."""
    service = VerificationService(
        VerifyStore(services.engine),
        IndexStore(services.engine),
        services.index,
        services.settings.refresh.budget_chars,
    )
    return Verification(service, TenantId(services.settings.tenant))
