"""``memforest answer``: a question, a model's answer, and the evidence that it cites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.opening import opened_memory
from memforest_core.cli.options import DataOption, ExcludeSessionOption, JsonOption, MinScoreOption, OwnerOption
from memforest_core.cli.output import Exit, console, no_memory, print_json, printable
from memforest_core.recall.cli.evidence import evidence_text

if TYPE_CHECKING:
    from memforest_core.recall.answering.answer import Answer


def answer(
    question: Annotated[str, typer.Argument(help="What to answer.")],
    owner: OwnerOption,
    mode: Annotated[
        str | None,
        typer.Option(
            help="How evidence is recalled: auto, flat, root, embedding, llm or planner; the setting recall.mode when "
            "not given.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", "-k", help="Pieces of evidence; the setting recall.k when not given.", show_default=False),
    ] = None,
    as_of: Annotated[str | None, typer.Option(help="Answer from what had been said by this time.")] = None,
    asked_at: Annotated[str | None, typer.Option(help="When the question is asked; now unless given.")] = None,
    min_score: MinScoreOption = None,
    exclude_session: ExcludeSessionOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question from memory, with the pieces of evidence that say so.

    Needs a chat model. Ends with 75 when the model was away: the evidence is printed, and the same command can succeed
    later.
    """
    with opened_memory(data) as memory:
        answered = memory.answer(
            owner,
            question,
            k,
            mode,
            as_of=as_of,
            asked_at=asked_at,
            min_score=min_score,
            exclude_sessions=exclude_session,
        )
    if as_json:
        print_json(answered)
    else:
        print_answer(answered)
        if not answered.evidence.owner_known:
            console().print(no_memory(owner))
    if not answered.text:
        raise typer.Exit(Exit.LATER)


def print_answer(answered: Answer) -> None:
    """For people: the answer, the cited evidence (all of it when there is no answer), and what was away."""
    out = console()
    if answered.text:
        out.print(printable(answered.text), style="bold")
    cited = {citation.number for citation in answered.citations}
    for number, evidence in enumerate(answered.evidence.evidence, start=1):
        if number in cited or not answered.text:
            out.print(evidence_text(evidence, number))
    for sentence in answered.degraded:
        out.print(printable(sentence), style="yellow")
    found = len(answered.evidence.evidence)
    calls = "1 call" if answered.calls == 1 else f"{answered.calls} calls"
    by = f" by {printable(answered.model)}" if answered.calls else ""
    out.print(f"{found} pieces found, {len(cited)} cited, {calls}{by}.", style="dim")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("answer")(answer)
