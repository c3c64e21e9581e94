"""``memforest keys``: which programs reach a tenant over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import answered, console, minute, plain_table, printable
from memforest_core.domain.ids import TenantId
from memforest_core.domain.routes import Scope
from memforest_core.domain.turns import checked_name

if TYPE_CHECKING:
    from memforest_core.service.keys.service import Keys

app = typer.Typer(name="keys", help="Make, list and revoke keys for programs that use HTTP.", no_args_is_help=True)

TenantOption = Annotated[str | None, option("Tenant of the key. Default: the setting tenant.", "--tenant")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the key, shown in the audit.")],
    scope: Annotated[
        Scope, typer.Option(help="What the key may do. Each scope includes the ones before it.")
    ] = Scope.WRITE,
    owners: Annotated[str | None, option("Only owners that match this pattern, such as 'user-*'.")] = None,
    requests_per_minute: Annotated[int | None, option("Limit of this key. Default: the server's limit.", min=1)] = None,
    expires: Annotated[str | None, option("When the key expires, such as 2027-01-31 (ISO 8601, UTC).")] = None,
    tenant: TenantOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key and print its secret. It is shown only once."""
    with _keys(data, tenant) as (keys, own):
        made = keys.create(
            own, name, scope=scope, owners=owners, requests_per_minute=requests_per_minute, expires=expires
        )
    if answered(made, as_json=as_json):
        return
    out = console()
    out.print(f"Key {made.key.id} of tenant {printable(own)}, scope {made.key.scope}. Its secret, shown this once:\n")
    out.print(made.secret, soft_wrap=True)


@app.command("list")
def list_(tenant: TenantOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List a tenant's keys, the newest first."""
    with _keys(data, tenant) as (keys, own):
        found = keys.list(own)
    if answered({"tenant": own, "keys": found}, as_json=as_json):
        return
    titles = ("key", "name", "scope", "owners", "a minute", "made", "last used", "expires", "revoked")
    table = plain_table(*titles, whole=("key",))
    for key in found:
        table.add_row(
            str(key.id),
            printable(key.name),
            key.scope,
            printable(key.owners or "all"),
            "" if key.requests_per_minute is None else str(key.requests_per_minute),
            *map(minute, (key.created_at, key.last_used_at, key.expires_at, key.revoked_at)),
        )
    console().print(table)


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="The key's id, as memforest keys list shows it.")],
    tenant: TenantOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key for good; servers refuse it within 2 seconds."""
    with _keys(data, tenant) as (keys, own):
        revoked = keys.revoke(own, key)
    if not answered(revoked, as_json=as_json):
        console().print(f"Key {revoked.id} ({printable(revoked.name)}) is revoked.")


@contextmanager
def _keys(data: Path | None, tenant: str | None) -> Iterator[tuple[Keys, TenantId]]:
    from memforest_core.service.keys.service import Keys
    from memforest_core.settings import load_settings

    label = load_settings().server.key_label
    with opened_store(data) as store:
        yield Keys(store.engine, label), store.tenant if tenant is None else TenantId(checked_name(tenant, "tenant"))
