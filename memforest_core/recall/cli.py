"""``memforest recall`` and ``memforest answer``: a question, and the evidence for it or a model's answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory, opened_store
from memforest_core.cli.toolkit.options import (
    DataOption,
    ExcludeSessionOption,
    JsonOption,
    MinScoreOption,
    OwnerOption,
    argument,
    option,
)
from memforest_core.cli.toolkit.output import (
    Exit,
    answered,
    console,
    counted,
    named,
    no_memory,
    plain_table,
    printable,
    shortened,
)
from memforest_core.domain.rendering import by_rules
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from memforest_core.domain.evidence import Evidence, PathNode, RecallResult
    from memforest_core.recall.answer import Answer
    from memforest_core.recall.states import Timeline, TimelineState

VALUE_CHARS = 60
STATE_CHARS = 120
TURNS_SHOWN = 3


def timeline(
    owner: OwnerOption,
    entity: Annotated[
        str | None,
        option('Person or thing whose states are shown. Default: the owner. "*" shows all.', "--entity", "-e"),
    ] = None,
    attribute: Annotated[str | None, option("Which state: residence, job, pet, weight...", "--attribute", "-a")] = None,
    scene: Annotated[str | None, option("Only states in this scene, by label or id.")] = None,
    as_of: Annotated[str | None, option("Leave out what was said after this time.")] = None,
    since: Annotated[str | None, option("Start at this time.")] = None,
    until: Annotated[str | None, option("End at this time.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of states.")] = 100,
    cursor: Annotated[str | None, option("Cursor that the previous page printed.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print states in order of time: from when to when each was true, what replaced it, and the turns that say it."""
    from memforest_core.recall.timeline import open_timeline

    with opened_store(data) as store:
        found = open_timeline(store.engine).timeline(
            store.tenant,
            owner,
            entity=entity,
            attribute=attribute,
            scene=scene,
            as_of=as_of,
            since=since,
            until=until,
            limit=limit,
            cursor=cursor,
        )
        if not answered(found, as_json=as_json):
            _print_states(found, everybody=entity == "*")


def _print_states(found: Timeline, *, everybody: bool) -> None:
    out = console()
    if not found.owner_known:
        out.print(no_memory(found.owner))
        return
    if not found.states:
        out.print("No states are known." + ("" if everybody else ' --entity "*" shows those of everybody.'))
        return
    out.print(table_of(found))
    current = sum(state.current for state in found.states)
    note = by_rules(state.source for state in found.states)
    out.print(f"{counted(len(found.states), 'state')}, {current} current. {note}".rstrip(), style="dim")
    if found.truncated:
        out.print(f"More follow: --cursor {found.cursor}", style="yellow")
    if found.oldest_left_out:
        out.print("The oldest facts were left out: there are too many for one timeline.", style="yellow")


def table_of(found: Timeline) -> Table:
    """The states, one a row; their texts come from conversations and are printed without what steers a terminal."""
    from rich.text import Text

    zone = ZoneInfo(found.time_zone)
    titles = ("when", "who", "state", "value", "mark", "said", "turns", "source")
    table = plain_table(*titles, whole=("when", "mark", "said"))
    for state in found.states:
        style = "bold" if state.current else "dim" if state.superseded_by is not None else ""
        table.add_row(
            state.time_label,
            Text(shortened(state.subject, VALUE_CHARS)),
            Text(shortened(state.attribute, VALUE_CHARS)),
            Text(_shown_value(state), style=style),
            mark(state),
            f"{state.mentioned_at.astimezone(zone):%Y-%m-%d}" + (f" ×{state.mentions}" if state.mentions > 1 else ""),
            Text(_said_in(state)),
            Text(_read_by(state)),
        )
    return table


def mark(state: TimelineState) -> str:
    """The mark of a state: current, corrected, superseded, ended, or only planned, heard of, supposed or denied."""
    if state.current:
        return "current"
    if state.corrected_at is not None:
        return "corrected"
    if state.modality != "asserted":
        return state.modality.value
    if state.superseded_by is not None:
        return "superseded"
    if state.change == "stop":
        return "end"
    return "denied" if state.polarity == "negative" else ""


def _shown_value(state: TimelineState) -> str:
    if not state.value:
        return shortened(state.shown, STATE_CHARS)
    before = f" (before: {state.previous_value})" if state.previous_value else ""
    return shortened(f"{state.shown}{before}", VALUE_CHARS)


def _read_by(state: TimelineState) -> str:
    return (state.source or "") + (f': "{shortened(state.quote, VALUE_CHARS)}"' if state.quote else "")


def _said_in(state: TimelineState) -> str:
    shown = [printable(f"{turn.session_id}/{turn.turn_id}") for turn in state.evidence[:TURNS_SHOWN]]
    rest = len(state.evidence) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


TEXT_CHARS = 600
SUMMARY_CHARS = 70
SIGNALS = 6
"""Signals named, the strongest first."""
TREES = 3
"""Trees whose path is shown."""


def evidence_text(evidence: Evidence, number: int, *, several: bool = False, why: bool = True) -> Text:
    """A numbered piece; with whose it is, where there are those of ``several`` memories, and ``why`` it was found."""
    from rich.text import Text

    text = Text(f"{number:>3}. ")
    text.append(printable(evidence.time_label), style="cyan")
    text.append("  ")
    text.append(shortened(evidence.text, TEXT_CHARS))
    whose = [("memory", printable(evidence.whose))] if several and not evidence.source else []
    for label, value in [*whose, *(details(evidence) if why else _brief(evidence))]:
        text.append(f"\n     {label:<9} {value}", style="dim")
    return text


def details(evidence: Evidence) -> list[tuple[str, str]]:
    """(label, value) lines: source, found by, tree paths, neighbours."""
    turns = ", ".join(printable(turn) for turn in evidence.turn_ids)
    said_by = f" · said by {printable(evidence.speaker)}" if evidence.speaker else ""
    if evidence.source:
        return [
            ("source", f"{printable(evidence.source)} · point {printable(evidence.point_id)}"),
            ("found by", f"{signals(evidence)} · score {evidence.score:.2f}"),
        ]
    lines = [
        ("source", f"session {printable(evidence.session_id)} · turn {turns}{said_by}{_marks(evidence)}"),
        ("found by", f"{signals(evidence)} · score {evidence.score:.2f} · {evidence.freshness.value}"),
    ]
    lines += [("tree", path) for path in tree_paths(evidence.path)[:TREES]]
    return lines + _neighbours(evidence)


def _brief(evidence: Evidence) -> list[tuple[str, str]]:
    """Neighbours, and of evidence that is no turn where it is from."""
    own = (
        [("source", f"{printable(evidence.source)} · point {printable(evidence.point_id)}")] if evidence.source else []
    )
    return own + _neighbours(evidence)


def _neighbours(evidence: Evidence) -> list[tuple[str, str]]:
    return [
        (label, f"{printable(near.time_label)}  {shortened(near.text, SUMMARY_CHARS)}")
        for label, neighbours in (("before", evidence.predecessors), ("after", evidence.successors))
        for near in neighbours
    ]


def _marks(evidence: Evidence) -> str:
    """What was done to a piece since it was said."""
    marks = [f" · merged from {printable(evidence.origin)}"] if evidence.origin is not None else []
    marks += [f" · {name}" for name, yes in (("corrected", evidence.corrected), ("pinned", evidence.pinned)) if yes]
    return "".join(marks)


def signals(evidence: Evidence) -> str:
    """What added to the score, the strongest first."""
    ordered = sorted(evidence.signals.items(), key=lambda item: -item[1])
    return " + ".join(f"{name} {value:.2f}" for name, value in ordered[:SIGNALS] if value) or "nothing"


def tree_paths(path: tuple[PathNode, ...]) -> list[str]:
    """For each tree the nodes from its root down, each with the beginning of its text."""
    trees: dict[tuple[str, str], list[PathNode]] = {}
    for node in path:
        trees.setdefault((node.tree_kind.value, node.label), []).append(node)
    return [
        f"{kind} {named(label)}" + "".join(f" › {_step(node)}" for node in nodes)
        for (kind, label), nodes in trees.items()
    ]


def _step(node: PathNode) -> str:
    if node.level == 0:
        return "leaf"
    return f"“{shortened(node.summary, SUMMARY_CHARS)}”" if node.summary else f"level {node.level}"


MAX_VECTOR_BYTES = 2**20
"""A larger file is no vector."""

KOption = Annotated[int | None, option("Number of evidence items. Default: the setting recall.k.", "--k", "-k")]
AsOfOption = Annotated[str | None, option("Answer from what had been said by this time.")]
AskedAtOption = Annotated[str | None, option("Time of the question. Default: now.")]


def recall(
    owner: Annotated[
        list[str], typer.Option("--owner", "-o", help="Whose memory. Repeat it to search several owners.")
    ],
    question: Annotated[str | None, argument("What to look for.")] = None,
    vector: Annotated[
        Path | None,
        option("Instead of a question: a vector of the embedding model, as a JSON list.", metavar="FILE.json"),
    ] = None,
    channel: Annotated[list[str] | None, option("Only sessions of this channel. Can be repeated.", "--channel")] = None,
    source: Annotated[
        list[str] | None, option("Also search this external collection. Can be repeated.", "--source")
    ] = None,
    mode: Annotated[
        str | None, option("auto, flat, embedding, llm or planner. Default: the setting recall.mode.")
    ] = None,
    k: KOption = None,
    neighbours: Annotated[int, typer.Option(help="Also show this many turns before and after each item.")] = 0,
    since: Annotated[str | None, option("Only what was said or happened from this time on.")] = None,
    until: Annotated[str | None, option("Only what was said or happened up to this time.")] = None,
    as_of: AsOfOption = None,
    asked_at: AskedAtOption = None,
    max_tokens: Annotated[int | None, option("Return as many items as fit into this many tokens.")] = None,
    budget_ms: Annotated[float | None, option("Time limit in milliseconds for mode auto.")] = None,
    min_score: MinScoreOption = None,
    exclude_session: ExcludeSessionOption = None,
    why: Annotated[
        bool, typer.Option("--why", help="Also print sessions, turns, tree paths and the scores that found each item.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the evidence for a question: time, speaker and text of each item, and with --why how it was found."""
    with opened_memory(data) as memory:
        result = memory.services.recall.recall(
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
        if not answered(result, as_json=as_json):
            _print_evidence(result, why=why)


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


def _print_evidence(result: RecallResult, *, why: bool) -> None:
    out = console()
    for unknown in result.owners_unknown:
        out.print(no_memory(unknown))
    if not result.owner_known and not result.evidence and not result.degraded:
        return
    if not result.evidence:
        out.print("Nothing is known about that.")
    several = len({piece.whose for piece in result.evidence}) > 1
    for number, evidence in enumerate(result.evidence, start=1):
        out.print(evidence_text(evidence, number, several=several, why=why))
    for sentence in result.degraded:
        out.print(printable(sentence), style="yellow")
    total = result.timings_ms.get("total", 0.0)
    if result.picked:
        out.print(printable(result.picked), style="dim")
    out.print(f"{counted(len(result.evidence), 'item')} by {result.mode.value} recall in {total:.0f} ms.", style="dim")


def answer(
    question: Annotated[str, typer.Argument(help="What to answer.")],
    owner: OwnerOption,
    mode: Annotated[
        str | None,
        option("How evidence is recalled: auto, flat, embedding, llm or planner. Default: the setting recall.mode."),
    ] = None,
    k: KOption = None,
    as_of: AsOfOption = None,
    asked_at: AskedAtOption = None,
    min_score: MinScoreOption = None,
    exclude_session: ExcludeSessionOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question from memory, with the evidence for the answer.

    Needs a chat model. If the model is unavailable, the evidence is printed and the exit code is 75: try again
    later."""
    with opened_memory(data) as memory:
        found = memory.answer(
            owner,
            question,
            k,
            mode,
            as_of=as_of,
            asked_at=asked_at,
            min_score=min_score,
            exclude_sessions=exclude_session,
        )
        if not answered(found, as_json=as_json):
            print_answer(found)
            if not found.evidence.owner_known:
                console().print(no_memory(owner))
    if not found.text:
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
    out.print(f"{counted(found, 'item')} found, {len(cited)} cited, {calls}{by}.", style="dim")
