"""Records of accepted sessions: their stages, their progress, and what is left to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from memforest_core.domain.ids import ForestId, SessionId
from memforest_core.domain.pages import plain
from memforest_core.work.jobs import Lane, WorkError


class Stage(StrEnum):
    """How far a session has come; each stage includes the ones before it."""

    ACCEPTED = "accepted"
    RAW = "raw"
    FACTS = "facts"
    SUMMARIES = "summaries"


@dataclass(frozen=True, slots=True)
class SessionHead:
    """A session's row, locked: where the next turn goes."""

    id: SessionId
    started_at: datetime
    time_zone: str
    turn_count: int
    cell_count: int
    lane: Lane
    note: bool
    created: bool


@dataclass(frozen=True, slots=True)
class SessionProgress:
    """A session's state, derived from its cells: never stored, so never wrong. Every cell counts once among ``ok``,
    ``empty`` (the model said that there is nothing to keep), ``repaired``, ``verbatim`` (stored word by word until the
    model behaves), ``failed`` (its last try failed, the next one comes), ``dead`` (dead-lettered: its facts are missing
    until it is retried, its turns are not) and ``waiting``."""

    session_id: SessionId
    stage: Stage
    turns: int
    cells: int
    indexed: int
    extracted: int
    placed: int
    ok: int
    empty: int
    repaired: int
    verbatim: int
    failed: int
    dead: int
    waiting: int
    covered: int
    """Cells that a model has read as it should, and whose facts are in the trees."""
    facts: int
    dirty_trees: int
    last_error: WorkError | None = None
    """Why it goes no further: what the last failed try of its unfinished work ended with; else what of a model's answer
    could not be used. None when nothing failed."""

    @property
    def coverage(self) -> float:
        """The share of cells whose facts a model found and the trees hold, in [0, 1]."""
        return self.covered / self.cells if self.cells else 1.0

    @property
    def ready(self) -> bool:
        """Whether nothing is left to do: each cell is in the trees or dead, and all summaries are up to date."""
        return self.stage is Stage.SUMMARIES

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON values, by the names of the fields, with ``coverage`` and ``ready``."""
        return {**plain(self), "coverage": self.coverage, "ready": self.ready}


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


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What a tenant may do that differs from the deployment's settings; None takes those."""

    max_waiting_cells: int | None = None
    max_turns_per_day: int | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """What a tenant may do, and how much of it is used; ``own`` is what the tenant has instead of the settings."""

    own: TenantLimits
    max_waiting_cells: int
    max_turns_per_day: int | None
    waiting_cells: int
    turns_in_a_day: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was stored: new turns and new extraction windows (both 0 for a session sent again)."""

    forest_id: ForestId
    session_id: SessionId
    turns: int
    new_turns: int
    new_windows: int
    session: str = ""
    """The caller's id of the session, or the one that was made for it."""
    redacted: Mapping[str, int] = field(default_factory=dict)
    """How often what was masked in the new turns and the session's metadata, by kind (the setting accept.redact)."""


@dataclass(frozen=True, slots=True)
class RunningSession:
    """The session of an owner that turns without a session id go to, or that was just closed."""

    owner: str
    session_id: str
    turns: int
    """0 before its first turn: it is stored with that."""
    last_at: datetime | None
    """When its last turn was said."""

    def to_dict(self) -> dict[str, Any]:
        """The session as JSON values, by the names of the fields."""
        made: dict[str, Any] = plain(self)
        return made
