"""What workers need from the store to stay alive, to find work, and to free what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class WorkKind(StrEnum):
    """Kinds of work that can wait, as ``waiting`` names them."""

    EXTRACT = "extract"
    REDUCE = "reduce"
    REFRESH = "refresh"
    MAINTAIN = "maintain"
    REDO = "redo"
    HELD = "held"
    REOPEN = "reopen"
    PAST = "past"
    """Deliveries of webhooks past their retention."""


MAX_LOST_LEASES = 20
"""Lost leases from which work is set aside for a person."""


@dataclass(frozen=True, slots=True)
class LeaseLimits:
    """When a lease is lost, and when lost leases make work suspicious."""

    dead_after_s: float
    max_lost_leases: int


class Lane(IntEnum):
    """Live sessions go before bulk imports."""

    LIVE = 0
    BACKFILL = 1


@dataclass(frozen=True, slots=True)
class WorkError:
    """Why a try failed, or work takes long: a code for programs, a sentence for people; no conversation text or key."""

    code: str
    message: str
