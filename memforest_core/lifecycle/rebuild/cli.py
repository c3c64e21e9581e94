"""``memforest rematerialize``: rebuilds facts, trees and summaries from the sessions, in a hidden forest."""

from __future__ import annotations

from typing import Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_reembedding
from memforest_core.cli.toolkit.operating import Run, sharing
from memforest_core.cli.toolkit.options import option
from memforest_core.cli.toolkit.output import console, counted, plain, print_json, printable
from memforest_core.errors import InvalidInput


@sharing("dry_run", "yes", "no_wait", "timeout", "actor")
def rematerialize(
    run: Run,
    owner: Annotated[str | None, option("Whose memory.", "--owner", "-o")] = None,
    rules: Annotated[
        list[str] | None, option("session_k=4, scene_assign=0.65 and so on; repeatable.", "--set", metavar="RULE=N")
    ] = None,
    extract: Annotated[
        bool, typer.Option("--extract", help="Extract all facts again, with the current prompt and model.")
    ] = False,
    summaries: Annotated[
        bool, typer.Option("--summaries", help="Write all summaries again, with the current prompt and model.")
    ] = False,
    embedding: Annotated[
        bool, typer.Option("--embedding", help="Change the whole database to the embedding model of the settings.")
    ] = False,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Remove the remains of a failed rebuild of --owner.")
    ] = False,
) -> None:
    """Print what a rebuild will cost, build an owner's forest again in the background, and switch to it at the end.

    Without --extract, stored extractions are used and no chat model is called for facts. --embedding is for all owners,
    with the workers stopped: all texts are embedded again into a new collection.
    """
    if embedding and owner is None:
        _reembed(run)
        return
    if embedding or owner is None:
        raise InvalidInput("Give either --owner or --embedding.", code="nothing_named")
    wanted = parsed_rules(rules or [])
    with run.memory() as memory:
        if abandon:
            forests = memory.lifecycle.rematerialize_abandon(owner)
            if not run.answered({"abandoned": forests}):
                console().print(f"{counted(forests, 'hidden forest')} removed.")
            return
        plan = memory.lifecycle.rematerialize_plan(owner, rules=wanted, extract=extract, summaries=summaries)
        if _agreed(run, plan, f"Rebuild the forest of {printable(owner)}?"):
            operation = memory.lifecycle.rematerialize(
                owner, rules=wanted, extract=extract, summaries=summaries, actor=run.requester
            )
            run.follow(operation, "rebuilding")


def _reembed(run: Run) -> None:
    if run.data is not None:
        raise InvalidInput(
            "An embedded node can't change its embedding model: export its forests, and import them with --no-vectors.",
            code="embedded_model",
        )
    with opened_reembedding() as reembedding:
        plan = reembedding.plan()
        if not _agreed(run, plan, f"Embed everything with {printable(plan.model)}?"):
            return
        with console(stderr=True).status("embedding") as shown:
            reembedding.run(lambda what, done: shown.update(f"{what}: {done}"))
    if not run.answered({"embedding": plan}):
        console().print(f"The live collection is {printable(plan.collection)}: start the workers.")


def _agreed(run: Run, plan: object, question: str) -> bool:
    """Print a plan, and ask; False for a dry run. Ends the command when the answer is no."""
    if run.dry_run and run.as_json:
        print_json({"plan": plan})
    elif not run.as_json:
        for name, value in plain(plan).items():
            console().print(f"{name.replace('_', ' ')}: {'unknown' if value is None else printable(str(value))}")
    if run.dry_run:
        return False
    run.confirm(question)
    return True


def parsed_rules(given: list[str]) -> dict[str, float]:
    """Rules as they are typed. Raises InvalidInput."""
    rules: dict[str, float] = {}
    for one in given:
        name, _, value = one.partition("=")
        try:
            rules[name.strip()] = float(value)
        except ValueError:
            raise InvalidInput(
                f"Give --set a rule and a number, such as session_k=4, not {one!r:.60}.", code="invalid_rule"
            ) from None
    return rules
