"""Commands of an owner's topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.method_commands import (
    CURSOR,
    LIMIT,
    OWNER,
    Command,
    Methods,
    given_argument,
    given_option,
)
from memforest_core.cli.toolkit.output import console, minute, named, plain_table, print_page, printable, shortened
from memforest_core.domain.pages import Page

if TYPE_CHECKING:
    from rich.table import Table

    from memforest_core.assistant.topics.records import Topic, TopicContext, TopicStats, TopicTurn

TEXT_CHARS = 120


@contextmanager
def _topics(data: Path | None) -> Iterator[Methods]:
    from memforest_core.assistant.topics.service import TopicService

    with opened_store(data) as store:
        topics = TopicService(store.engine, store.client.settings)
        yield lambda name: partial(getattr(topics, {"topic_list": "topics"}.get(name, name)), store.tenant)


def _topics_table(found: Sequence[Topic]) -> Table:
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


def _show_topics(page: Page[Topic]) -> None:
    print_page(page, _topics_table(page.items))


def _show_topic(topic: Topic) -> None:
    console().print(_topics_table([topic]))


def _show_messages(made: TopicContext) -> None:
    table = plain_table("role", "content")
    for message in made.messages:
        table.add_row(message["role"], printable(message["content"]))
    console().print(table)
    console().print(f"{made.tokens} of {made.max_tokens} tokens; {made.left_out} turns left out.", style="dim")


def _show_history(page: Page[TopicTurn]) -> None:
    table = plain_table("session", "turn", "said", "speaker", "text", whole=("said",))
    for item in page.items:
        turn = item.turn
        speaker, text = printable(turn.name or turn.role.value), shortened(turn.content, TEXT_CHARS)
        table.add_row(named(item.session_id), printable(turn.id), minute(turn.occurred_at), speaker, text)
    print_page(page, table)


def _show_stats(found: TopicStats) -> None:
    _show_topic(found.topic)
    table = plain_table("", "")
    for name, value in {
        "sessions": found.sessions,
        "importance": f"{found.topic.importance:.3f}",
        "half-life": f"{found.half_life_s / 86_400:g} days",
        "memory": found.memory.value,
        "summary": "yes" if found.has_summary else "no",
        "inactive": f"{found.inactive_s / 86_400:.1f} days",
        "active turns": found.active_turns,
        "compressed turns": found.compressed_turns,
        "text bytes": found.text_bytes,
        "stored bytes": found.stored_bytes,
        "compression": found.not_compressed or f"{found.compression:.0%}",
        "points": found.points,
        "cold points": found.points_cold,
        "cold since": minute(found.cold_since),
    }.items():
        table.add_row(name, str(value))
    console().print(table)


TOPIC = given_argument("topic", "The topic's id.", "TOPIC")
BOTH = (
    given_argument("a", "The topic's id.", "TOPIC"),
    given_argument("b", "The topic that becomes part of it.", "OTHER"),
)
RATING = given_argument("importance", "0 to 1. Or give a feedback instead.", "[IMPORTANCE]", float | None, None)
USEFUL = given_option("useful", "Whether the topic was useful: moves its importance.", bool | None)
TAGS = given_argument("tags", "The new tags. Without any, all tags are removed.", "[TAGS]...", list[str], [])
TOPIC_TOKENS = given_option(
    "max_tokens", "Maximum tokens of all messages. Default: the setting topics.context_tokens.", int | None
)
COLD = given_option("include_compressed", "Also the turns of a cold topic.", bool, True)
TOPICS = (
    Command("list", "List an owner's topics, the most recent first.", _show_topics, (OWNER, LIMIT, CURSOR)),
    Command(
        "context",
        "Print a topic as messages for a prompt: its summary, then its turns. Counts as a visit of the topic.",
        _show_messages,
        (
            given_argument("topic", "The topic's id; the current topic without one.", "[TOPIC]", str, "current"),
            OWNER,
            TOPIC_TOKENS,
        ),
    ),
    Command(
        "history",
        "Print all turns of a topic, in order of time. Counts as a visit of the topic.",
        _show_history,
        (TOPIC, OWNER, COLD, LIMIT, CURSOR),
    ),
    Command("stats", "Print a topic's counts: turns, dates, accesses, bytes, points.", _show_stats, (TOPIC, OWNER)),
    Command("tag", "Replace a topic's tags.", _show_topic, (TOPIC, OWNER, TAGS)),
    Command("rate", "Set or move how important a topic is.", _show_topic, (TOPIC, RATING, OWNER, USEFUL)),
    Command("merge", "Merge two topics into one.", _show_topic, (*BOTH, OWNER)),
)
"""Commands that only call a method and print what it returns."""


def _commands() -> typer.Typer:
    of_topics = "List and change an owner's topics: what the conversations are about."
    app = typer.Typer(name="topics", help=of_topics, no_args_is_help=True)
    for each in TOPICS:
        app.command(each.name)(each.made(_topics, "topic_"))
    return app


COMMANDS = (_commands(),)
