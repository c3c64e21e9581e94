"""Commands of notes, profiles, intents and forgetting by words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.method_commands import Command, given_argument, given_option
from memforest_core.cli.toolkit.operating import Run, sharing
from memforest_core.cli.toolkit.options import DataOption, JsonOption, OwnerOption, argument, option
from memforest_core.cli.toolkit.output import (
    Exit,
    answered,
    console,
    counted,
    named,
    plain_table,
    print_degraded,
    print_lines,
    printable,
    shortened,
)
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.assistant.profile.records import Forgetting, FoundFact, Intent, Profile, Turns

TEXT_CHARS = 120
ABOUT = "Person it is about, by id or name. Default: the owner."
AboutOption = Annotated[str | None, option(ABOUT)]
AliasOption = Annotated[
    str | None, option("Another name of this person. A text such as 'gruz is Ann' gives one itself.")
]


def _show_forgotten(forgotten: Forgetting) -> None:
    out = console()
    if forgotten.found:
        out.print("Would be forgotten:" if forgotten.dry_run else "Forgotten:")
        _print_facts(forgotten.facts)
    else:
        out.print("Nothing was found that these words mean.")
    if forgotten.others:
        out.print("Near these words, not deleted:", style="dim")
        _print_facts(forgotten.others)
    for title, turns in (("Turns that go", forgotten.turns), ("Turns that say it too and are stored", forgotten.left)):
        if turns:
            shown = ", ".join(printable(f"{turn.session_id}/{turn.turn_id}") for turn in turns)
            out.print(f"{title}: {shown}")
    for task in forgotten.operations:
        out.print(f"Operation {task}: memforest operations shows it.", style="dim")
    if any(not receipt.clean for receipt in forgotten.receipts):
        out.print("References are left: ask for it again.")
    print_degraded(forgotten.degraded)


def _print_facts(facts: Sequence[FoundFact]) -> None:
    table = plain_table("fact", "near", "text", right=("near",), whole=("fact",))
    for fact in facts:
        table.add_row(str(fact.id), f"{fact.similarity:.2f}", shortened(fact.text, TEXT_CHARS))
    console().print(table)


def _show_profile(found: Profile) -> None:
    out = console()
    print_lines(found.text or f"Nothing is known of {printable(found.about)}.")
    print_degraded(found.degraded)
    by = "a list" if found.made.value == "rules" else "stored" if found.cached else "written now"
    more = ", more were left out" if found.truncated else ""
    out.print(f"{counted(len(found.states), 'state')}{more}; {by}.", style="dim")


def _show_intent(found: Intent) -> None:
    console().print(found.kind.value + (f": {printable(found.object)}" if found.object else ""))
    for what, name in (("About", found.about), ("Alias", found.alias)):
        if name is not None:
            console().print(f"{what}: {printable(name)}")
    print_degraded(found.degraded)


TEXT = given_argument("text", "What somebody wrote to an assistant.", "TEXT")


@sharing("timeout")
def remember(
    run: Run,
    text: Annotated[str, typer.Argument(help='The note, such as "I moved to Miami".')],
    owner: OwnerOption,
    about: AboutOption = None,
    alias: AliasOption = None,
    at: Annotated[str | None, option("Time of the note. Default: now.")] = None,
    session: Annotated[str | None, option("Id of the note. Default: a new one.")] = None,
    wait: Annotated[str, typer.Option(help="none, raw, facts or summaries: the stage to wait for.")] = "none",
) -> None:
    """Store a note. Its facts are pinned. A later note about the same thing replaces an earlier one."""
    with run.store(create=True) as store:
        given: dict[str, Any] = {
            "alias": alias,
            "at": at,
            "session_id": session,
            "wait": wait,
            "timeout_s": run.timeout,
        }
        handle = store.client.remember(owner, text, about, **given)
        progress = handle.status()
    degraded = {"degraded": handle.degraded} if handle.degraded else {}
    if not run.answered({"owner": owner, "session": handle.session_id, "progress": progress} | degraded):
        console().print(f"Stored as {named(handle.session_id)}: {progress.stage.value}.")
        print_degraded((handle.degraded,) if handle.degraded else ())


@sharing("dry_run", "yes", "no_wait", "timeout", "actor")
def forget_words(
    run: Run,
    words: Annotated[str, typer.Argument(help='What to forget, such as "where I work".')],
    owner: OwnerOption,
    about: Annotated[str | None, option('Whom "I" means. Default: the owner.')] = None,
    turns: Annotated[
        str, typer.Option(help="Turns that say it: alone (those that say nothing else go), all, or none.")
    ] = "alone",
) -> None:
    """Delete the facts that words name, and say which. It can't be undone: --dry-run shows them first.

    The exit code is 1 if nothing was found or a reference was left. To delete by id, use memforest forget.
    """
    if not run.dry_run:
        run.confirm(f"Delete this from the memory of {printable(owner)} for good?")
    choices: dict[str, Any] = {"about": about, "turns": cast("Turns", turns), "actor": run.requester}
    with run.memory() as memory:
        forgotten = memory.forget(owner, words, run.dry_run, **choices, wait=not run.no_wait, timeout_s=run.timeout)
    if not run.answered(forgotten, owner):
        _show_forgotten(forgotten)
    if not forgotten.found or not all(receipt.clean for receipt in forgotten.receipts):
        raise typer.Exit(Exit.FAILED)


def profile(
    owner: OwnerOption,
    person: Annotated[str | None, argument("The same as --about.")] = None,
    about: Annotated[str | None, option(ABOUT, "--about", "--speaker")] = None,
    write: Annotated[bool, typer.Option(help="If no profile text is stored, let the model write one.")] = True,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a person's profile: what is true of them now."""
    if person is not None and about is not None:
        raise InvalidInput("Name the person once: as an argument or with --about.", code="invalid_about")
    with opened_memory(data) as memory:
        found = memory.profile(owner, person if about is None else about, write=write)
        if not answered(found, owner, as_json=as_json):
            _show_profile(found)


COMMANDS = (
    remember,
    forget_words,
    profile,
    *(
        each.made()
        for each in (
            Command(
                "intent",
                "Print what a text requests from the memory: remember, forget, about, ... or none. Nothing is changed.",
                _show_intent,
                (
                    TEXT,
                    given_option("owner", "Owner whose speakers the text may name."),
                    given_option("speaker", "Speaker who wrote the text."),
                    given_option("addressees", "Name of the assistant that the text has to have.", list[str] | None),
                ),
            ),
        )
    ),
)
