"""The litellm path over real HTTP: many slow calls at once."""

from __future__ import annotations

from pathlib import Path

import httpx

from memforest_core.client.api import MemForest
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.settings import load_settings
from tests.harness.processes import serving

SLOTS = 40
WINDOW_TURNS = 4
WINDOWS = 40


def test_forty_slow_windows_are_read_side_by_side(tmp_path: Path) -> None:
    """Given calls of 3 s and 40 slots, when 40 windows arrive, then at least 10 calls are under way at once."""
    turns: list[TurnInput] = []
    for number in range(0, WINDOW_TURNS * WINDOWS, 2):
        bought = f"I bought lamp {number} for {number} dollars."
        turns.append({"role": "user", "content": bought, "timestamp": 1_700_000_000 + number * 60})
        turns.append({"role": "assistant", "content": "Nice.", "timestamp": 1_700_000_060 + number * 60})
    with serving("tests.harness.model_server", "--port", "0", "--latency", "3") as url:
        settings = load_settings(
            llm={"extract": {"model": "openai/test-model", "api_base": url, "api_key": "test", "concurrency": SLOTS}},
            accept={"window_turns": WINDOW_TURNS},
        )
        with MemForest.embedded(tmp_path, settings, concurrency=SLOTS) as memory:
            handle = memory.ingest("bob", "s1", turns, wait="facts", timeout_s=150)
            assert handle.status().cells == 2 * WINDOWS
            assert httpx.post(url.removesuffix("/v1") + "/control", json={}, timeout=10.0).json()["peak"] >= 10
