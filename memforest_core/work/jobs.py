"""States, kinds, lanes and leases of work, and what an error means for it: the only place where retries are decided.

``store/tables.py`` has the transitions between states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from memforest_core.errors import (
    ContentFault,
    ContentRefused,
    ContextTooLong,
    MemForestError,
    ModelRejected,
    RetryableError,
)

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 120.0
PAUSE_S = 60.0
"""Work that waits for a person (a key, a model name) is tried again this often."""


class Verdict(StrEnum):
    """What to do with the work."""

    RETRY = "retry"
    """Later, without blaming the work: transport faults end in nothing else, unless the model answers other inputs."""
    SPLIT = "split"
    """Into smaller units, so that only the culprit is held back."""
    DEGRADE = "degrade"
    """Take the marked fallback now."""
    DEAD = "dead"


CRASHED = "crashed"
"""The error code of work whose try was ended by a bug."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, the delay before the next try in seconds, and whether the try counts against the work."""

    verdict: Verdict
    delay_s: float = 0.0
    counts: bool = False


def backoff(tries: int, jitter: float) -> float:
    """Exponential delay in seconds with jitter in [0, 1): half of it fixed, half of it random."""
    span = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(max(tries - 1, 0), 16))
    return float(span * (0.5 + jitter / 2))


def decide(error: MemForestError, *, attempts: int, max_attempts: int, divisible: bool, jitter: float) -> Decision:
    """What becomes of work that failed with ``error``. ``attempts`` counts this try too, ``divisible`` says whether the
    work can be split, ``jitter`` is in [0, 1)."""
    if error.of_input and not isinstance(error, ContextTooLong | ContentRefused):
        if attempts < max_attempts:
            return Decision(Verdict.RETRY, backoff(attempts, jitter), counts=True)
        return Decision(Verdict.SPLIT if divisible else Verdict.DEGRADE, counts=True)
    if isinstance(error, RetryableError):
        wait = backoff(attempts, jitter)
        return Decision(Verdict.RETRY, max(wait, error.retry_after or 0.0))
    if isinstance(error, ContextTooLong | ContentRefused):
        return Decision(Verdict.SPLIT if divisible else Verdict.DEGRADE)
    if isinstance(error, ModelRejected):
        return Decision(Verdict.RETRY, PAUSE_S)
    if isinstance(error, ContentFault):
        # Its parts would get no better answer, each at the same cost.
        return Decision(Verdict.DEGRADE)
    if divisible:
        return Decision(Verdict.SPLIT)
    if attempts < max_attempts:
        return Decision(Verdict.RETRY, backoff(attempts, jitter), counts=True)
    return Decision(Verdict.DEAD, counts=True)


class WorkState(StrEnum):
    """The state of a unit of work."""

    HELD = "held"
    """Waits for something that is not work: an open cell for its second turn."""
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    """Cannot succeed until somebody acts; visible, and can be retried by hand."""


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
