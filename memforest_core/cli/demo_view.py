"""What one run of the demo measured, and how it is printed: evidence, time, tokens."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memforest_core.cli.toolkit.output import console, pairs_table, plain, plain_table, printable, shortened
from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.recall.cli import evidence_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from memforest_core.cli.demo_data import DemoQuestion
    from memforest_core.cli.page import ServedPage
    from memforest_core.domain.evidence import RecallResult
    from memforest_core.observe.records import ModelCalls, Totals
    from memforest_core.recall.states import TimelineState

PAGES = "http://127.0.0.1:8080"
"""Where the pages are unless server.port is set."""
LINE_CHARS = 110
"""Of a piece of evidence in the short form."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, what came back, and whether it has what is expected."""

    question: DemoQuestion
    found: bool
    result: RecallResult


@dataclass(frozen=True, slots=True)
class DemoReport:
    """A whole run. Seconds are wall time; ``reached_s`` counts from the first accepted session."""

    model: str
    data: Path
    answers: tuple[Answer, ...]
    totals: Totals
    startup_s: float
    accept_s: float
    reached_s: dict[str, float]
    """When every cell was searchable as text, extracted and placed, and every tree refreshed."""
    recall_p50_ms: dict[str, float]
    differences: tuple[str, ...] | None
    """Lines of states and profile that are not as expected; None with a chat model, which words them its own way."""
    model_calls: tuple[ModelCalls, ...]
    total_s: float

    @property
    def ok(self) -> bool:
        """Whether every expectation is met."""
        return all(answer.found for answer in self.answers) and not self.differences


def print_header(model: str, directory: Path, startup_s: float) -> None:
    """Print the model, the directory and the start-up time."""
    out = console()
    hint = " (no network, no key; set MEMFOREST_LLM__MODEL for another)" if model == "offline" else ""
    out.print(f"Model {model}{hint}.", soft_wrap=True)
    out.print(f"Postgres, broker, vector engine and worker: started in {startup_s:.1f} s.")
    out.print(f"Everything is stored in {directory}.", soft_wrap=True)


def print_report(report: DemoReport, *, stored: bool, page: ServedPage | None = None) -> None:
    """Print answers, times, model calls, what to do next, and where the pages are."""
    out = console()
    for number, answer in enumerate(report.answers, start=1):
        _print_answer(out, number, answer, whole=number == 1)
    out.print("\nWhere the time went", style="bold")
    out.print(pairs_table(time_rows(report)))
    out.print("\nModel calls", style="bold")
    out.print(_calls(report.model_calls))
    for difference in report.differences or ():
        out.print(f"✗ {printable(difference)}", soft_wrap=True, style="red")
    held = sum(answer.found for answer in report.answers)
    stated = ", all states and the profile" if report.differences == () else ""
    out.print(
        f"\n{held} of {len(report.answers)} answers{stated} as expected; {report.totals.facts} facts from"
        f" {report.totals.turns} turns in {report.totals.trees} trees; {report.total_s:.1f} s in all.",
        style="bold green" if report.ok else "bold red",
    )
    out.print("\nNext", style="bold")
    for line in next_steps(report, stored=stored):
        out.print(line, soft_wrap=True, style="dim")
    if page is not None:
        out.print("")
        for line in [*page.lines, "Stop with Ctrl-C."]:
            out.print(line, soft_wrap=True)


def next_steps(report: DemoReport, *, stored: bool) -> list[str]:
    """What to type next: on the demo's own memory where it is stored, else on one's own words."""
    if not stored:
        return [
            f"memforest demo --keep                          # the same, with its pages at {PAGES}",
            "memforest demo --data demo-data                # the same, stored: ask it yourself",
            "memforest ingest chats.jsonl --data my-data    # your own conversations, then: memforest recall ...",
        ]
    from memforest_core.cli.demo_data import load_conversation

    owner, place = load_conversation()[0].owner, shlex.quote(str(report.data))
    return [
        f'memforest recall "What does Bob drink in the morning?" --owner {owner} --data {place}',
        f"memforest timeline --owner {owner} --attribute residence --data {place}",
        f"memforest tree {owner} --data {place}",
    ]


def _print_answer(out: Console, number: int, answer: Answer, *, whole: bool) -> None:
    """One question: the evidence that answers it and its rank; ``whole`` shows why it was found and all before it."""
    from rich.text import Text

    question = answer.question
    place = _position(answer)
    out.print(Text(f"\n{number}. {question.question}", style="bold"))
    if place is None:
        expected = " or ".join(f"“{text}”" for text in question.expect)
        out.print(Text(f"   ✗ {expected} is not in the first {question.within} evidence items", style="red"))
    elif whole:
        for rank, evidence in enumerate(answer.result.evidence[:place], start=1):
            out.print(evidence_text(evidence, rank))
    else:
        found = answer.result.evidence[place - 1]
        line = Text(f"   ✓ #{place} ", style="green")
        line.append(f"{printable(found.time_label)}  ", style="cyan").append(
            shortened(found.text, LINE_CHARS), "default"
        )
        out.print(line)
    for sentence in answer.result.degraded:
        out.print(f"   {sentence}", style="yellow")


def _position(answer: Answer) -> int | None:
    """The place of the answer, from 1; None when it is not among the first evidence items."""
    wanted = [text.casefold() for text in answer.question.expect]
    for place, evidence in enumerate(answer.result.evidence[: answer.question.within], start=1):
        if any(text in evidence.text.casefold() for text in wanted):
            return place
    return None


def state_line(state: TimelineState, states: Sequence[TimelineState]) -> str:
    """When a state began, or in which session it was said; whose it is, its value, and what ended it."""
    when = state.time_label if state.time.known else state.evidence[0].session_id
    denied = "not " * (state.polarity is Polarity.NEGATIVE)
    ended = next((f"ended by {each.value}" for each in states if state.superseded_by in each.fact_ids), "")
    planned = ["planned"] * (state.modality is Modality.PLANNED)
    marks = [*["current"] * state.current, *planned, *[state.change.value] * (state.change is Change.STOP), ended]
    return f"{when} | {state.subject} | {state.attribute}: {denied}{state.value} | {', '.join(filter(None, marks))}"


def time_rows(report: DemoReport) -> dict[str, str]:
    """Label and value of each line of the time table."""
    reached = report.reached_s
    rows = {"startup": f"{report.startup_s:.2f} s", "accepted": f"{report.accept_s:.2f} s"}
    for label, stage in (
        ("searchable as text (embed)", "raw cells indexed"),
        ("facts extracted", "cells extracted"),
        ("facts placed (reduce)", "cells placed"),
        ("summaries (refresh)", "trees refreshed"),
    ):
        rows[label] = f"{reached[stage]:.2f} s after the first session" if stage in reached else "not complete"
    timings = report.recall_p50_ms
    parts = ", ".join(f"{stage} {value:.1f}" for stage, value in timings.items() if stage != "total")
    rows["recall, median"] = f"{timings.get('total', 0.0):.1f} ms ({parts})"
    return rows


def _calls(calls: Sequence[ModelCalls]) -> Table:
    counts = ("calls", "failed", "tokens in", "tokens out", "dollars", "median ms")
    table = plain_table("step", "model", *counts, right=counts)
    for call in calls:
        table.add_row(
            call.step,
            call.model,
            str(call.calls),
            str(call.failed),
            str(call.prompt_tokens),
            str(call.completion_tokens),
            f"{call.cost_usd:.4f}",
            f"{call.latency_p50_ms:.1f}",
        )
    return table


def as_document(report: DemoReport) -> dict[str, Any]:
    """The report as one JSON object: ``stages`` are counts, ``seconds`` wall times."""
    from memforest_core.cli.demo_progress import stages

    return {
        "ok": report.ok,
        "model": report.model,
        "data": str(report.data),
        "stages": {_key(name): {"done": done, "of": of} for name, (done, of) in stages(report.totals).items()},
        "totals": plain(report.totals),
        "questions": [
            {
                "question": answer.question.question,
                "expect": list(answer.question.expect),
                "within": answer.question.within,
                "found": answer.found,
                "evidence": plain(answer.result.evidence),
                "timings_ms": plain(answer.result.timings_ms),
                "degraded": list(answer.result.degraded),
            }
            for answer in report.answers
        ],
        "differences": plain(report.differences),
        "seconds": {
            "startup": report.startup_s,
            "accept": report.accept_s,
            **{_key(name): reached for name, reached in report.reached_s.items()},
            "total": report.total_s,
        },
        "recall_p50_ms": report.recall_p50_ms,
        "model_calls": plain(report.model_calls),
    }


def _key(stage: str) -> str:
    return stage.replace(" ", "_")
