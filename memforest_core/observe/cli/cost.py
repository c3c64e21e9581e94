"""``memforest cost``: what model calls cost, by session, owner, step, day or model; ``memforest calls``: their log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.operating import Run, sharing
from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import answered, console, plain, plain_table, print_page, printable
from memforest_core.errors import InvalidInput
from memforest_core.observe.cli.status import AMOUNTS, amounts
from memforest_core.observe.records import CallFilter, CostBy

if TYPE_CHECKING:
    from rich.table import Table

    from memforest_core.domain.pages import Page
    from memforest_core.observe.records import Costs, LoggedCall

DAY_CHARS = len("2024-05-06")
_NUMBERS = ("prompt", "cached", "completion", "dollars", "seconds")

OwnerFilter = Annotated[str | None, option("Only this owner's calls.", "--owner", "-o")]
SinceOption = Annotated[str | None, option("From this day or ISO 8601 time; UTC without a zone.", metavar="DATE")]
UntilOption = Annotated[str | None, option("Until the end of this day, or before this time.", metavar="DATE")]


def cost(
    by: Annotated[CostBy, typer.Option("--by", help="What to group by.")] = CostBy.STEP,
    since: SinceOption = None,
    until: UntilOption = None,
    owner: OwnerFilter = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print calls, tokens and dollars, the most expensive first, days in order. Failed calls are included."""
    which = CallFilter(owner, since=moment("--since", since), until=moment("--until", until, end=True))
    with opened_store(data) as store:
        costs = store.inspection.costs(store.tenant, by, which)
    if not answered(json_of(costs, which), as_json=as_json):
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


@sharing("limit", "cursor")
def calls(
    run: Run,
    owner: OwnerFilter = None,
    session: Annotated[str | None, option("Only those of this session of the owner.", "--session", "-s")] = None,
    step: Annotated[str | None, option("Only those of one step, such as extract or answer.")] = None,
    outcome: Annotated[str | None, option("Only calls with this outcome: ok, or an error's code.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
) -> None:
    """List single model calls, the newest first, with tokens, dollars and latency, without any text."""
    with run.store() as store:
        page = store.inspection.calls(
            store.tenant,
            owner,
            session_id=session,
            step=step,
            outcome=outcome,
            since=moment("--since", since),
            until=moment("--until", until, end=True),
            limit=run.limit,
            cursor=run.cursor,
        )
    print_page(page, calls_table(page), owner, as_json=run.as_json)


def calls_table(page: Page[LoggedCall]) -> Table:
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


def moment(option: str, text: str | None, *, end: bool = False) -> datetime | None:
    """The aware instant that an option names; a day means its start, or with ``end`` for the next one's.

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
