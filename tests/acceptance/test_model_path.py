"""The litellm path over real HTTP: many slow calls at once, and answers that are not what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.extract_windows import LATENCY_S, SLOTS, WINDOWS, extraction_s, turns
from benchmarks.support.processes import serving
from memforest_core.api import MemForest
from memforest_core.settings import load_settings


@contextmanager
def memory_with_model(directory: Path, *arguments: str) -> Iterator[MemForest]:
    """An embedded node whose extraction calls a model server in a process of its own."""
    with serving("benchmarks.support.model_server", "--port", "0", *arguments) as url:
        settings = load_settings(
            llm={"extract": {"model": "openai/test-model", "api_base": url, "api_key": "test", "concurrency": SLOTS}}
        )
        with MemForest.embedded(directory, settings, concurrency=SLOTS) as memory:
            yield memory


def test_forty_slow_windows_are_read_side_by_side(tmp_path: Path) -> None:
    """Given 300 ms a call and 40 slots, when 40 windows arrive, then they are read at once, not one by one.

    How long that takes is benchmarks/extract_windows.py's to say; here half of the sequential time is the bound.
    """
    with memory_with_model(tmp_path, "--latency", str(LATENCY_S)) as memory:
        memory.ingest("bob", "warm-up", turns(0)[:16], wait="facts")
        assert extraction_s(memory, "s1", 1) < WINDOWS * LATENCY_S / 2


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
