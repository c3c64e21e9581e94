"""``memforest config``: every setting with its value, default, variable and meaning; secrets masked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from memforest_core.cli.toolkit.options import JsonOption
from memforest_core.cli.toolkit.output import answered, console, printable

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.table import Table

MASK = "***"
_WEB = ("http", "https")
_QUERY_VALUE = re.compile(r"(?<==)[^&]*")
_HARMLESS_QUERY = re.compile(r"^(?:(?:host|port|sslmode)=[^&]*&?)*$")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as it is in force; ``value`` and ``default`` are ready for JSON, secrets masked."""

    name: str
    variable: str
    value: object
    default: object
    changed: bool
    description: str
    group: str
    """What its group is about."""


def masked(secret: str) -> str:
    """A secret as it may be shown: of an address all but the password, of anything else nothing."""
    if "://" not in secret:
        return MASK if secret else ""
    parts = urlsplit(secret)
    account, at, host = parts.netloc.rpartition("@")
    user, colon, _password = account.partition(":")
    if colon:
        account = f"{user}:{MASK}"
    elif account and parts.scheme in _WEB:
        account = MASK  # services on the web take a token in the user's place
    netloc = f"{account}{at}{host}"
    query = parts.query if _HARMLESS_QUERY.match(parts.query) else _QUERY_VALUE.sub(MASK, parts.query)
    return f"{parts.scheme}://{netloc}{parts.path}" + (f"?{query}" if query else "")


def sentence(doc: str | None) -> str:
    """A docstring as one line without markup."""
    return " ".join((doc or "").replace("``", "").split())


def shown(value: object) -> object:
    """A setting's value ready for JSON."""
    from pydantic import SecretStr

    if isinstance(value, SecretStr):
        return masked(value.get_secret_value())
    if isinstance(value, str) and "://" in value:
        return masked(value)
    if isinstance(value, Mapping):
        return dict.fromkeys(value, MASK)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def walk(settings: BaseModel, prefix: str = "", default: BaseModel | None = None) -> Iterator[Setting]:
    """All settings under a group, in the order they are declared."""
    from pydantic import BaseModel

    group = sentence(type(settings).__doc__)
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        usual: Any = field.get_default() if default is None else getattr(default, name)
        path = f"{prefix}{name}"
        if isinstance(value, BaseModel):
            yield from walk(value, f"{path}.", usual)
            continue
        yield Setting(
            name=path,
            variable="MEMFOREST_" + path.upper().replace(".", "__"),
            value=shown(value),
            default=shown(usual),
            changed=value != usual,
            description=sentence(field.description),
            group=group,
        )


def config(
    name: Annotated[str, typer.Option("--name", help="Show packaged settings by name: offline, chat, ...")] = "default",
    as_json: JsonOption = False,
) -> None:
    """Print every setting (value, default, environment variable, meaning) and the number of Postgres connections
    they allow."""
    from memforest_core.settings import load_default_config, settings_place
    from memforest_core.store.connections import connection_plan

    loaded, place = load_default_config(name), settings_place(os.environ)
    settings, plan = list(walk(loaded)), connection_plan(loaded)
    connections = asdict(plan) | {"total": plan.total}
    if answered({"settings": settings, "connections": connections, "file": place}, as_json=as_json):
        return
    if place is not None:
        console().print(f"Settings file: {printable(place)}; variables go before it.")
    _print(settings)
    console().print(
        f"Postgres connections: ({plan.worker_processes} workers + {plan.client_processes} clients) x"
        f" {plan.per_process} + {plan.reserved} reserved = {plan.total} at most."
    )


def _print(settings: list[Setting]) -> None:
    out = console()
    groups: dict[str, list[Setting]] = {}
    for setting in settings:
        groups.setdefault(setting.name.rpartition(".")[0], []).append(setting)
    for name, members in groups.items():
        out.print(f"{name or 'memforest'}: {members[0].group}", style="bold")
        out.print(_table(members))
        out.print()
    changed = sum(setting.changed for setting in settings)
    out.print(f"{len(settings)} settings, {changed} changed from their default (*).")


def _table(settings: list[Setting]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    table.add_column(width=1)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=60)
    table.add_column(overflow="fold", style="dim")
    for setting in settings:
        value = "unset" if setting.value is None else str(setting.value)
        notes = [setting.description] if setting.description else []
        if setting.changed:
            notes.append(f"(default: {'unset' if setting.default is None else setting.default})")
        table.add_row(
            "*" if setting.changed else "",
            setting.variable,
            Text(value, style="bold" if setting.changed else ""),
            " ".join(notes),
        )
    return table
