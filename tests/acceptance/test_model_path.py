"""The litellm path over real HTTP: many slow calls at once, and answers that are not what was asked for."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memforest_core.api import MemForest
from memforest_core.settings import load_settings
from tests.support.processes import serving

WINDOWS = 40
SLOTS = 40
LATENCY_S = 0.3
BOUND_S = 1.5


def turns(run: int) -> list[dict[str, object]]:
    """160 turns: 80 cells of 2, 40 windows of 4."""
    return [
        {
            "role": "user" if number % 2 == 0 else "assistant",
            "content": f"I bought lamp {run * 1000 + number} for {number} dollars."
            if number % 2 == 0
            else "Nice, where will you put it?",
            "timestamp": 1_700_000_000 + number * 60,
        }
        for number in range(4 * WINDOWS)
    ]


@contextmanager
def memory_with_model(directory: Path, *arguments: str) -> Iterator[MemForest]:
    """An embedded node whose extraction calls a model server in a process of its own."""
    with serving("tests.support.model_server", "--port", "0", *arguments) as url:
        settings = load_settings(
            llm={"extract": {"model": "openai/test-model", "api_base": url, "api_key": "test", "concurrency": SLOTS}}
        )
        with MemForest.embedded(directory, settings, concurrency=SLOTS) as memory:
            yield memory


def extraction_s(memory: MemForest, session: str, run: int) -> float:
    """Wall time from the accepted session to its last extracted window, in seconds."""
    handle = memory.ingest("bob", session, turns(run))
    started = time.perf_counter()
    while True:
        progress = handle.status()
        if progress.extracted == progress.cells:
            return time.perf_counter() - started
        assert time.perf_counter() - started < 30, progress
        time.sleep(0.02)


def test_forty_slow_windows_are_read_side_by_side(tmp_path: Path) -> None:
    """Given 300 ms a call and 40 slots, when 40 windows arrive, then they are extracted in under 1.5 s.

    The median of five runs is held against the bound, because other programs share the machine; one call after the
    other would take 12 s.
    """
    with memory_with_model(tmp_path, "--latency", str(LATENCY_S)) as memory:
        memory.ingest("bob", "warm-up", turns(0)[:16], wait="facts")
        taken = []
        for run in range(1, 6):
            taken.append(extraction_s(memory, f"s{run}", run))
            memory.flush("bob")
        assert statistics.median(taken) < BOUND_S, taken


@pytest.mark.parametrize("fault", ["malformed", "truncated", "empty", "wrong_schema"])
def test_unusable_answers_end_in_facts(tmp_path: Path, fault: str) -> None:
    """Given a model that never answers as asked, when a session is read, then its turns are kept word by word."""
    with memory_with_model(tmp_path, "--faults", f'{{"{fault}": 1.0}}') as memory:
        handle = memory.ingest("bob", "s1", turns(1)[:4], wait="facts")
        progress = handle.status()
        assert progress.dead == 0
        assert progress.verbatim == progress.cells == 2
        assert progress.facts >= 2
        texts = [e.text for e in memory.recall("bob", "How much was lamp 1002?").evidence]
        assert any("lamp 1002" in text for text in texts)


@pytest.mark.parametrize("fault", ["malformed", "truncated", "empty"])
def test_an_answer_is_repaired_when_the_model_is_shown_its_error(tmp_path: Path, fault: str) -> None:
    """Given a model that fails half of the time, when it is asked again, then most cells are not verbatim."""
    with memory_with_model(tmp_path, "--faults", f'{{"{fault}": 0.5}}', "--seed", "3") as memory:
        progress = memory.ingest("bob", "s1", turns(2)[:32], wait="facts").status()
        assert progress.placed == progress.cells == 16
        assert progress.verbatim < progress.cells
