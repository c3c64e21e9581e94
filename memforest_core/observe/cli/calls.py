"""``memforest calls``: the log of model calls, one a line: when, for what, tokens, dollars, seconds, how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption
from memforest_core.cli.toolkit.output import console, no_memory, plain_table, print_json, printable
from memforest_core.observe.cli.cost import moment

if TYPE_CHECKING:
    from rich.table import Table

    from memforest_core.domain.pages import Page
    from memforest_core.observe.records import LoggedCall

_NUMBERS = ("prompt", "cached", "completion", "dollars", "seconds")


def calls(
    owner: Annotated[
        str | None, typer.Option("--owner", "-o", help="Only this owner's calls.", show_default=False)
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Only those of this session of the owner.", show_default=False)
    ] = None,
    step: Annotated[
        str | None, typer.Option(help="Only those of one step, such as extract or answer.", show_default=False)
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Only those that ended so: ok, or an error's code.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="From this day or ISO 8601 time on; UTC without a zone.", show_default=False),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="To the end of this day, or until before this time.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(help="Calls of one page, 1 to 1,000.")] = 100,
    cursor: Annotated[
        str | None, typer.Option(help="Go on after the page that ended with this.", show_default=False)
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List single model calls, the newest first, with tokens, dollars and latency; never with words."""
    with opened_store(data) as store:
        page = store.inspection.calls(
            store.tenant,
            owner,
            session_id=session,
            step=step,
            outcome=outcome,
            since=moment("--since", since),
            until=moment("--until", until, end=True),
            limit=limit,
            cursor=cursor,
        )
    if as_json:
        print_json(page)
        return
    if owner is not None and not page.owner_known:
        console().print(no_memory(owner))
        return
    console().print(table_of(page))
    if page.cursor is not None:
        console().print(f"More follow: --cursor {page.cursor}", style="yellow")


def table_of(page: Page[LoggedCall]) -> Table:
    """The table that people read; times are UTC."""
    table = plain_table(
        "at", "step", "model", "owner", "session", *_NUMBERS, "outcome", right=_NUMBERS, whole=("at", "step")
    )
    for call in page.items:
        table.add_row(
            f"{call.at:%Y-%m-%d %H:%M:%S}",
            call.step,
            printable(call.model),
            printable(call.owner),
            printable(call.session_id),
            f"{call.prompt_tokens:,}",
            f"{call.cached_tokens:,}",
            f"{call.completion_tokens:,}",
            f"{call.cost_usd:.4f}",
            f"{call.latency_ms / 1_000:.2f}",
            printable(call.outcome),
        )
    return table
