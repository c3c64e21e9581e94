"""``memforest tree``: which trees an owner has, and one of them drawn."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption, argument, option
from memforest_core.cli.toolkit.output import answered, console, named, plain_table, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.text import Text
    from rich.tree import Tree

    from memforest_core.domain.ids import NodeId
    from memforest_core.observe.records import DrawnNode, TreeOverview

TEXT_CHARS = 160
INSTANT = timedelta(microseconds=1)


def tree(
    owner: Annotated[str, typer.Argument(help="Whose trees.")],
    wanted: Annotated[
        str | None,
        argument(
            "Which one to draw: its id or label, or the beginning of either; kind:label narrows by kind.",
            metavar="[TREE]",
        ),
    ] = None,
    depth: Annotated[int | None, option("Levels to draw, from the root.", min=1)] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List an owner's trees, or draw one with its intervals, summaries, dirty marks and leaves."""
    with opened_store(data) as store:
        if wanted is None:
            overviews = store.inspection.trees(store.tenant, owner)
            if not answered({"owner": owner, "trees": overviews}, as_json=as_json):
                _print_list(overviews)
            return
        overview, nodes = store.inspection.tree(store.tenant, owner, wanted, depth)
    if not answered({"owner": owner, "tree": overview, "nodes": nodes}, as_json=as_json):
        console().print(drawn(overview, nodes))


def interval(start: datetime | None, end: datetime | None) -> str:
    """The days that leaves span."""
    if start is None:
        return "no date"
    first = f"{start:%Y-%m-%d}"
    # Ends are exclusive: a whole day ends at the next midnight.
    last = f"{max(start, end - INSTANT):%Y-%m-%d}" if end is not None else first
    return first if last == first else f"{first} … {last}"


def _print_list(overviews: Sequence[TreeOverview]) -> None:
    titles = ("kind", "tree", "leaves", "height", "interval", "state", "id")
    table = plain_table(*titles, right=("leaves", "height"), whole=("id", "interval"))
    for overview in overviews:
        table.add_row(
            overview.kind.value,
            named(overview.title or overview.label),
            str(overview.leaves),
            str(overview.height),
            interval(overview.start, overview.end),
            state(overview),
            str(overview.id),
        )
    out = console()
    out.print(table)
    dirty = sum(overview.dirty_nodes > 0 for overview in overviews)
    out.print(f"{len(overviews)} trees, {dirty} dirty.", style="dim")


def state(overview: TreeOverview) -> str:
    """Clean, or how much is to be refreshed and when."""
    if not overview.dirty_nodes:
        return "clean"
    due = ""
    if overview.due_at is not None:
        left_s = (overview.due_at - datetime.now(UTC)).total_seconds()
        due = f", due in {left_s:.0f} s" if left_s > 0 else ", due now"
    return f"{overview.dirty_nodes} dirty{due}"


def drawn(overview: TreeOverview, nodes: Sequence[DrawnNode]) -> Tree:
    """The tree for a terminal; its nodes are in key order, higher levels first."""
    from rich.text import Text
    from rich.tree import Tree

    children: dict[NodeId | None, list[DrawnNode]] = defaultdict(list)
    for node in nodes:
        children[node.parent_id].append(node)
    title = Text(f"{overview.kind.value} ", style="dim")
    title.append(named(overview.title or overview.label), style="bold")
    title.append(
        f"  {overview.leaves} leaves, height {overview.height}, k = {overview.k}, {state(overview)}", style="dim"
    )
    root = Tree(title, guide_style="dim")
    _grow(root, children, None)
    return root


def _grow(branch: Tree, children: Mapping[NodeId | None, Sequence[DrawnNode]], parent: NodeId | None) -> None:
    for node in children.get(parent, ()):
        _grow(branch.add(_line(node)), children, node.id)


def _line(node: DrawnNode) -> Text:
    from rich.text import Text

    text = Text(interval(node.start, node.end), style="cyan")
    if node.level:
        text.append(f"  {node.leaves} leaves", style="dim")
    if node.dirty:
        text.append("  ● dirty", style="yellow")
    if node.text:
        text.append("  ")
        text.append(shortened(node.text, TEXT_CHARS))
        text.append(f"  ({node.source})", style="dim")
    elif node.level:
        text.append("  no summary yet", style="dim")
    return text
