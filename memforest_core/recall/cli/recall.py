"""``memforest recall`` and ``memforest answer``: a question, and the evidence for it or a model's answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.opening import opened_memory
from memforest_core.cli.toolkit.options import DataOption, ExcludeSessionOption, JsonOption, MinScoreOption, OwnerOption
from memforest_core.cli.toolkit.output import Exit, console, no_memory, print_json, printable
from memforest_core.errors import InvalidInput
from memforest_core.recall.cli.evidence import evidence_text

if TYPE_CHECKING:
    from memforest_core.domain.evidence import RecallResult
    from memforest_core.recall.answering.answer import Answer

MAX_VECTOR_BYTES = 2**20
"""A larger file is no vector."""

KOption = Annotated[
    int | None,
    typer.Option("--k", "-k", help="Evidence items; the setting recall.k when not given.", show_default=False),
]
AsOfOption = Annotated[str | None, typer.Option(help="Answer from what had been said by this time.")]
AskedAtOption = Annotated[str | None, typer.Option(help="The timestamp of the question; now unless given.")]


def recall(
    owner: Annotated[
        list[str], typer.Option("--owner", "-o", help="Whose memory; may be given several times, for one recall.")
    ],
    question: Annotated[str | None, typer.Argument(help="What to look for.", show_default=False)] = None,
    vector: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Instead of a question: a vector of the embedding model, as a JSON list.",
            show_default=False,
        ),
    ] = None,
    channel: Annotated[
        list[str] | None,
        typer.Option(
            "--channel", help="Only sessions of this channel; may be given several times.", show_default=False
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source", help="Search this external collection too; may be given several times.", show_default=False
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="auto, flat, embedding, llm or planner; the setting recall.mode when not given.",
            show_default=False,
        ),
    ] = None,
    k: KOption = None,
    neighbours: Annotated[int, typer.Option(help="Items before and after each.")] = 0,
    since: Annotated[str | None, typer.Option(help="Only what was said or happened from this time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only what was said or happened up to this time.")] = None,
    as_of: AsOfOption = None,
    asked_at: AskedAtOption = None,
    max_tokens: Annotated[int | None, typer.Option(help="As many items as fit.", show_default=False)] = None,
    budget_ms: Annotated[
        float | None, typer.Option(help="How long you can wait; mode auto stays within it.", show_default=False)
    ] = None,
    min_score: MinScoreOption = None,
    exclude_session: ExcludeSessionOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the evidence for a question: its time, by whom, where, and why it was found."""
    with opened_memory(data) as memory:
        # It shows why each piece was found.
        result = replace(memory.services.recall, explains=True).recall(
            memory.tenant,
            owner[0],
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
            channels=channel or None,
            vector=None if vector is None else _numbers(vector),
            owners=owner[1:] or None,
            sources=source or None,
        )
    if as_json:
        print_json(result)
    else:
        _print(result)


def _numbers(file: Path) -> list[float]:
    """The content of a file, which recall checks. Raises InvalidInput for what is no JSON list."""
    try:
        with file.open("rb") as source:
            read = source.read(MAX_VECTOR_BYTES + 1)
        found = json.loads(read) if len(read) <= MAX_VECTOR_BYTES else None
    except OSError as error:
        raise InvalidInput(f"{file} can't be read ({error.strerror}).", code="unreadable_file") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise InvalidInput(f"Write one JSON list of numbers into {file}.", code="invalid_vector")
    return found


def _print(result: RecallResult) -> None:
    out = console()
    for unknown in result.owners_unknown:
        out.print(no_memory(unknown))
    if not result.owner_known and not result.evidence and not result.degraded:
        return
    if not result.evidence:
        out.print("Nothing is known about that.")
    several = len({piece.whose for piece in result.evidence}) > 1
    for number, evidence in enumerate(result.evidence, start=1):
        out.print(evidence_text(evidence, number, several=several))
    for sentence in result.degraded:
        out.print(printable(sentence), style="yellow")
    total = result.timings_ms.get("total", 0.0)
    if result.picked:
        out.print(printable(result.picked), style="dim")
    out.print(f"{len(result.evidence)} items by {result.mode.value} recall in {total:.0f} ms.", style="dim")


def answer(
    question: Annotated[str, typer.Argument(help="What to answer.")],
    owner: OwnerOption,
    mode: Annotated[
        str | None,
        typer.Option(
            help="How evidence is recalled: auto, flat, embedding, llm or planner; the setting recall.mode when not"
            " given.",
            show_default=False,
        ),
    ] = None,
    k: KOption = None,
    as_of: AsOfOption = None,
    asked_at: AskedAtOption = None,
    min_score: MinScoreOption = None,
    exclude_session: ExcludeSessionOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question from memory, with the evidence items that say so.

    Needs a chat model. Ends with 75 when the model was unavailable: the evidence is printed, and the same command can
    succeed later."""
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
    """For people: the answer, the cited evidence (all of it when there is no answer), and what was unavailable."""
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
    out.print(f"{found} items found, {len(cited)} cited, {calls}{by}.", style="dim")
