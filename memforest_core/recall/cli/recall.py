"""``memforest recall``: a question, and the evidence for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.opening import opened_memory
from memforest_core.cli.options import DataOption, ExcludeSessionOption, JsonOption, MinScoreOption, OwnerOption
from memforest_core.cli.output import console, no_memory, print_json, printable
from memforest_core.recall.cli.evidence import evidence_text

if TYPE_CHECKING:
    from memforest_core.domain.evidence import RecallResult


def recall(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    owner: OwnerOption,
    mode: Annotated[
        str | None,
        typer.Option(
            help="auto, flat, root, embedding, llm or planner; the setting recall.mode when not given.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", "-k", help="Pieces of evidence; the setting recall.k when not given.", show_default=False),
    ] = None,
    neighbours: Annotated[int, typer.Option(help="Pieces before and after each.")] = 0,
    since: Annotated[str | None, typer.Option(help="Only what was said or happened from this time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only what was said or happened up to this time.")] = None,
    as_of: Annotated[str | None, typer.Option(help="Answer from what had been said by this time.")] = None,
    asked_at: Annotated[str | None, typer.Option(help="When the question is asked; now unless given.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="As many pieces as fit.", show_default=False)] = None,
    budget_ms: Annotated[
        float | None, typer.Option(help="How long you can wait; mode auto keeps to it.", show_default=False)
    ] = None,
    min_score: MinScoreOption = None,
    exclude_session: ExcludeSessionOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the evidence for a question: when it was said, by whom, where, and why it was found."""
    with opened_memory(data) as memory:
        result = memory.recall(
            owner,
            question,
            k,
            mode,
            neighbours=neighbours,
            since=since,
            until=until,
            as_of=as_of,
            asked_at=asked_at,
            max_tokens=max_tokens,
            budget_ms=budget_ms,
            min_score=min_score,
            exclude_sessions=exclude_session,
        )
    if as_json:
        print_json(result)
    else:
        _print(owner, result)


def _print(owner: str, result: RecallResult) -> None:
    out = console()
    if not result.owner_known:
        out.print(no_memory(owner))
        return
    if not result.evidence:
        out.print("Nothing is known about that.")
    for number, evidence in enumerate(result.evidence, start=1):
        out.print(evidence_text(evidence, number))
    for sentence in result.degraded:
        out.print(printable(sentence), style="yellow")
    total = result.timings_ms.get("total", 0.0)
    if result.picked:
        out.print(printable(result.picked), style="dim")
    out.print(f"{len(result.evidence)} pieces by {result.mode.value} recall in {total:.0f} ms.", style="dim")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recall")(recall)
