"""The state machine and the values of work: kinds, lanes, leases. A transition outside its table cannot happen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class WorkState(StrEnum):
    """The state of a unit of work."""

    HELD = "held"
    """Waits for something that is not work: an open cell for its second turn."""
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    """Cannot succeed until somebody acts; visible, and can be retried by hand."""


class WorkEvent(StrEnum):
    """What can happen to it."""

    RELEASE = "release"
    CLAIM = "claim"
    FINISH = "finish"
    RETRY = "retry"
    LOSE = "lose"
    GIVE_UP = "give_up"
    REVIVE = "revive"
    REOPEN = "reopen"
    DISCARD = "discard"
    """Somebody gives up what could not be done; what is there without it goes on."""


TRANSITIONS: dict[tuple[WorkState, WorkEvent], WorkState] = {
    (WorkState.HELD, WorkEvent.RELEASE): WorkState.READY,
    (WorkState.READY, WorkEvent.CLAIM): WorkState.RUNNING,
    (WorkState.RUNNING, WorkEvent.FINISH): WorkState.DONE,
    (WorkState.RUNNING, WorkEvent.RETRY): WorkState.READY,
    (WorkState.RUNNING, WorkEvent.LOSE): WorkState.READY,
    (WorkState.RUNNING, WorkEvent.GIVE_UP): WorkState.DEAD,
    (WorkState.DEAD, WorkEvent.REVIVE): WorkState.READY,
    (WorkState.DEAD, WorkEvent.DISCARD): WorkState.DONE,
    (WorkState.DONE, WorkEvent.GIVE_UP): WorkState.DEAD,
    (WorkState.DONE, WorkEvent.REOPEN): WorkState.READY,
    (WorkState.RUNNING, WorkEvent.REOPEN): WorkState.READY,
}


def advance(state: WorkState, event: WorkEvent) -> WorkState:
    """The state after an event. Raises ValueError for an illegal transition."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"work that is {state} cannot {event}") from None


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
