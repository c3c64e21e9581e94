"""``memforest sessions``, ``turns``, ``facts``, ``trees`` and ``node``: what is stored, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.options import (
    CursorOption,
    DataOption,
    JsonOption,
    LimitOption,
    OwnerOption,
    argument,
    option,
)
from memforest_core.cli.toolkit.output import (
    console,
    minute,
    named,
    plain_table,
    print_json,
    print_page,
    printable,
    shortened,
)
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.domain.ids import TenantId
    from memforest_core.observe.reading.records import TreeNode
    from memforest_core.observe.reading.service import ReadingService

TEXT_CHARS = 120

SessionArgument = Annotated[str | None, argument("The session's id; memforest sessions lists them.")]


def _minute(moment: datetime) -> str:
    return minute(moment.astimezone(UTC))


@contextmanager
def _reading(data: Path | None) -> Iterator[tuple[ReadingService, TenantId]]:
    from memforest_core.observe.reading.service import ReadingService

    with opened_store(data) as store:
        yield ReadingService(store.engine), store.tenant


def sessions(
    owner: OwnerOption,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List an owner's sessions, the newest first."""
    with _reading(data) as (reading, tenant):
        page = reading.sessions(tenant, owner, limit=limit, cursor=cursor)
        table = plain_table(
            "session", "channel", "started (UTC)", "turns", "cells", right=("turns", "cells"), whole=("started (UTC)",)
        )
        for item in page.items:
            channel = "" if item.channel is None else printable(item.channel)
            table.add_row(named(item.id), channel, _minute(item.started_at), str(item.turns), str(item.cells))
        print_page(page, table, owner, as_json=as_json)


def turns(
    owner: OwnerOption,
    session: SessionArgument = None,
    last: Annotated[int | None, option("Only this many of the last turns.")] = None,
    before: Annotated[str | None, option("Only those before the turn with this id.")] = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a session's turns in order."""
    if session is None:
        raise InvalidInput(
            f"Name a session: memforest sessions --owner {quote(owner)} lists them.", code="missing_session"
        )
    with _reading(data) as (reading, tenant):
        page = reading.turns(tenant, owner, session, last=last, before=before, limit=limit, cursor=cursor)
        table = plain_table("turn", "said (UTC)", "speaker", "text", whole=("said (UTC)",))
        for item in page.items:
            text = "(deleted)" if item.erased else shortened(item.content, TEXT_CHARS)
            speaker = printable(item.name or item.role.value)
            table.add_row(printable(item.id), _minute(item.occurred_at), speaker, text)
        print_page(page, table, owner, as_json=as_json)


def facts(
    owner: OwnerOption,
    session: Annotated[str | None, option("Only what was said in this session.")] = None,
    about: Annotated[str | None, option("Only what is about this name or speaker's id.")] = None,
    attribute: Annotated[str | None, option("Only one state, such as job.", "--attribute", "-a")] = None,
    since: Annotated[str | None, option("Only what happened from this time on.")] = None,
    until: Annotated[str | None, option("Only what happened before this time.")] = None,
    pinned: Annotated[bool | None, option("Only what is pinned, or is not.")] = None,
    superseded: Annotated[bool | None, option("Only what was corrected, or was not.")] = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List an owner's facts, the newest first, with the turns that say them."""
    with _reading(data) as (reading, tenant):
        page = reading.facts(
            tenant,
            owner,
            session_id=session,
            about=about,
            attribute=attribute,
            since=since,
            until=until,
            pinned=pinned,
            superseded=superseded,
            limit=limit,
            cursor=cursor,
        )
        table = plain_table("fact", "text", "mark", "said in", whole=("fact", "mark"))
        for item in page.items:
            mark = "superseded" if item.superseded_by is not None else "pinned" if item.pinned else ""
            said = ", ".join(
                printable(f"{source.session_id}/{turn}") for source in item.sources for turn in source.turn_ids
            )
            table.add_row(str(item.id), shortened(item.text, TEXT_CHARS), mark, shortened(said, TEXT_CHARS))
        print_page(page, table, owner, as_json=as_json)


def trees(
    owner: OwnerOption,
    kind: Annotated[str | None, option("Only session, entity or scene trees.")] = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List an owner's trees with their summaries, page by page. To draw one: memforest tree."""
    with _reading(data) as (reading, tenant):
        page = reading.trees(tenant, owner, kind=kind, limit=limit, cursor=cursor)
        table = plain_table("kind", "tree", "leaves", "root", "summary", right=("leaves",), whole=("root",))
        for item in page.items:
            summary = shortened(item.summary, TEXT_CHARS)
            name = named(item.title or item.label)
            table.add_row(item.kind.value, name, str(item.leaves), str(item.root_id), summary)
        print_page(page, table, owner, as_json=as_json)


def node(
    node_id: Annotated[str, typer.Argument(metavar="ID", help="The node's id.")],
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a node of a tree, the nodes around it, and its children."""
    with _reading(data) as (reading, tenant):
        found = reading.node(tenant, node_id, limit=limit, cursor=cursor)
        if as_json:
            print_json(found)
            return
        around = {"node": found.node, "parent": found.parent, "before": found.predecessor, "after": found.successor}
        table = plain_table(
            "", "level", "leaves", "from", "id", "text", right=("level", "leaves"), whole=("id", "from")
        )
        for name, shown in [*around.items(), *(("child", child) for child in found.children.items)]:
            if shown is not None:
                table.add_row(name, *_cells(shown))
        console().print(f"{found.kind.value} {named(found.label)}", style="bold")
        print_page(found.children, table)


def _cells(shown: TreeNode) -> tuple[str, ...]:
    start = "" if shown.start is None else f"{shown.start:%Y-%m-%d}"
    return str(shown.level), str(shown.leaves), start, str(shown.id), shortened(shown.text, TEXT_CHARS)
