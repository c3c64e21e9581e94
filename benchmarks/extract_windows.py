"""Wall time in which 40 windows are extracted through litellm at 300 ms a call, with 40 slots.

Time runs from the accepted session to the last extracted window: raw cells' vectors, calls over HTTP, parsing, the
facts' vectors and the commits are inside. ``sequential_s`` is what the calls alone would take one after the other.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time

import httpx

from benchmarks.harness import Report, Row, parser, say
from memforest_core.client.api import MemForest
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.settings import load_settings
from tests.harness.processes import serving

WINDOWS = 40
WINDOW_TURNS = 4
"""So few, that a session of 160 turns has as many windows as slots."""
SLOTS = 40
LATENCY_S = 0.3


def turns(run: int) -> list[TurnInput]:
    """160 turns: 80 cells of 2, 40 windows of 4, nothing said before."""
    return [
        {
            "role": "user" if number % 2 == 0 else "assistant",
            "content": f"I bought lamp {run * 1000 + number} for {number} dollars."
            if number % 2 == 0
            else "Nice, where will you put it?",
            "timestamp": 1_700_000_000 + number * 60,
        }
        for number in range(WINDOW_TURNS * WINDOWS)
    ]


def extraction_s(memory: MemForest, session: str, run: int) -> float:
    """Seconds from the accepted session to its last extracted window."""
    handle = memory.ingest("bob", session, turns(run))
    started = time.perf_counter()
    while True:
        progress = handle.status()
        if progress.extracted == progress.cells:
            return time.perf_counter() - started
        time.sleep(0.02)


def main(arguments: list[str]) -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--runs", type=int, default=7)
    chosen = options.parse_args(arguments)
    report = Report(chosen.seed, chosen.json)
    with (
        serving("tests.harness.model_server", "--port", "0", "--latency", str(LATENCY_S)) as url,
        tempfile.TemporaryDirectory(prefix="memforest-bench-") as directory,
    ):
        model = {"model": "openai/test-model", "api_base": url, "api_key": "test", "concurrency": SLOTS}
        settings = load_settings(llm={"extract": model}, accept={"window_turns": WINDOW_TURNS})
        with MemForest.embedded(directory, settings, concurrency=SLOTS) as memory:
            memory.ingest("bob", "warm-up", turns(0)[:16], wait="facts")
            taken = []
            for run in range(1, chosen.runs + 1):
                taken.append(extraction_s(memory, f"s{run}", run))
                say(f"run {run}: {taken[-1]:.2f} s")
                memory.flush("bob", timeout_s=60)
        calls = httpx.post(f"{url.removesuffix('/v1')}/control", json={}, timeout=10.0).json()["requests"]
    row: Row = {
        "windows": WINDOWS,
        "model_calls": calls,
        "slots": SLOTS,
        "latency_s": LATENCY_S,
        "median_s": round(statistics.median(taken), 3),
        "min_s": round(min(taken), 3),
        "max_s": round(max(taken), 3),
        "sequential_s": WINDOWS * LATENCY_S,
    }
    report.end([row], {"runs": chosen.runs})


if __name__ == "__main__":
    main(sys.argv[1:])
