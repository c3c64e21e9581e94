"""``memforest timeline``: the states of an entity, an attribute or a scene in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from memforest_core.cli.toolkit.opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption, OwnerOption
from memforest_core.cli.toolkit.output import console, no_memory, plain_table, print_json, printable, shortened
from memforest_core.domain.rendering import by_rules

if TYPE_CHECKING:
    from rich.table import Table

    from memforest_core.recall.timeline.states import Timeline, TimelineState

VALUE_CHARS = 60
TEXT_CHARS = 120
TURNS_SHOWN = 3


def timeline(
    owner: OwnerOption,
    entity: Annotated[
        str | None,
        typer.Option("--entity", "-e", help="Whose states; the owner's when not given, \"*\" for everybody's."),
    ] = None,
    attribute: Annotated[
        str | None, typer.Option("--attribute", "-a", help="Which state: residence, job, pet, weight...")
    ] = None,
    scene: Annotated[str | None, typer.Option(help="What is in a scene: its label or id.")] = None,
    as_of: Annotated[str | None, typer.Option(help="Leave out what was said after this time.")] = None,
    since: Annotated[str | None, typer.Option(help="Begin at this time.")] = None,
    until: Annotated[str | None, typer.Option(help="End at this time.")] = None,
    limit: Annotated[int, typer.Option(help="States at once.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on after the page that ended with this.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print states in the order of time: what held, since when, what superseded it, and which turns say so."""
    from memforest_core.recall.timeline.service import open_timeline

    with opened_store(data) as store:
        found = open_timeline(store.engine).timeline(
            store.tenant,
            owner,
            entity=entity,
            attribute=attribute,
            scene=scene,
            as_of=as_of,
            since=since,
            until=until,
            limit=limit,
            cursor=cursor,
        )
    if as_json:
        print_json(found)
        return
    _print(found)


def _print(found: Timeline) -> None:
    out = console()
    if not found.owner_known:
        out.print(no_memory(found.owner))
        return
    if not found.states:
        out.print('No states are known. --entity "*" shows those of everybody.')
        return
    out.print(table_of(found))
    current = sum(state.current for state in found.states)
    note = by_rules(state.source for state in found.states)
    out.print(f"{len(found.states)} states, {current} current. {note}".rstrip(), style="dim")
    if found.truncated:
        out.print(f"More follow: --cursor {found.cursor}", style="yellow")
    if found.oldest_left_out:
        out.print("The oldest facts were left out: there are too many for one timeline.", style="yellow")


def table_of(found: Timeline) -> Table:
    """The states, one a row; their texts come from conversations and are printed without what steers a terminal."""
    from rich.text import Text

    zone = ZoneInfo(found.time_zone)
    titles = ("when", "who", "state", "value", "mark", "said", "turns", "source")
    table = plain_table(*titles, whole=("when", "mark", "said"))
    for state in found.states:
        style = "bold" if state.current else "dim" if state.superseded_by is not None else ""
        table.add_row(
            state.time_label,
            Text(shortened(state.subject, VALUE_CHARS)),
            Text(shortened(state.attribute, VALUE_CHARS)),
            Text(_value(state), style=style),
            mark(state),
            f"{state.mentioned_at.astimezone(zone):%Y-%m-%d}" + (f" ×{state.mentions}" if state.mentions > 1 else ""),
            Text(_turns(state)),
            Text(_source(state)),
        )
    return table


def mark(state: TimelineState) -> str:
    """The mark of a state: current, corrected, superseded, ended, or only planned, heard of, supposed or denied."""
    if state.current:
        return "current"
    if state.corrected_at is not None:
        return "corrected"
    if state.modality != "asserted":
        return state.modality.value
    if state.superseded_by is not None:
        return "superseded"
    if state.change == "stop":
        return "end"
    return "denied" if state.polarity == "negative" else ""


def _value(state: TimelineState) -> str:
    if not state.value:
        return shortened(state.shown, TEXT_CHARS)
    before = f" (before: {state.previous_value})" if state.previous_value else ""
    return shortened(f"{state.shown}{before}", VALUE_CHARS)


def _source(state: TimelineState) -> str:
    return (state.source or "") + (f': "{shortened(state.quote, VALUE_CHARS)}"' if state.quote else "")


def _turns(state: TimelineState) -> str:
    shown = [printable(f"{turn.session_id}/{turn.turn_id}") for turn in state.evidence[:TURNS_SHOWN]]
    rest = len(state.evidence) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
