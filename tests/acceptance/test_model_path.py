"""The litellm path over real HTTP: many slow calls at once, and answers that are not what the request requires."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from memforest_core.client.api import MemForest
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.settings import load_settings
from tests.harness.processes import serving

SLOTS = 40
WINDOW_TURNS = 4
WINDOWS = 40


def turns(run: int) -> list[TurnInput]:
    """160 turns: 80 cells of 2, 40 windows of 4."""
    found: list[TurnInput] = []
    for number in range(0, WINDOW_TURNS * WINDOWS, 2):
        bought = f"I bought lamp {run * 1000 + number} for {number} dollars."
        found.append({"role": "user", "content": bought, "timestamp": 1_700_000_000 + number * 60})
        found.append({"role": "assistant", "content": "Nice.", "timestamp": 1_700_000_060 + number * 60})
    return found


@contextmanager
def memory_with_model(directory: Path, *arguments: str) -> Iterator[tuple[MemForest, str]]:
    """An embedded node whose extraction calls a model server in a process of its own, and that server's address."""
    with serving("tests.harness.model_server", "--port", "0", *arguments) as url:
        settings = load_settings(
            llm={"extract": {"model": "openai/test-model", "api_base": url, "api_key": "test", "concurrency": SLOTS}},
            accept={"window_turns": WINDOW_TURNS},
        )
        with MemForest.embedded(directory, settings, concurrency=SLOTS) as memory:
            yield memory, url


def test_forty_slow_windows_are_read_side_by_side(tmp_path: Path) -> None:
    """Given calls of 3 s and 40 slots, when 40 windows arrive, then at least 10 calls are under way at once."""
    with memory_with_model(tmp_path, "--latency", "3") as (memory, url):
        handle = memory.ingest("bob", "s1", turns(1), wait="facts", timeout_s=150)
        assert handle.status().cells == 2 * WINDOWS
        assert httpx.post(url.removesuffix("/v1") + "/control", json={}, timeout=10.0).json()["peak"] >= 10


@pytest.mark.parametrize("fault", ["malformed", "truncated", "empty", "wrong_schema"])
def test_unusable_answers_end_in_facts(tmp_path: Path, fault: str) -> None:
    """Given a model whose answers are never usable, then turns are facts word by word, or whole items of a cut answer."""
    with memory_with_model(tmp_path, "--faults", f'{{"{fault}": 1.0}}') as (memory, _):
        handle = memory.ingest("bob", "s1", turns(1)[:4], wait="facts")
        progress = handle.status()
        assert progress.dead == 0
        assert progress.verbatim == (0 if fault == "truncated" else progress.cells)
        assert progress.facts >= (1 if fault == "truncated" else 2)
        texts = [e.text for e in memory.recall("bob", "How much was lamp 1002?").evidence]
        assert any("lamp 1002" in text for text in texts)


@pytest.mark.parametrize("fault", ["malformed", "truncated", "empty"])
def test_an_answer_is_repaired_when_the_model_is_shown_its_error(tmp_path: Path, fault: str) -> None:
    """Given a model that fails half of the time, when requests are repeated, then most cells are not verbatim."""
    with memory_with_model(tmp_path, "--faults", f'{{"{fault}": 0.5}}', "--seed", "3") as (memory, _):
        progress = memory.ingest("bob", "s1", turns(2)[:32], wait="facts").status()
        assert progress.placed == progress.cells == 16
        assert progress.verbatim < progress.cells
