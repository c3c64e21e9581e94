"""``memforest tenants move``."""

from __future__ import annotations

from typing import Annotated

from memforest_core.cli.toolkit.memory_opening import opened_memory, quiet_logs
from memforest_core.cli.toolkit.options import DataOption, JsonOption, argument, option
from memforest_core.cli.toolkit.output import print_json
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput


def move(
    tenant: Annotated[str, argument("The tenant.")],
    to: Annotated[str, option("The other database, as its owner; its password is in ~/.pgpass.", metavar="URL")] = "",
    forget: Annotated[bool, option("Delete what a finished move has left here: keys, and where it went.")] = False,
    cancel: Annotated[bool, option("Serve it here again: its interrupted move is given up.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move a tenant to another database while both are used, compare the copies, and delete its rows here.

    The tenant is refused here, for as long as the last changes take to copy, and then with the place where it went.
    Connects with MEMFOREST_DATABASE__MIGRATION_URL. After an interruption, run it again: nothing is lost or doubled.
    """
    from memforest_core.lifecycle.move import rows
    from memforest_core.settings import load_settings

    quiet_logs()
    if bool(to) + forget + cancel != 1:
        raise InvalidInput("Give one of --to URL, --cancel and --forget.")
    if forget or cancel:
        (rows.forget if forget else rows.cancel)(load_settings().database, TenantId(tenant))
        copied, refused_s = 0, 0.0
    else:
        with opened_memory(data) as memory:
            copied, refused_s = rows.move(memory.settings.database, to, TenantId(tenant), memory.services.index)
    if as_json:
        print_json({"tenant": tenant, "rows": copied, "refused_s": refused_s})
    elif forget:
        print(f"Nothing of {tenant} is left here but its audit.")
    elif cancel:
        print(f"{tenant} is served here again.")
    else:
        print(f"{tenant} has moved: {copied} rows, compared; it was refused for {refused_s:.1f} s.")
