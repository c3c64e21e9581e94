"""``memforest profile-run``: sends a conversation through a memory of its own and prints what each stage costs."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from memforest_core.cli import demo_data
from memforest_core.cli.toolkit.options import JsonOption, option
from memforest_core.cli.toolkit.output import console, plain_table, print_json, printable
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import Converted

QUESTIONS = 20
"""The last turns of the last owner that are recalled when no question is given."""
TIMEOUT_S = 3_600.0
"""For the pipeline to write all of an owner."""


def profile_run(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="As memforest ingest reads it; else the demo's conversation.")
    ] = None,
    owner: Annotated[str | None, option("Whose memory a file is, where it does not say so.", "--owner", "-o")] = None,
    me: Annotated[str | None, option("The owner's name or id among the speakers of the file.")] = None,
    question: Annotated[
        list[str] | None, option(f"Recalled at the end; repeatable. Default: the last {QUESTIONS} turns.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what each stage of writing and recall takes: wall time, CPU, model calls, tokens, statements.

    Works in a temporary directory that is deleted. With MEMFOREST_LLM__MODEL set it calls that model.
    """
    from memforest_core.client.api import MemForest
    from memforest_core.client.embedded.node import EmbeddedNode
    from memforest_core.observe.profiling import NUMBERS, STAGES, Profile
    from memforest_core.settings import load_settings

    sessions = _sessions(file or str(files(demo_data) / "conversation.jsonl"), owner, me)
    last, turns = sessions[-1].owner, sum(len(one.turns) for one in sessions)
    said = [str(turn["content"]).strip()[:1_000] for one in sessions if one.owner == last for turn in one.turns]
    profile, settings, questions = Profile(), load_settings(), question or list(filter(None, said))[-QUESTIONS:]
    with tempfile.TemporaryDirectory(prefix="memforest-profile-") as directory:
        node = EmbeddedNode.start(Path(directory), settings, os.cpu_count() or 1, profile)
        with MemForest(node.services, node) as memory:
            profile.watch(memory.services.engine)
            started = time.perf_counter()
            for one in sessions:
                memory.ingest(one.owner, one.session_id, one.turns, started_at=one.started_at)
            for name in dict.fromkeys(one.owner for one in sessions):
                memory.flush(name, TIMEOUT_S)
            written_s = time.perf_counter() - started
            recalls = [memory.recall(last, text).timings_ms for text in questions]
            stages = profile.numbers()
    slowest = max(STAGES, key=lambda name: stages[name]["wall_s"])
    median_ms = {step: statistics.median(each.get(step, 0.0) for each in recalls) for step in recalls[0]}
    counts = {"sessions": len(sessions), "turns": turns, "recalls": len(recalls), "written_s": written_s}
    if as_json:
        print_json(
            {"model": settings.llm.model, **counts, "slowest": slowest, "stages": stages, "recall_p50_ms": median_ms}
        )
        return
    out, table = console(), plain_table("stage", *NUMBERS, right=NUMBERS)
    for name, numbers in stages.items():
        table.add_row(
            name, *(f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" for value in numbers.values())
        )
    out.print(f"Model {printable(settings.llm.model)}; {', '.join(f'{name} {n:.4g}' for name, n in counts.items())}")
    out.print(table)
    out.print(f"The slowest stage is {slowest}, with {stages[slowest]['wall_s']:.2f} s over all threads.")
    out.print("Recall, median ms: " + ", ".join(f"{step} {ms:.1f}" for step, ms in median_ms.items()))


def _sessions(file: str, owner: str | None, me: str | None) -> list[Converted]:
    """The conversation to write. Raises InvalidInput for a file with an item that can't be read, or without any."""
    from memforest_core.ingest.formats.export_files import opened
    from memforest_core.ingest.formats.formats import checked, chosen, sessions
    from memforest_core.ingest.formats.talks import Findings, Options

    options = Options(owner=owner, me=me)
    with opened(file) as given:
        found = chosen(given, None)
        for refused in checked(found, options).findings.refused:
            raise refused.error
        made = [item for item in sessions(found, options, Findings()) if isinstance(item, Converted)]
    if not made:
        raise InvalidInput("The file has no conversation.", code="no_turns")
    return made
