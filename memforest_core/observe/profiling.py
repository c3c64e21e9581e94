"""Sums in memory what a process does, by stage: wall time, CPU, model calls, tokens and statements."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from memforest_core.domain.ids import TenantId
from memforest_core.models.calls import CHAT_STEPS, CallRecord
from memforest_core.store.engine import Engine, on_statement
from memforest_core.work.telemetry import Telemetry

STAGES = ("accept", "extract", "reduce", "refresh", "index", "recall")
ELSEWHERE = "elsewhere"
"""What no span covers: claims, heartbeats, threads of the local models, digests and topics."""
NUMBERS = ("spans", "wall_s", "cpu_s", "slowest_ms", "model_calls", "prompt_tokens", "completion_tokens", "statements")
"""Of each stage. Wall time is added over threads, CPU is that of the spans' threads, and neither has nested spans of
other stages in it; ``slowest_ms`` is the longest span with them. Calls are those of chat models, failed ones included;
a statement that writes many rows counts once."""
_ACCEPT = dict.fromkeys(("enqueue", "append", "remember"), "accept")
_TRACE = f"00-{1:032x}-{1:016x}-00"
"""A W3C traceparent: later stages open spans only for sessions that are traced."""


class Profile(Telemetry):
    """Telemetry that adds up spans and calls by stage. Thread-safe."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, float]] = {name: dict.fromkeys(NUMBERS, 0) for name in (*STAGES, ELSEWHERE)}
        self._lock = threading.Lock()
        self._here = threading.local()
        self._cpu_s = time.process_time()

    def watch(self, engine: Engine) -> None:
        """Count the statements of an engine from now on."""
        on_statement(engine, lambda: self._add(statements=1))

    def numbers(self) -> Mapping[str, Mapping[str, float]]:
        """``NUMBERS`` of each stage in the order of a turn's way, then the rest of the process."""
        used = sum(self._numbers[name]["cpu_s"] for name in STAGES)
        self._numbers[ELSEWHERE]["cpu_s"] = max(0.0, time.process_time() - self._cpu_s - used)
        return self._numbers

    @contextmanager
    def span(self, name: str, trace: str | None = None, **ids: str) -> Iterator[str | None]:
        """A span around a block; one within a span of the same stage is a part of it."""
        stage, outer, begun = _ACCEPT.get(name, name), self._stage, time.perf_counter()
        self._enter(stage)
        try:
            yield trace or _TRACE
        finally:
            self._enter(outer)
            if stage != outer:
                took = (time.perf_counter() - begun) * 1_000
                with self._lock:
                    of = self._numbers[stage]
                    of["spans"], of["slowest_ms"] = of["spans"] + 1, max(of["slowest_ms"], took)

    def called(self, tenant: TenantId, calls: Sequence[CallRecord]) -> None:
        """Count calls of chat models for the stage of this thread."""
        for call in calls:
            if call.step in CHAT_STEPS:
                tokens = call.prompt_tokens, call.completion_tokens
                self._add(model_calls=1, prompt_tokens=tokens[0], completion_tokens=tokens[1])

    @property
    def _stage(self) -> str:
        return getattr(self._here, "stage", ELSEWHERE)

    def _enter(self, stage: str) -> None:
        """Charge the time since this thread's last change of stage to the stage that it leaves."""
        wall, cpu = time.perf_counter(), time.thread_time()
        if self._stage != ELSEWHERE:
            self._add(wall_s=wall - self._here.wall, cpu_s=cpu - self._here.cpu)
        self._here.stage, self._here.wall, self._here.cpu = stage, wall, cpu

    def _add(self, **amounts: float) -> None:
        with self._lock:
            for name, amount in amounts.items():
                self._numbers[self._stage][name] += amount
