"""Grants of tenants to login roles: for app servers whose credentials must not reach other tenants."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput
from memforest_core.settings import DatabaseSettings
from memforest_core.store.engine import transaction
from memforest_core.store.schema import LIMITED_GROUP, SERVICE_GROUP, opened_owner
from memforest_core.store.tables import TenantRole

_ROLE = sa.text("""
    SELECT rolcanlogin, rolsuper OR rolbypassrls AS unbound, pg_has_role(oid, :service, 'MEMBER') AS serves
      FROM pg_roles WHERE rolname = :role
    """)


def grant(settings: DatabaseSettings, role: str, tenant: TenantId) -> Sequence[TenantId]:
    """Let a login role bind to a tenant; all tenants that it may bind to now. Repeating it changes nothing.

    Connects as the owner of the tables. Raises InvalidInput for a role that is missing or reaches all tenants,
    StoreUnavailable.
    """
    with opened_owner(settings) as engine, transaction(engine) as connection:
        _check(connection, role)
        name = connection.dialect.identifier_preparer.quote(role)
        connection.exec_driver_sql(f"GRANT {LIMITED_GROUP} TO {name}")
        connection.execute(insert(TenantRole).values(role=role, tenant=tenant).on_conflict_do_nothing())
        return _granted(connection, role)


def revoke(settings: DatabaseSettings, role: str, tenant: TenantId) -> Sequence[TenantId]:
    """Take a tenant from a login role; the tenants that are left to it. Its open transactions end as they began.

    Connects as the owner of the tables. Raises StoreUnavailable.
    """
    with opened_owner(settings) as engine, transaction(engine) as connection:
        connection.execute(sa.delete(TenantRole).where(TenantRole.role == role, TenantRole.tenant == tenant))
        return _granted(connection, role)


def _check(connection: sa.Connection, role: str) -> None:
    found = connection.execute(_ROLE, {"role": role, "service": SERVICE_GROUP}).first()
    if found is None or not found.rolcanlogin:
        raise InvalidInput(
            f"There is no login role {role!r:.80}: make it first (CREATE ROLE ... LOGIN PASSWORD ...).",
            code="invalid_role",
        )
    if found.unbound or found.serves:
        raise InvalidInput(
            f"The role {role!r:.80} reaches all tenants, as a superuser or a member of {SERVICE_GROUP}: name a login"
            " role of its own.",
            code="invalid_role",
        )


def _granted(connection: sa.Connection, role: str) -> Sequence[TenantId]:
    found = connection.scalars(sa.select(TenantRole.tenant).where(TenantRole.role == role).order_by(TenantRole.tenant))
    return [TenantId(tenant) for tenant in found]
