"""``memforest topics``: what an owner's conversations are about, how hot it is, and what was said about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.options import CursorOption, DataOption, JsonOption, LimitOption, OwnerOption
from memforest_core.cli.toolkit.output import answered, console, named, plain_table, print_page, printable, shortened

if TYPE_CHECKING:
    from rich.table import Table

    from memforest_core.assistant.topics.records import Topic
    from memforest_core.assistant.topics.service import TopicService
    from memforest_core.domain.ids import TenantId

TEXT_CHARS = 120

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's id.")]


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(help="What an owner's conversations are about, and how hot each topic is.")
    group.command("list")(list_topics)
    for command in (context, history, stats, tag, merge):
        group.command()(command)
    program.add_typer(group, name="topics", no_args_is_help=True)


@contextmanager
def _topics(data: Path | None) -> Iterator[tuple[TopicService, TenantId]]:
    from memforest_core.assistant.topics.service import TopicService

    with opened_store(data) as store:
        yield TopicService(store.engine, store.client.settings), store.tenant


def list_topics(
    owner: OwnerOption,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List an owner's topics, the one that reaches furthest in time first."""
    with _topics(data) as (topics, tenant):
        page = topics.topics(tenant, owner, limit=limit, cursor=cursor)
    print_page(page, _table(page.items), owner, as_json=as_json)


def context(
    topic: TopicArgument,
    owner: OwnerOption,
    max_tokens: Annotated[
        int | None, typer.Option(help="Of all messages; the setting topics.context_tokens.", show_default=False)
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a topic as messages for a prompt: its summary, then its turns. Warms it."""
    with _topics(data) as (topics, tenant):
        made = topics.topic_context(tenant, owner, topic, max_tokens=max_tokens)
    if answered(made, as_json=as_json):
        return
    table = plain_table("role", "content")
    for message in made.messages:
        table.add_row(message["role"], printable(message["content"]))
    console().print(table)
    console().print(f"{made.tokens} of {made.max_tokens} tokens; {made.left_out} turns left out.", style="dim")


def history(
    topic: TopicArgument,
    owner: OwnerOption,
    include_compressed: Annotated[bool, typer.Option(help="Also the turns of a cold topic.")] = True,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the turns that say a topic's facts, in the order of time. Warms it."""
    with _topics(data) as (topics, tenant):
        page = topics.topic_history(
            tenant, owner, topic, include_compressed=include_compressed, limit=limit, cursor=cursor
        )
    table = plain_table("session", "turn", "said", "speaker", "text", whole=("said",))
    for item in page.items:
        turn = item.turn
        speaker = printable(turn.name or turn.role.value)
        said = f"{turn.occurred_at:%Y-%m-%d %H:%M}"
        table.add_row(named(item.session_id), printable(turn.id), said, speaker, shortened(turn.content, TEXT_CHARS))
    print_page(page, table, as_json=as_json)


def stats(topic: TopicArgument, owner: OwnerOption, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print a topic's counts: turns, dates, accesses, bytes, points."""
    with _topics(data) as (topics, tenant):
        found = topics.topic_stats(tenant, owner, topic)
    if answered(found, as_json=as_json):
        return
    console().print(_table([found.topic]))
    table = plain_table("", "")
    since = "" if found.cold_since is None else f"{found.cold_since:%Y-%m-%d %H:%M}"
    for name, value in {
        "sessions": found.sessions,
        "text bytes": found.text_bytes,
        "stored bytes": found.stored_bytes,
        "compressed turns": found.compressed_turns,
        "points": found.points,
        "cold points": found.points_cold,
        "cold since": since,
    }.items():
        table.add_row(name, str(value))
    console().print(table)


def tag(
    topic: TopicArgument,
    owner: OwnerOption,
    tags: Annotated[list[str] | None, typer.Argument(help="The tags that it has from now on; none: no tags.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a topic tags, instead of those it has."""
    with _topics(data) as (topics, tenant):
        changed = topics.topic_tag(tenant, owner, topic, tags or ())
    if not answered(changed, as_json=as_json):
        console().print(_table([changed]))


def merge(
    topic: TopicArgument,
    other: Annotated[str, typer.Argument(help="The topic that becomes part of it.")],
    owner: OwnerOption,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make one topic of two."""
    with _topics(data) as (topics, tenant):
        changed = topics.topic_merge(tenant, owner, topic, other)
    if not answered(changed, as_json=as_json):
        console().print(_table([changed]))


def _table(found: Sequence[Topic]) -> Table:
    right = ("facts", "turns", "accesses", "priority")
    table = plain_table("topic", "title", "tags", *right, "temperature", "last said", right=right, whole=("topic",))
    for each in found:
        table.add_row(
            str(each.id),
            printable(each.title),
            printable(", ".join(each.tags)),
            str(each.facts),
            str(each.turns),
            str(each.accesses),
            f"{each.priority:.3f}",
            each.temperature.value,
            "" if each.last is None else f"{each.last:%Y-%m-%d}",
        )
    return table
