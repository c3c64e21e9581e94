"""How much talk one extraction call reads, so that a slow model answers well within its timeout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from memforest_core.domain.windows import Window
from memforest_core.errors import TIMED_OUT
from memforest_core.models.calls import CallRecord, Step


class WindowSize:
    """The most characters of a window, by how long answers took: they should come within a third of the timeout."""

    def __init__(self, timeout_s: float) -> None:
        self._aim_s = timeout_s / 3
        self._chars = math.inf

    def fitting(self, window: Window) -> int:
        """How many of a window's cells one call reads, at least one."""
        ends = accumulate(len(turn.text) for turn in window.turns)
        beyond = (turn.cell for turn, end in zip(window.turns, ends, strict=True) if end > self._chars)
        return max(1, next(beyond, window.cells + 1) - 1)

    def learn(self, window: Window, calls: Sequence[CallRecord]) -> None:
        """Half after a timeout, as fits after a long answer, up to twice as much after a quick one."""
        read = sum(len(turn.text) for turn in window.turns)
        for call in (each for each in calls if each.step is Step.EXTRACT):
            fits = read * self._aim_s / max(call.latency_ms / 1_000, 0.001)
            if call.outcome == TIMED_OUT:
                self._chars = min(self._chars, read / 2)
            elif call.outcome == "ok":
                self._chars = min(fits, self._chars) if fits < read else max(self._chars, min(fits, 2 * self._chars))
