"""What a timeline reads from the store; nothing here writes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from memforest_core.domain.ids import SessionId

TurnKey = tuple[SessionId, int]
"""A turn by its session and its ordinal in it."""


@dataclass(frozen=True, slots=True)
class KnownChain:
    """That states of one subject and attribute are stored, and how many facts they rest on."""

    subject_key: str
    subject: str
    attribute: str
    facts: int


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """A turn that says a state, under the caller's ids, with the beginning of its text."""

    session_id: str
    turn_id: str
    speaker: str
    said_at: datetime
    text: str
