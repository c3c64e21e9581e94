"""Failed calls to models in the log: each kind at once, repetitions of it once a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from memforest_core.errors import MemForestError

log = structlog.get_logger(__name__)

REPEAT_S = 60.0


class FailedCalls:
    """Logs why calls fail: by step, model and code, with the sentence for people. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[tuple[str, str, str], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def tell(self, step: str, model: str, error: MemForestError) -> None:
        """A call of ``step`` failed; ``error`` names settings and servers, never what was sent."""
        kind, now = (step, model, error.code), self._clock()
        with self._lock:
            last, unsaid = self._told.get(kind, (float("-inf"), 0))
            if now - last < REPEAT_S:
                self._told[kind] = (last, unsaid + 1)
                return
            self._told[kind] = (now, 0)
        log.warning(
            "model_call_failed", step=step, model=model, code=error.code, reason=error.message, since_last=unsaid
        )


FAILED_CALLS = FailedCalls()
"""Of this process."""
