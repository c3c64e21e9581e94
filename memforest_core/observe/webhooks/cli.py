"""``memforest webhooks``: the endpoints to which events are posted, and the deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import answered, console, minute, plain_table, print_page, printable

if TYPE_CHECKING:
    from memforest_core.observe.webhooks.records import NewEndpoint
    from memforest_core.observe.webhooks.service import Webhooks

app = typer.Typer(name="webhooks", help="Send signed events to other programs over HTTP.", no_args_is_help=True)

EndpointArgument = Annotated[str, typer.Argument(help="The endpoint's id, as memforest webhooks list shows it.")]


@app.command()
def create(
    url: Annotated[str, typer.Argument(help="URL that gets the events, such as https://example.com/hook.")],
    event: Annotated[
        list[str] | None,
        option("session.facts_ready, session.ready, operation.finished or work.dead; all unless given."),
    ] = None,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an endpoint and print its secret. It is shown only once."""
    with _webhooks(data) as webhooks:
        _print_secret(webhooks.create(url, event, description=description), as_json=as_json)


@app.command("list")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List endpoints, the newest first."""
    with _webhooks(data) as webhooks:
        found = webhooks.list()
    if answered({"endpoints": found}, as_json=as_json):
        return
    table = plain_table("endpoint", "url", "events", "description", "enabled", "made", whole=("endpoint",))
    for each in found:
        shown = (printable(each.url), ", ".join(each.events), printable(each.description))
        table.add_row(str(each.id), *shown, "yes" if each.enabled else "no", minute(each.created_at))
    console().print(table)


@app.command()
def delete(endpoint: EndpointArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Delete an endpoint with its deliveries."""
    with _webhooks(data) as webhooks:
        webhooks.delete(endpoint)
    if not answered({"deleted": endpoint}, as_json=as_json):
        console().print(f"Endpoint {printable(endpoint)} is deleted.")


@app.command()
def enable(
    endpoint: EndpointArgument,
    off: Annotated[bool, typer.Option("--off", help="Disable it instead.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Enable an endpoint again. An endpoint that answers 410 is disabled."""
    with _webhooks(data) as webhooks:
        found = webhooks.enable(endpoint, not off)
    if not answered(found, as_json=as_json):
        console().print(f"Endpoint {found.id} is {'enabled' if found.enabled else 'disabled'}.")


@app.command()
def rotate(endpoint: EndpointArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Replace an endpoint's secret and print the new one. The old secret also signs for one more day."""
    with _webhooks(data) as webhooks:
        _print_secret(webhooks.rotate(endpoint), as_json=as_json)


@app.command()
def deliveries(
    endpoint: Annotated[str | None, option("Only those of this endpoint.")] = None,
    state: Annotated[str | None, option("Only those that are held, ready, running, done or dead.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Maximum number of items.")] = 100,
    cursor: Annotated[str | None, option("Cursor that the previous page printed.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List deliveries, the newest first."""
    with _webhooks(data) as webhooks:
        page = webhooks.deliveries(endpoint, state=state, limit=limit, cursor=cursor)
    if answered({"deliveries": page.items, "cursor": page.cursor}, as_json=as_json):
        return
    titles = ("delivery", "event", "about", "state", "tries", "made", "next", "error")
    table = plain_table(*titles, right=("tries",), whole=("delivery",))
    for each in page.items:
        about = " ".join(f"{name}={value}" for name, value in each.data.items())
        error = "" if each.error_code is None else f"{each.error_text} [{each.error_code}]"
        moments = (minute(each.created_at), minute(each.next_at))
        row = (str(each.id), each.event, printable(about), each.state, str(each.attempts), *moments, printable(error))
        table.add_row(*row)
    print_page(page, table)


@app.command()
def replay(
    delivery: Annotated[str, typer.Argument(help="The delivery's id, as memforest webhooks deliveries shows it.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver an event again, with the same webhook-id."""
    with _webhooks(data) as webhooks:
        found = webhooks.replay(delivery)
    if not answered(found, as_json=as_json):
        console().print(f"Delivery {found.id} is {found.state}.")


def _print_secret(made: NewEndpoint, *, as_json: bool) -> None:
    if answered(made, as_json=as_json):
        return
    out = console()
    out.print(f"Endpoint {made.endpoint.id}. Its secret, shown this once:\n")
    out.print(made.secret, soft_wrap=True)


@contextmanager
def _webhooks(data: Path | None) -> Iterator[Webhooks]:
    with opened_store(data) as store:
        yield store.client.webhooks
