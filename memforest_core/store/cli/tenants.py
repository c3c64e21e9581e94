"""``memforest tenants``: what a tenant may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store, quiet_logs
from memforest_core.cli.toolkit.options import DataOption, JsonOption, argument, option
from memforest_core.cli.toolkit.output import answered, console, pairs_table, printable
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.ingest.accept.records import Quota
    from memforest_core.settings import DatabaseSettings

NONE = "none"

app = typer.Typer(name="tenants", help="Show and change limits and rights of tenants.", no_args_is_help=True)


@app.command()
def limits(
    tenant: Annotated[str | None, argument("The tenant. Default: the setting tenant.")] = None,
    max_waiting_cells: Annotated[str | None, option("Cells that may wait for extraction.", metavar="N|none")] = None,
    max_turns_per_day: Annotated[
        str | None, option("Turns that may be stored within 24 hours.", metavar="N|none")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a tenant's limits and their use. Options change them first; "none" returns to the settings."""
    waiting, turns = (
        _number(max_waiting_cells, "--max-waiting-cells"),
        _number(max_turns_per_day, "--max-turns-per-day"),
    )
    with opened_store(data) as store:
        quota = store.client.quota(tenant)
        own = quota.own
        if max_waiting_cells is not None:
            own = replace(own, max_waiting_cells=waiting)
        if max_turns_per_day is not None:
            own = replace(own, max_turns_per_day=turns)
        if own != quota.own:
            store.client.set_limits(own, tenant)
            quota = store.client.quota(tenant)
        name = tenant or str(store.tenant)
    if not answered({"tenant": name, "quota": quota}, as_json=as_json):
        _print(name, quota)


RoleArgument = Annotated[str, argument("A login role of the database.")]
TenantArgument = Annotated[str, argument("The tenant.")]


@app.command()
def grant(role: RoleArgument, tenant: TenantArgument, as_json: JsonOption = False) -> None:
    """Let a login role of the database reach a tenant. It reaches no tenant that was not granted to it.

    For app servers: with this role in MEMFOREST_DATABASE__URL they can enqueue, recall and forget for these tenants
    only. Workers serve all tenants. Connects with MEMFOREST_DATABASE__MIGRATION_URL.
    """
    from memforest_core.store import access

    _granted(role, access.grant(_database(), role, TenantId(tenant)), as_json)


@app.command()
def revoke(role: RoleArgument, tenant: TenantArgument, as_json: JsonOption = False) -> None:
    """Take a tenant from a login role. Connects with MEMFOREST_DATABASE__MIGRATION_URL."""
    from memforest_core.store import access

    _granted(role, access.revoke(_database(), role, TenantId(tenant)), as_json)


def _database() -> DatabaseSettings:
    from memforest_core.settings import load_settings

    quiet_logs()
    return load_settings().database


def _granted(role: str, tenants: Sequence[TenantId], as_json: bool) -> None:
    if not answered({"role": role, "tenants": tenants}, as_json=as_json):
        console().print(f"{printable(role)} reaches: {', '.join(map(printable, tenants)) or 'no tenant'}.")


def _number(given: str | None, option: str) -> int | None:
    """A limit as it is typed; none is None. Raises InvalidInput."""
    if given is None or given.strip().lower() == NONE:
        return None
    try:
        return int(given)
    except ValueError:
        raise InvalidInput(f"Give {option} a whole number or none, not {given!r:.40}.", code="invalid_limit") from None


def _print(tenant: str, quota: Quota) -> None:
    rows = {"tenant": printable(tenant)}
    for name, used, limit, own in (
        ("waiting cells", quota.waiting_cells, quota.max_waiting_cells, quota.own.max_waiting_cells),
        ("turns in 24 h", quota.turns_in_a_day, quota.max_turns_per_day, quota.own.max_turns_per_day),
    ):
        allowed = "unlimited" if limit is None else f"of {limit}"
        rows[name] = f"{used}, {allowed} ({'by the settings' if own is None else 'its own'})"
    console().print(pairs_table(rows))
