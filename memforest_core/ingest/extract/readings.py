"""Which forests' answers are being read here: windows of a session end near together, and are then reduced as one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LONGEST_S = 0.3
"""Seconds that stored candidates wait at most for answers that have come and are not stored yet."""


@dataclass(slots=True)
class _Counted:
    """Answers of one forest that are being read, and since when (seconds of the clock) stored ones wait for them."""

    reading: int = 0
    left_at: float | None = None


class Reading:
    """One answer on its way."""

    def __init__(self, come: Callable[[], None]) -> None:
        self.come = come
        """To be called when the answer is here: from now on others may count on it."""
        self.stored = False
        """To be set when its candidates are stored."""
        self.reduces = False
        """After its end: whether the forest is to be reduced now. Otherwise there is nothing new, or an answer that is
        stored soon does it."""


class Readings:
    """The answers that this process is reading, by forest. Thread-safe.

    A thread that stored nothing has the forest reduced too, if another one has counted on it. When it ends with an
    exception nobody has: the rows are there, and the reconciler finds them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: seconds, monotonic."""
        self._clock = clock
        self._lock = threading.Lock()
        self._forests: dict[Hashable, _Counted] = {}

    @contextmanager
    def reading(self, forest: Hashable) -> Iterator[Reading]:
        """An answer, from before it is requested until its candidates are stored, or not."""
        come = False

        def note() -> None:
            nonlocal come
            with self._lock:
                if not come:
                    come = True
                    self._forests.setdefault(forest, _Counted()).reading += 1

        reading = Reading(note)
        try:
            yield reading
        finally:
            with self._lock:
                reading.reduces = self._reduces(forest, reading.stored, come)

    def _reduces(self, forest: Hashable, stored: bool, come: bool) -> bool:
        counted = self._forests.setdefault(forest, _Counted())
        counted.reading -= come
        wanted, now = stored or counted.left_at is not None, self._clock()
        if wanted and counted.reading:
            since = now if counted.left_at is None else counted.left_at
            counted.left_at = since if now - since < LONGEST_S else None
            return counted.left_at is None
        if not counted.reading:
            del self._forests[forest]
        return wanted
