"""Pauses calls of an index that is unavailable, so that no row spends its tries on an outage."""

from __future__ import annotations

import threading
from collections.abc import Callable

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


class OutagePause:
    """One process's view of one index: after a failure nobody tries for a pause, then one does. Thread-safe.

    The pause starts at one second and doubles with each failed trial up to half a minute.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: seconds, monotonic."""
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0
        self._trying = False

    @property
    def away(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def may_try(self) -> bool:
        """Whether to call the index. After a pause one caller gets True, whose call decides whether the pause ends."""
        with self._lock:
            if not self._failures:
                return True
            if self._clock() < self._until:
                return False
            self._until = self._clock() + self._span()
            self._trying = True
            return True

    def failed(self) -> None:
        """The index was away; failures of calls that were under way together count once."""
        with self._lock:
            if not self._failures or self._trying:
                self._failures += 1
                self._until = self._clock() + self._span()
            self._trying = False

    def worked(self) -> None:
        """The index is there."""
        with self._lock:
            self._failures = 0
            self._trying = False

    def _span(self) -> float:
        return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(max(self._failures - 1, 0), 16)))
