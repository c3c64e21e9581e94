"""``memforest cost``: what model calls cost, by session, owner, step, day or model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption
from memforest_core.cli.toolkit.output import console, plain, print_json, printable
from memforest_core.errors import InvalidInput
from memforest_core.observe.cli.top import AMOUNTS, amounts
from memforest_core.observe.records import CallFilter, CostBy

if TYPE_CHECKING:
    from rich.table import Table

    from memforest_core.observe.records import Costs

DAY_CHARS = len("2024-05-06")


def cost(
    by: Annotated[CostBy, typer.Option("--by", help="What to sum by.")] = CostBy.STEP,
    since: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="From this day or ISO 8601 time on; UTC without a zone.", show_default=False),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="To the end of this day, or until before this time.", show_default=False),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", "-o", help="Only this owner's calls.", show_default=False)
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print calls, tokens and dollars, the dearest first and days in order; failed calls are counted too."""
    which = CallFilter(owner, since=moment("--since", since), until=moment("--until", until, end=True))
    with opened_store(data) as store:
        costs = store.inspection.costs(store.tenant, by, which)
    if as_json:
        print_json(json_of(costs, which))
    else:
        console().print(table_of(costs))


def json_of(costs: Costs, which: CallFilter) -> dict[str, object]:
    """The object that programs read: each row carries its name under what the sums are by."""
    rows: list[dict[str, object]] = []
    for row in costs.rows:
        named = {"owner": row.owner} if costs.by is CostBy.SESSION else {}
        rows.append({costs.by.value: row.name, **named, **plain(row.spent)})
    return {
        "by": costs.by.value,
        "since": which.since,
        "until": which.until,
        "owner": which.owner,
        "rows": rows,
        "total": costs.total,
    }


def table_of(costs: Costs) -> Table:
    """The table that people read, its sum below."""
    from rich.table import Table

    per_session = costs.by is CostBy.SESSION
    names = (costs.by.value, "owner") if per_session else (costs.by.value,)
    table = Table(box=None, pad_edge=False, header_style="dim", footer_style="bold", show_footer=True)
    for title, foot in zip(names, ("total", ""), strict=False):
        table.add_column(title, foot)
    for title, foot in zip(AMOUNTS, amounts(costs.total), strict=True):
        table.add_column(title, foot, justify="right", no_wrap=True)
    for row in costs.rows:
        owner = (printable(row.owner),) if per_session else ()
        table.add_row(printable(row.name) or "(none)", *owner, *amounts(row.spent))
    return table


def moment(option: str, text: str | None, *, end: bool = False) -> datetime | None:
    """The aware instant that an option names; a day stands for its start, or with ``end`` for the next one's.

    Raises InvalidInput.
    """
    if text is None:
        return None
    try:
        named = datetime.fromisoformat(text)
        aware = named.replace(tzinfo=UTC) if named.tzinfo is None else named
        return aware + timedelta(days=1) if end and len(text) == DAY_CHARS else aware
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"Give {option} as a day such as 2024-05-06 or a time such as 2024-05-06T07:00+02:00.", code="invalid_time"
        ) from None
