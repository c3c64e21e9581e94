"""What vacuuming after deletions needs from the store."""

from __future__ import annotations

from enum import Enum


class Vacuumed(Enum):
    """What became of a table."""

    DONE = "vacuumed"
    NO_RIGHT = "skipped"
    """The service role may not: before Postgres 17 only owners can."""
    BUSY = "busy"
    """Another vacuum is at it, or somebody changes the table's definition."""
