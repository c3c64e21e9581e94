"""``memforest index``: the state of the vector index, and rebuilding it from the database."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import Exit, answered, console, pairs_table, plain, printable
from memforest_core.work.jobs import WorkState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memforest_core.domain.ids import TenantId
    from memforest_core.index.rebuild import IndexState, IndexUpkeep
    from memforest_core.work.records import OperationTask, TaskId

POLL_S = 0.5
_SHOWN = ("id", "kind", "subject", "state", "progress", "created_at", "finished_at", "error_code", "error_text")

app = typer.Typer(name="index", help="Show or rebuild the vector index.", no_args_is_help=True)


@app.command()
def status(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print the live collection, its points, rows that are not indexed yet, and the newest rebuilds."""
    from memforest_core.errors import NotFound

    with _opened(data) as (upkeep, tenant):
        state = upkeep.state(tenant)
    if state is None:
        raise NotFound("There is no live collection yet: start a worker.")
    if not answered(plain(state) | {"tasks": [_plain(task) for task in state.tasks]}, as_json=as_json):
        _print_state(state)


@app.command()
def rebuild(
    owner: Annotated[str | None, option("Only this owner's points.", "--owner", "-o")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until everything is written.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 3600.0,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rebuild all points while recall goes on. Calls no chat model: vectors are stored in the database.

    Cells without token vectors (of an older version, or from a bundle) get them from the built-in embedding model.

    A missing collection is created. Workers do the work. A running rebuild is not started again.
    """
    # An embedded node works only as long as this command runs.
    wait = wait or data is not None
    with _opened(data) as (upkeep, tenant):
        requested = upkeep.rebuild() if owner is None else upkeep.rebuild_owner(tenant, owner)
        if wait:
            _wait(upkeep, requested, timeout)
        found, behind = upkeep.progress(requested)
    done = not behind and all(task.finished for task in found)
    tasks = [_plain(task) | {"tenant": str(key)} for key, task in zip(requested, found, strict=False)]
    if not answered({"waited": wait, "done": done, "behind": behind, "tasks": tasks}, as_json=as_json):
        _print_rebuild(found, behind, waited=wait)
    if any(task.state == WorkState.DEAD for task in found):
        raise typer.Exit(Exit.FAILED)
    if wait and not done:
        raise typer.Exit(Exit.LATER)


@contextmanager
def _opened(data: Path | None) -> Iterator[tuple[IndexUpkeep, TenantId]]:
    from memforest_core.index.index_opening import open_maintenance

    with opened_memory(data) as memory:
        services = memory.services
        made = open_maintenance(services.engine, services.index, services.producer.wakeups, services.settings)
        yield made.upkeep, memory.client.tenant


def _wait(upkeep: IndexUpkeep, requested: Mapping[TenantId, TaskId], timeout_s: float) -> None:
    """Until everything is done, a rebuild is dead, or the time is over."""
    from memforest_core.work.waiting import polled, waited

    with console(stderr=True).status("rebuilding") as shown:

        def over() -> bool | None:
            found, behind = upkeep.progress(requested)
            marked = sum(int(task.progress.get("marked", 0)) for task in found)
            shown.update(f"rebuilding: {marked} rows marked, {behind} to write")
            dead = any(task.state == WorkState.DEAD for task in found)
            return dead or (not behind and all(task.finished for task in found)) or None

        waited(polled(over, timeout_s, POLL_S, nudge=lambda: upkeep.wake(list(requested))))


def _plain(task: OperationTask) -> dict[str, object]:
    """A task without what only its handler reads."""
    return {name: value for name, value in plain(task).items() if name in _SHOWN}


def _print_state(state: IndexState) -> None:
    agreement = {None: "not compared", True: "the same in both stores", False: "differs: the stores are to be compared"}
    rows = {
        "collection": state.collection,
        "model": f"{printable(state.model)}, {state.dimension} dimensions",
        "points": "the index is unavailable" if state.points is None else str(state.points),
        "behind": ", ".join(f"{count} {kind}s" for kind, count in sorted(state.behind.items())) or "none",
        "mark": f"{state.mark or 'none yet'} ({agreement[state.agrees]})",
    }
    console().print(pairs_table(rows))
    for task in state.tasks:
        _print_task(task)


def _print_task(task: OperationTask) -> None:
    steps = ", ".join(
        f"{name} {task.progress[name]}"
        for name in ("phase", "marked", "points", "deleted", "overtaken", "rows", "missing")
        if name in task.progress
    )
    trouble = f"  {printable(task.error_text or '')} [{task.error_code}]" if task.error_code else ""
    style = {WorkState.DEAD: "red", WorkState.READY: "yellow", WorkState.RUNNING: "yellow"}.get(task.state, "")
    console().print(f"  {task.created_at:%Y-%m-%d %H:%M:%S}  {task.kind}  {task.state}  {steps}{trouble}", style=style)


def _print_rebuild(found: list[OperationTask], behind: int, *, waited: bool) -> None:
    out = console()
    for task in found:
        _print_task(task)
    if not found:
        out.print("There is no tenant yet: nothing to rebuild.")
    elif waited:
        out.print(f"{behind} rows are still to be written.")
    else:
        out.print("Workers do it; see how far with memforest index status.")
