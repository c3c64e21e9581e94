"""What waiting for accepted work needs from the store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a forest still has to do: cells not in the trees, dirty trees, index rows behind."""

    cells: int
    trees: int
    points: int

    @property
    def done(self) -> bool:
        """Whether everything accepted is durable, placed, refreshed and indexed."""
        return self.cells + self.trees + self.points == 0
