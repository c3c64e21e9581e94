"""Endpoints, events and deliveries as values: ids only, never conversation text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from memforest_core.work.jobs import WorkState


class Event(StrEnum):
    """What is posted to an endpoint."""

    FACTS_READY = "session.facts_ready"
    """Each cell of a session is in the trees, or was given up; again after more turns."""
    READY = "session.ready"
    """The summaries of the session's trees are up to date, too."""
    OPERATION_FINISHED = "operation.finished"
    """An operation that somebody requested is done, was cancelled or was given up."""
    WORK_DEAD = "work.dead"
    """A cell, a node or a task was given up: a dead letter."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address to which events are posted."""

    id: UUID
    url: str
    events: tuple[Event, ...]
    description: str
    enabled: bool
    """An endpoint that answers 410 is disabled: nothing is sent to it until it is enabled again."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """An endpoint with the secret that it has just got."""

    endpoint: Endpoint
    secret: str
    """With which messages are signed (``whsec_...``). Nothing shows it again."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event for one endpoint, and the state of its delivery."""

    id: UUID
    """The message's ``webhook-id``: the same at each try, and when it is replayed."""
    endpoint: UUID
    event: Event
    data: Mapping[str, Any]
    """What the event is about: ids, codes and kinds."""
    state: WorkState
    """``held`` waits for the session's summaries, ``ready`` for its next try, ``dead`` had its last."""
    attempts: int
    status: int | None
    """Of the last answer over HTTP."""
    error_code: str | None
    error_text: str | None
    created_at: datetime
    next_at: datetime | None
    """When it is tried next; None when it is over."""
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Message:
    """A delivery that was claimed, with what is needed to post it."""

    id: UUID
    endpoint_id: UUID
    event: str
    data: Mapping[str, Any]
    created_at: datetime
    attempts: int
    """Tries so far, this one included."""
    url: str
    secrets: tuple[str, ...]
    """Those that sign it, the newest first."""
    enabled: bool


DISABLED, GONE = "endpoint_disabled", "endpoint_gone"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a try came to."""

    status: int | None = None
    code: str | None = None
    """Why it failed; None when it was delivered. No other try is made after ``DISABLED`` and ``GONE``."""
    text: str | None = None
    retry_after_s: float = 0.0
    """The answer's Retry-After."""
