"""``memforest dead``: work that was given up, why, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memforest_core.cli.toolkit.opening import opened_store
from memforest_core.cli.toolkit.operating import YesOption, confirm
from memforest_core.cli.toolkit.options import DataOption, JsonOption
from memforest_core.cli.toolkit.output import console, pairs_table, plain_table, print_json, printable
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memforest_core.work.records import Acted, DeadDetail, DeadKind, DeadLetter

Kind = Literal["cell", "node", "task"]

OwnerFilter = Annotated[str | None, typer.Option("--owner", "-o", help="Only this owner's.", show_default=False)]
KindFilter = Annotated[
    Kind | None, typer.Option("--kind", help="Only cells, tree nodes or maintenance tasks.", show_default=False)
]
CodeFilter = Annotated[str | None, typer.Option("--code", help="Only what this error ended.", show_default=False)]
Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="Ids, or the first 8 or more characters of them.", show_default=False),
]

app = typer.Typer(help="Look after work that was given up: nothing of it is lost.", no_args_is_help=True)


@app.command("list")
def list_(
    owner: OwnerFilter = None,
    kind: KindFilter = None,
    code: CodeFilter = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 1_000,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was given up: where, which error, how many attempts, since when. Never what was said."""
    with opened_store(data) as store:
        found = store.client.dead.list(owner, code=code, kinds=_kinds(kind), limit=limit + 1)
    letters = found[:limit]
    if as_json:
        print_json({"dead": letters, "more": len(found) > limit})
    else:
        _print_letters(letters, more=len(found) > limit)


@app.command()
def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the first 8 or more characters of it.")],
    text: Annotated[bool, typer.Option("--text", help="Also what was said.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print everything about one; what was said only with --text."""
    with opened_store(data) as store:
        found = store.client.dead.show(id_, text=text)
    if as_json:
        shown: dict[str, object] = {"dead": found.letter, "about": found.about}
        print_json(shown if found.texts is None else shown | {"texts": found.texts})
    else:
        _print_detail(found)


@app.command()
def retry(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Ids, or the first 8 or more characters of them.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that --owner, --kind and --code leave.")] = False,
    owner: OwnerFilter = None,
    kind: KindFilter = None,
    code: CodeFilter = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try again, as if it had never been tried: after a fix, a new key or another model."""
    if bool(ids) == everything:
        raise InvalidInput("Name what to retry by its ids, or give --all.", code="nothing_named")
    if ids and (owner or kind or code):
        raise InvalidInput("--owner, --kind and --code go with --all.", code="nothing_named")
    with opened_store(data) as store:
        dead = store.client.dead
        acted = dead.retry(*ids) if ids else dead.retry_all(owner, code=code, kinds=_kinds(kind))
    _print_acted("tried again", acted, named=len(set(ids or ())), as_json=as_json)


@app.command()
def discard(ids: Ids, yes: YesOption = False, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Go on without it: a cell's turns stay recallable without facts of their own, a node's summary stays."""
    count = len(set(ids))
    question = f"Go on without {count} given-up piece{'s' if count > 1 else ''} of work?"
    confirm(question, yes=yes, as_json=as_json)
    with opened_store(data) as store:
        acted = store.client.dead.discard(*ids)
    _print_acted("discarded", acted, named=count, as_json=as_json)


def _kinds(kind: Kind | None) -> tuple[DeadKind, ...]:
    from memforest_core.work.records import DeadKind

    return () if kind is None else (DeadKind(kind),)


def _print_letters(letters: Sequence[DeadLetter], *, more: bool) -> None:
    out = console()
    if not letters:
        out.print("Nothing is dead.")
        return
    titles = ("kind", "id", "step", "owner", "session", "tries", "lost", "since", "error")
    table = plain_table(*titles, right=("tries", "lost"), whole=("id", "since"))
    for letter in letters:
        table.add_row(
            letter.kind.value,
            str(letter.id),
            letter.step,
            printable(letter.owner or ""),
            printable(letter.session or ""),
            str(letter.attempts),
            str(letter.lost_leases),
            f"{letter.since:%Y-%m-%d %H:%M:%S}" if letter.since else "",
            f"{printable(letter.text)} [{printable(letter.code)}]",
        )
    out.print(table)
    out.print(f"{len(letters)} dead{', and more: raise --limit' if more else ''}.", style="dim")


def _print_detail(found: DeadDetail) -> None:
    letter = found.letter
    rows: dict[str, object] = {
        letter.kind.value: letter.id,
        "step": letter.step,
        "owner": letter.owner or "",
        "session": letter.session or "",
        "error": f"{letter.text} [{letter.code}]",
        "attempts": letter.attempts,
        "lost leases": letter.lost_leases,
        "since": f"{letter.since:%Y-%m-%d %H:%M:%S} UTC" if letter.since else "",
    }
    rows |= {name.replace("_", " "): value for name, value in found.about.items()}
    out = console()
    out.print(pairs_table({name: printable(str(value)) for name, value in rows.items()}))
    for text in found.texts or ():
        for line in text.splitlines():
            out.print(f"  {printable(line)}")


def _print_acted(verb: str, acted: Acted, *, named: int, as_json: bool) -> None:
    unchanged = max(0, named - len(acted.changed))
    if as_json:
        print_json({"changed": acted.changed, "unchanged": unchanged})
        return
    left = f", {unchanged} left as they are (no longer dead, or under way)" if unchanged else ""
    console().print(f"{len(acted.changed)} {verb}{left}.")


def register(program: typer.Typer) -> None:
    """Add the group of commands."""
    program.add_typer(app, name="dead")
