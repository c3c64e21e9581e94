"""How long each stage of a recall takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Clock:
    """Wall time per stage of one recall."""

    spent: dict[str, float] = field(default_factory=dict)
    _started: float = field(default_factory=time.perf_counter)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + _ms(started)

    def total(self) -> dict[str, float]:
        """All stages and their total so far, in milliseconds."""
        return self.spent | {"total": _ms(self._started)}


def _ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000.0
