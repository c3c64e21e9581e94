"""``memforest doctor``: what a deployment needs, each part tried, with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import quiet_logs
from memforest_core.cli.toolkit.options import JsonOption, option
from memforest_core.cli.toolkit.output import Exit, answered, console, printable
from memforest_core.errors import InvalidSettings

if TYPE_CHECKING:
    from memforest_core.client.services.checkup import Check

STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    call: Annotated[
        bool, typer.Option("--call", help="Also send each chat model one small request, which may cost money.")
    ] = False,
    data: Annotated[Path | None, option("Check the node that runs in this directory.", "--data", metavar="DIR")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check settings, Postgres, schema, clock, workers, connections, broker, embedding, index, chat models and disk.

    One line for each part: ok, warn or fail, and what to do. Exit code 1 if a check failed.
    """
    checks = _checks(call, data)
    failed = any(check.state == "fail" for check in checks)
    if not answered({"ok": not failed, "checks": checks}, as_json=as_json):
        out = console()
        for check in checks:
            code = f" [{check.code}]" if check.code else ""
            out.print(
                f"{check.state.value:<5} {check.name}: {printable(check.says)}{code}", style=STYLES[check.state.value]
            )
    if failed:
        raise typer.Exit(Exit.FAILED)


def _checks(call: bool, data: Path | None) -> list[Check]:
    from memforest_core.client.services.checkup import Check, State, checkup, stopped_index
    from memforest_core.settings import load_settings

    quiet_logs()
    try:
        if data is None:
            return list(checkup(load_settings(), call=call))
        from memforest_core.client.embedded.directory import running_node

        published = running_node(data)
        if published is None:
            idle = f"No node runs in {data}: start one with memforest up --data {data}."
            return [Check("settings", State.FAIL, idle, InvalidSettings.code), *stopped_index(data)]
        return list(checkup(load_settings(**published), call=call, place=data))
    except InvalidSettings as error:
        return [Check("settings", State.FAIL, error.message, error.code)]
