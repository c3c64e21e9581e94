"""A service that is unavailable, as one process sees it: who may try it, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from memforest_core.domain.forks import renewed_in_child

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0


@renewed_in_child
class OutagePause:
    """After a failure nobody tries for a pause, then one caller does. Thread-safe.

    The pause doubles with each failed trial, from the first to the longest.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        first_s: float = FIRST_PAUSE_S,
        longest_s: float = LONGEST_PAUSE_S,
    ) -> None:
        """``clock``: seconds, monotonic."""
        self._clock, self._first_s, self._longest_s = clock, first_s, longest_s
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0
        self._trying = False

    @property
    def unavailable(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def may_try(self) -> bool:
        """Whether to call the service. After a pause one caller gets True, whose call decides whether it ends."""
        with self._lock:
            if not self._failures:
                return True
            if self._clock() < self._until:
                return False
            self._until = self._clock() + self._span()
            self._trying = True
            return True

    def failed(self) -> bool:
        """The service was unavailable; failures of calls that were under way together count once. Whether the outage
        begins."""
        with self._lock:
            begins = not self._failures
            if begins or self._trying:
                self._failures += 1
                self._until = self._clock() + self._span()
            self._trying = False
            return begins

    def worked(self) -> bool:
        """The service answered. Whether that ends an outage."""
        if not self._failures and not self._trying:
            return False
        with self._lock:
            ends, self._failures, self._trying = self._failures > 0, 0, False
            return ends

    def _span(self) -> float:
        return float(min(self._longest_s, self._first_s * 2 ** min(max(self._failures - 1, 0), 16)))
