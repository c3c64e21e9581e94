"""``memforest demo``: remember a conversation, answer questions about it, and show evidence, time and tokens."""

from __future__ import annotations

import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import ndiff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memforest_core.cli.page import ServedPage, served_page
from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.options import JsonOption, option
from memforest_core.cli.toolkit.output import (
    Exit,
    console,
    pairs_table,
    plain,
    plain_table,
    print_json,
    printable,
    shortened,
    this_program,
)
from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.errors import ModelRejected
from memforest_core.recall.cli import evidence_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from memforest_core.cli.demo_data import DemoQuestion
    from memforest_core.client.api import MemForest
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.domain.evidence import RecallResult
    from memforest_core.observe.records import ModelCalls, Totals, Trouble
    from memforest_core.recall.states import TimelineState

EVIDENCE = 10
"""Evidence items per question; an expectation is about the first few."""
PAGES = "http://127.0.0.1:8080"
"""Where the pages are unless server.port is set."""
LINE_CHARS = 110
"""Of a piece of evidence in the short form."""
POLL_S = 0.05
NUDGE_S = 1.0
NUDGE_TIMEOUT_S = 0.02
LINE_S = 3.0
"""A line about progress is written this often at most."""


def demo(
    data: Annotated[
        Path | None, option("Keep the memory here instead of a temporary directory.", "--data", metavar="DIR")
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep the node and its pages running until Ctrl-C. The directory is not deleted."),
    ] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Maximum seconds to wait for the pipeline.")] = 600.0,
    as_json: JsonOption = False,
) -> None:
    """Store ten sample sessions, ask questions about them, and print the evidence and the time of each step.

    Needs no server and no key. With MEMFOREST_LLM__MODEL set it uses that model.
    """
    with _directory(data, keep) as directory:
        started = time.perf_counter()
        with opened_memory(directory, create=True, alone=True) as memory:
            startup_s = time.perf_counter() - started
            if not as_json:
                _print_header(memory.settings.llm.model, directory, startup_s, stays=keep or data is not None)
            report = _run(memory, directory, startup_s, timeout, shown=not as_json)
            if keep:
                _stay(memory, report, as_json)
        if not keep:
            _print(report, as_json, stored=data is not None)
    if not report.ok:
        raise typer.Exit(Exit.FAILED)


@contextmanager
def _directory(data: Path | None, keep: bool) -> Iterator[Path]:
    directory = data or Path(tempfile.mkdtemp(prefix="memforest-demo-"))
    try:
        yield directory
    finally:
        if data is None and not keep:
            shutil.rmtree(directory, ignore_errors=True)


def _stay(memory: MemForest, report: DemoReport, as_json: bool) -> None:
    """Show the report and serve the pages until Ctrl-C or SIGTERM."""
    from memforest_workers.supervisor import stop_requested

    with stop_requested() as stop, served_page(memory, report.data.expanduser().resolve()) as page:
        _print(report, as_json, stored=True, page=page)
        stop.wait()


@dataclass(frozen=True, slots=True)
class DemoReport:
    """A whole run. Seconds are wall time."""

    model: str
    data: Path
    answers: Sequence[tuple[DemoQuestion, bool, RecallResult]]
    """Each question, whether the answer has what is expected, and what came back."""
    totals: Totals
    seconds: dict[str, float]
    reached_s: dict[str, float]
    """When each stage was complete, from the first accepted session on."""
    differences: Sequence[str] | None
    """Lines of states and profile that are not as expected; None with a chat model, which words them its own way."""
    model_calls: Sequence[ModelCalls]

    @property
    def ok(self) -> bool:
        """Whether every expectation is met."""
        return all(found for _, found, _ in self.answers) and not self.differences

    @property
    def recall_p50_ms(self) -> dict[str, float]:
        """The median of each step of recall over all questions."""
        timings = [result.timings_ms for _, _, result in self.answers]
        names = dict.fromkeys(name for each in timings for name in each)
        return {name: statistics.median(each[name] for each in timings if name in each) for name in names}


def _run(memory: MemForest, directory: Path, startup_s: float, timeout_s: float, *, shown: bool) -> DemoReport:
    from memforest_core.cli.demo_data import load_conversation, load_questions

    started = time.perf_counter()
    sessions = load_conversation()
    for session in sessions:
        memory.ingest(session.owner, session.session_id, cast("Sequence[TurnInput]", session.turns))
    accept_s = time.perf_counter() - started
    owner, stages_seen = sessions[0].owner, Stages(started, shown=shown)
    totals = _followed(memory, owner, stages_seen, timeout_s)
    results = [(each, memory.recall(owner, each.question, max(EVIDENCE, each.within))) for each in load_questions()]
    return DemoReport(
        model=memory.settings.llm.model,
        data=directory,
        answers=[
            (each, each.place([piece.text for piece in result.evidence]) is not None, result)
            for each, result in results
        ],
        totals=totals,
        reached_s=stages_seen.reached,
        differences=_differences(memory, owner) if memory.settings.llm.model == "offline" else None,
        model_calls=memory.services.inspection.model_calls(memory.tenant, owner),
        seconds={"startup": startup_s, "accept": accept_s, "total": startup_s + time.perf_counter() - started},
    )


def _differences(memory: MemForest, owner: str) -> list[str]:
    """The lines of all states and of the owner's profile that are not the expected ones."""
    from memforest_core.cli.demo_data import load_expected

    states = memory.timeline(owner, entity="*", limit=1_000).states
    profile = [sentence.text for sentence in memory.profile(owner).sentences if sentence.fact_ids]
    found = {"states": [_state_line(state, states) for state in states], "profile": profile}
    signs = {"- ": "missing", "+ ": "not expected"}
    compared = ((name, line) for name, lines in load_expected().items() for line in ndiff(lines, found[name]))
    return [f"{name}, {signs[line[:2]]}: {line[2:]}" for name, line in compared if line[:2] in signs]


def _state_line(state: TimelineState, states: Sequence[TimelineState]) -> str:
    """When a state began, or in which session it was said; whose it is, its value, and what ended it."""
    when = state.time_label if state.time.known else state.evidence[0].session_id
    denied = "not " * (state.polarity is Polarity.NEGATIVE)
    ended = next((f"ended by {each.value}" for each in states if state.superseded_by in each.fact_ids), "")
    planned = ["planned"] * (state.modality is Modality.PLANNED)
    marks = [*["current"] * state.current, *planned, *[state.change.value] * (state.change is Change.STOP), ended]
    return f"{when} | {state.subject} | {state.attribute}: {denied}{state.value} | {', '.join(filter(None, marks))}"


def stages(totals: Totals) -> dict[str, tuple[int, int]]:
    """(done, of how many) per stage of the write path."""
    cells = totals.cells_total
    return {
        "turns accepted": (totals.turns, totals.turns),
        "raw cells indexed": (totals.indexed_cells, cells),
        "cells extracted": (totals.cells_extracted, cells),
        "cells placed": (totals.cells.get("placed", 0), cells),
        "trees refreshed": (totals.trees - totals.dirty_trees, totals.trees),
    }


@dataclass(slots=True)
class Stages:
    """When each stage was first seen complete, in seconds since ``started`` (perf_counter).

    ``shown`` as lines on stderr.
    """

    started: float
    shown: bool = False
    reached: dict[str, float] = field(default_factory=dict)
    _next_line: float = 0.0
    _last: dict[str, tuple[int, int]] = field(default_factory=dict)
    _printed: set[str] = field(default_factory=set)

    def see(self, totals: Totals, troubles: Sequence[Trouble] = ()) -> None:
        """Note and show what is complete now, and each reason to wait once.

        Trees count once every cell is placed: before that more are coming.
        """
        now = stages(totals)
        for name, (done, of) in now.items():
            if done >= of > 0 and (totals.settled or name != "trees refreshed"):
                self.reached.setdefault(name, time.perf_counter() - self.started)
        if self.shown:
            self._show(now, totals.settled, troubles)

    def _show(self, now: dict[str, tuple[int, int]], settled: bool, troubles: Sequence[Trouble]) -> None:
        for trouble in troubles:
            if trouble.reason not in self._printed:
                self._printed.add(trouble.reason)
                text = f"{trouble.state}: {printable(trouble.reason)} [{trouble.code}]"
                console(stderr=True).print(text, style="yellow")
        if now != self._last and (time.monotonic() >= self._next_line or settled):
            self._last, self._next_line = now, time.monotonic() + LINE_S
            print(" · ".join(f"{name} {done}/{of}" for name, (done, of) in now.items()), file=sys.stderr, flush=True)


def _followed(memory: MemForest, owner: str, seen: Stages, timeout_s: float) -> Totals:
    """The totals once everything accepted for the owner is placed, refreshed and indexed.

    Raises WaitTimeout, and ModelRejected as soon as a model refuses what only a person can change.
    """
    from memforest_core.work.waiting import WaitTimeout, polled, waited

    def poll() -> Totals | None:
        state = memory.services.inspection.forest(memory.tenant, owner)
        seen.see(state.totals, state.troubles)
        if state.totals.settled:
            return state.totals
        refuse_hopeless(state.troubles)
        return None

    def nudge() -> None:
        """Make dirty trees due now instead of after their quiet period."""
        with suppress(WaitTimeout):
            memory.flush(owner, timeout_s=NUDGE_TIMEOUT_S)

    totals = waited(polled(poll, timeout_s, POLL_S, nudge=nudge, nudge_s=NUDGE_S, first_nudge_s=0.0))
    if totals is None:
        raise WaitTimeout(f"The demo is not done after {timeout_s:g} s: give it longer with --timeout.")
    return totals


def refuse_hopeless(troubles: Sequence[Trouble]) -> None:
    """Raise ModelRejected with the model's own reason when waiting can't help."""
    from memforest_core.work.rows.pace import NEEDS_A_PERSON

    for trouble in troubles:
        if trouble.code in NEEDS_A_PERSON:
            raise ModelRejected(trouble.reason, code=trouble.code)


def _print_header(model: str, directory: Path, startup_s: float, *, stays: bool) -> None:
    out = console()
    hint = " (no network, no key; set MEMFOREST_LLM__MODEL for another)" if model == "offline" else ""
    out.print(f"Model {model}{hint}.", soft_wrap=True)
    out.print(f"Postgres, broker, vector engine and worker: started in {startup_s:.1f} s.")
    until = "" if stays else " until the demo ends, and deleted then"
    out.print(f"Everything is stored in {directory}{until}.", soft_wrap=True)


def _print(report: DemoReport, as_json: bool, *, stored: bool, page: ServedPage | None = None) -> None:
    """Answers, times, model calls, what to do next, and where the pages are."""
    if as_json:
        served = None if page is None else {"address": page.address, "key_file": str(page.key_file)}
        print_json(_document(report) | {"page": served})
    else:
        _print_report(report, stored, page)
    sys.stdout.flush()  # a parent process may wait for these lines


def _document(report: DemoReport) -> dict[str, Any]:
    """The report as one JSON object: ``stages`` are counts, ``seconds`` wall times."""
    startup, accept, total = report.seconds.values()
    reached = {name.replace(" ", "_"): at for name, at in report.reached_s.items()}
    return {
        "ok": report.ok,
        "model": report.model,
        "data": str(report.data),
        "stages": {
            name.replace(" ", "_"): {"done": done, "of": of} for name, (done, of) in stages(report.totals).items()
        },
        "totals": plain(report.totals),
        "questions": [
            {
                "question": question.question,
                "expect": list(question.expect),
                "within": question.within,
                "found": found,
                "evidence": plain(result.evidence),
                "timings_ms": plain(result.timings_ms),
                "degraded": list(result.degraded),
            }
            for question, found, result in report.answers
        ],
        "differences": plain(report.differences),
        "seconds": {"startup": startup, "accept": accept, **reached, "total": total},
        "recall_p50_ms": report.recall_p50_ms,
        "model_calls": plain(report.model_calls),
    }


def _print_report(report: DemoReport, stored: bool, page: ServedPage | None) -> None:
    out = console()
    for number, (question, _, result) in enumerate(report.answers, start=1):
        _print_answer(out, number, question, result)
    out.print("\nWhere the time went", style="bold")
    out.print(pairs_table(_times(report)))
    out.print("\nModel calls", style="bold")
    out.print(_calls(report.model_calls))
    for difference in report.differences or ():
        out.print(f"✗ {printable(difference)}", soft_wrap=True, style="red")
    found = sum(found for _, found, _ in report.answers)
    stated = ", all states and the profile" if report.differences is not None and not report.differences else ""
    out.print(
        f"\n{found} of {len(report.answers)} answers{stated} as expected; {report.totals.facts} facts from"
        f" {report.totals.turns} turns in {report.totals.trees} trees; {report.seconds['total']:.1f} s in all.",
        style="bold green" if report.ok else "bold red",
    )
    out.print("\nNext", style="bold")
    for line in _next_steps(report, stored):
        out.print(line, soft_wrap=True, style="dim")
    for line in ["", *page.lines, "Stop with Ctrl-C."] if page is not None else ():
        out.print(line, soft_wrap=True)


def _next_steps(report: DemoReport, stored: bool) -> list[str]:
    """What to type next: on the demo's own memory where it is stored, else on one's own words."""
    program = this_program()
    if not stored:
        return [
            f"{program} demo --keep                          # the same, with its pages at {PAGES}",
            f"{program} demo --data demo-data                # the same, stored: ask it yourself",
            f"{program} ingest chats.jsonl --data my-data    # your own conversations, then: {program} recall ...",
        ]
    from memforest_core.cli.demo_data import load_conversation

    owner, place = load_conversation()[0].owner, shlex.quote(str(report.data))
    return [
        f'{program} recall "What does Bob drink in the morning?" --owner {owner} --data {place}',
        f"{program} timeline --owner {owner} --attribute residence --data {place}",
        f"{program} tree {owner} --data {place}",
    ]


def _print_answer(out: Console, number: int, question: DemoQuestion, result: RecallResult) -> None:
    """The evidence that answers a question and its rank; of the first question all before it, and why it was found."""
    from rich.text import Text

    place = question.place([piece.text for piece in result.evidence])
    out.print(Text(f"\n{number}. {question.question}", style="bold"))
    if place is None:
        expected = " or ".join(f"“{text}”" for text in question.expect)
        out.print(Text(f"   ✗ {expected} is not in the first {question.within} evidence items", style="red"))
    elif number == 1:
        for rank, evidence in enumerate(result.evidence[:place], start=1):
            out.print(evidence_text(evidence, rank))
    else:
        found = result.evidence[place - 1]
        line = Text(f"   ✓ #{place} ", style="green").append(f"{printable(found.time_label)}  ", style="cyan")
        out.print(line.append(shortened(found.text, LINE_CHARS), "default"))
    for sentence in result.degraded:
        out.print(f"   {sentence}", style="yellow")


def _times(report: DemoReport) -> dict[str, str]:
    rows = {"startup": f"{report.seconds['startup']:.2f} s", "accepted": f"{report.seconds['accept']:.2f} s"}
    for label, stage in (
        ("searchable as text (embed)", "raw cells indexed"),
        ("facts extracted", "cells extracted"),
        ("facts placed (reduce)", "cells placed"),
        ("summaries (refresh)", "trees refreshed"),
    ):
        at = report.reached_s.get(stage)
        rows[label] = "not complete" if at is None else f"{at:.2f} s after the first session"
    timings = report.recall_p50_ms
    parts = ", ".join(f"{stage} {value:.1f}" for stage, value in timings.items() if stage != "total")
    return rows | {"recall, median": f"{timings.get('total', 0.0):.1f} ms ({parts})"}


def _calls(calls: Sequence[ModelCalls]) -> Table:
    counts = ("calls", "failed", "tokens in", "tokens out", "dollars", "median ms")
    table = plain_table("step", "model", *counts, right=counts)
    for call in calls:
        tokens = (call.calls, call.failed, call.prompt_tokens, call.completion_tokens)
        table.add_row(call.step, call.model, *map(str, tokens), f"{call.cost_usd:.4f}", f"{call.latency_p50_ms:.1f}")
    return table
