"""``memforest demo``: remember a conversation and answer questions, with this package alone."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import ndiff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memforest_core.cli.demo_view import Answer, DemoReport, as_document, print_header, print_report, state_line
from memforest_core.cli.page import ServedPage, served_page
from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.options import JsonOption
from memforest_core.cli.toolkit.output import Exit, print_json

if TYPE_CHECKING:
    from memforest_core.cli.demo_data import DemoQuestion
    from memforest_core.cli.demo_progress import StageProgress
    from memforest_core.client.api import MemForest
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.domain.evidence import RecallResult

EVIDENCE = 10
"""Evidence items per question; an expectation is about the first few."""


def demo(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Keep the memory here instead of a temporary directory."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the node running, with its pages, until Ctrl-C; its directory stays.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the pipeline at most.")] = 600.0,
    as_json: JsonOption = False,
) -> None:
    """Remember a conversation of ten sessions, ask about it, and show the evidence and where the time went.

    Needs no server and no key. With MEMFOREST_LLM__MODEL set it uses that model.
    """
    from memforest_core.cli.demo_progress import StageProgress

    with _directory(data, keep) as directory:
        started = time.perf_counter()
        with opened_memory(directory, create=True, alone=True) as memory, StageProgress(shown=not as_json) as progress:
            startup_s = time.perf_counter() - started
            if not as_json:
                print_header(memory.settings.llm.model, directory, startup_s)
            report = _run(memory, progress, directory, startup_s, timeout)
            progress.end()
            if keep:
                _stay(memory, directory, report, as_json)
        if not keep:
            _print(report, as_json, stored=data is not None, page=None)
    if not report.ok:
        raise typer.Exit(Exit.FAILED)


def _stay(memory: MemForest, directory: Path, report: DemoReport, as_json: bool) -> None:
    """Show the report and serve the pages until Ctrl-C or SIGTERM."""
    from memforest_workers.signals import stop_requested

    place = directory.expanduser().resolve()
    with stop_requested() as stop, served_page(memory, place) as page:
        _print(report, as_json, stored=True, page=page)
        stop.wait()


def _print(report: DemoReport, as_json: bool, *, stored: bool, page: ServedPage | None) -> None:
    if as_json:
        served = None if page is None else {"address": page.address, "key_file": str(page.key_file)}
        print_json(as_document(report) | {"page": served})
    else:
        print_report(report, stored=stored, page=page)
    sys.stdout.flush()  # a parent process may wait for these lines


@contextmanager
def _directory(data: Path | None, keep: bool) -> Iterator[Path]:
    if data is not None:
        yield data
        return
    directory = Path(tempfile.mkdtemp(prefix="memforest-demo-"))
    try:
        yield directory
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def _run(memory: MemForest, progress: StageProgress, directory: Path, startup_s: float, timeout_s: float) -> DemoReport:
    from memforest_core.cli.demo_data import load_conversation, load_questions
    from memforest_core.cli.demo_progress import Milestones, follow

    started = time.perf_counter()
    sessions = load_conversation()
    for session in sessions:
        memory.ingest(session.owner, session.session_id, cast("Sequence[TurnInput]", session.turns))
    accept_s = time.perf_counter() - started
    owner = sessions[0].owner
    milestones = Milestones(started)
    totals = follow(memory, owner, progress, milestones, timeout_s)
    answers = tuple(_answer(memory, owner, question) for question in load_questions())
    return DemoReport(
        model=memory.settings.llm.model,
        data=directory,
        answers=answers,
        totals=totals,
        startup_s=startup_s,
        accept_s=accept_s,
        reached_s=milestones.reached,
        recall_p50_ms=median_timings([answer.result for answer in answers]),
        differences=_differences(memory, owner) if memory.settings.llm.model == "offline" else None,
        model_calls=tuple(memory.services.inspection.model_calls(memory.client.tenant, owner)),
        total_s=startup_s + time.perf_counter() - started,
    )


def _answer(memory: MemForest, owner: str, question: DemoQuestion) -> Answer:
    result = memory.recall(owner, question.question, max(EVIDENCE, question.within))
    return Answer(question, question.answered_by([piece.text for piece in result.evidence]), result)


def _differences(memory: MemForest, owner: str) -> tuple[str, ...]:
    """The lines of all states and of the owner's profile that are not the expected ones."""
    from memforest_core.cli.demo_data import load_expected

    states = memory.timeline(owner, entity="*", limit=1_000).states
    profile = [sentence.text for sentence in memory.profile(owner).sentences if sentence.fact_ids]
    found = {"states": [state_line(state, states) for state in states], "profile": profile}
    signs = {"- ": "missing", "+ ": "not expected"}
    compared = ((name, line) for name, lines in load_expected().items() for line in ndiff(lines, found[name]))
    return tuple(f"{name}, {signs[line[:2]]}: {line[2:]}" for name, line in compared if line[:2] in signs)


def median_timings(results: Sequence[RecallResult]) -> dict[str, float]:
    """The median of each stage over all questions, in milliseconds."""
    stages = dict.fromkeys(stage for result in results for stage in result.timings_ms)
    return {
        stage: statistics.median(result.timings_ms[stage] for result in results if stage in result.timings_ms)
        for stage in stages
    }
