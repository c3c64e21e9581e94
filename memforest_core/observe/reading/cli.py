"""``memforest sessions``, ``turns``, ``facts``, ``trees`` and ``node``: what is stored, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

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
from memforest_core.cli.toolkit.operating import Run, sharing
from memforest_core.cli.toolkit.options import Given, OwnerOption, argument, option
from memforest_core.cli.toolkit.output import console, minute, named, plain_table, print_page, printable, shortened
from memforest_core.domain.pages import Page
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.observe.reading.records import StoredFact, StoredNode, StoredSession, StoredTree, TreeNode

TEXT_CHARS = 120

SessionArgument = Annotated[str | None, argument("The session's id; memforest sessions lists them.")]
SessionOption = Annotated[str | None, option("Only what was said in this session.", "--session")]
AttributeOption = Annotated[str | None, option("Only one state, such as job.", "--attribute", "-a")]


def _minute(moment: datetime) -> str:
    return minute(moment.astimezone(UTC))


@contextmanager
def _reading(data: Path | None) -> Iterator[Methods]:
    from memforest_core.observe.reading.service import ReadingService

    with opened_store(data) as store:
        reading = ReadingService(store.engine)
        yield lambda name: partial(getattr(reading, name), store.tenant)


def _show_sessions(page: Page[StoredSession]) -> None:
    table = plain_table(
        "session", "channel", "started (UTC)", "turns", "cells", right=("turns", "cells"), whole=("started (UTC)",)
    )
    for item in page.items:
        channel = "" if item.channel is None else printable(item.channel)
        table.add_row(named(item.id), channel, _minute(item.started_at), str(item.turns), str(item.cells))
    print_page(page, table)


def _show_facts(page: Page[StoredFact]) -> None:
    table = plain_table("fact", "text", "mark", "said in", whole=("fact", "mark"))
    for item in page.items:
        mark = "superseded" if item.superseded_by is not None else "pinned" if item.pinned else ""
        said = ", ".join(
            printable(f"{source.session_id}/{turn}") for source in item.sources for turn in source.turn_ids
        )
        table.add_row(str(item.id), shortened(item.text, TEXT_CHARS), mark, shortened(said, TEXT_CHARS))
    print_page(page, table)


def _show_trees(page: Page[StoredTree]) -> None:
    table = plain_table("kind", "tree", "leaves", "root", "summary", right=("leaves",), whole=("root",))
    for item in page.items:
        summary = shortened(item.summary, TEXT_CHARS)
        name = named(item.title or item.label)
        table.add_row(item.kind.value, name, str(item.leaves), str(item.root_id), summary)
    print_page(page, table)


def _show_node(found: StoredNode) -> None:
    around = {"node": found.node, "parent": found.parent, "before": found.predecessor, "after": found.successor}
    table = plain_table("", "level", "leaves", "from", "id", "text", right=("level", "leaves"), whole=("id", "from"))
    for name, shown in [*around.items(), *(("child", child) for child in found.children.items)]:
        if shown is not None:
            table.add_row(name, *_cells(shown))
    console().print(f"{found.kind.value} {named(found.label)}", style="bold")
    print_page(found.children, table)


def _cells(shown: TreeNode) -> tuple[str, ...]:
    start = "" if shown.start is None else f"{shown.start:%Y-%m-%d}"
    return str(shown.level), str(shown.leaves), start, str(shown.id), shortened(shown.text, TEXT_CHARS)


@sharing("limit", "cursor")
def turns(
    run: Run,
    owner: OwnerOption,
    session: SessionArgument = None,
    last: Annotated[int | None, option("Only this many of the last turns.")] = None,
    before: Annotated[str | None, option("Only those before the turn with this id.")] = None,
) -> None:
    """Print a session's turns in order."""
    if session is None:
        raise InvalidInput(
            f"Name a session: memforest sessions --owner {quote(owner)} lists them.", code="missing_session"
        )
    with _reading(run.data) as methods:
        page = methods("turns")(owner, session, last=last, before=before, limit=run.limit, cursor=run.cursor)
        table = plain_table("turn", "said (UTC)", "speaker", "text", whole=("said (UTC)",))
        for item in page.items:
            text = "(deleted)" if item.erased else shortened(item.content, TEXT_CHARS)
            speaker = printable(item.name or item.role.value)
            table.add_row(printable(item.id), _minute(item.occurred_at), speaker, text)
        print_page(page, table, owner, as_json=run.as_json)


COMMANDS = (
    turns,
    *(
        each.made(_reading)
        for each in (
            Command("sessions", "List an owner's sessions, the newest first.", _show_sessions, (OWNER, LIMIT, CURSOR)),
            Command(
                "facts",
                "List an owner's facts, the newest first, with the turns that say them.",
                _show_facts,
                (
                    OWNER,
                    Given("session_id", SessionOption, None),
                    given_option("about", "Only what is about this name or speaker's id."),
                    Given("attribute", AttributeOption, None),
                    given_option("since", "Only what happened from this time on."),
                    given_option("until", "Only what happened before this time."),
                    given_option("pinned", "Only what is pinned, or is not.", bool | None),
                    given_option("superseded", "Only what was corrected, or was not.", bool | None),
                    LIMIT,
                    CURSOR,
                ),
            ),
            Command(
                "trees",
                "List an owner's trees with their summaries, page by page. To draw one: memforest tree.",
                _show_trees,
                (OWNER, given_option("kind", "Only session, entity or scene trees."), LIMIT, CURSOR),
            ),
            Command(
                "node",
                "Print a node of a tree, the nodes around it, and its children.",
                _show_node,
                (given_argument("node_id", "The node's id.", "ID"), LIMIT, CURSOR),
            ),
        )
    ),
)
