"""Handles of an accepted session and of an operation, in this process or over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from memforest_core.assistant.topics.records import MatchedTopic
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.ingest.accept.records import Accepted, SessionProgress
from memforest_core.work.records import Numbers, OperationTask, TaskId
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S

Watch = Callable[[OperationTask], None]


class SessionSource(Protocol):
    """Where a session can be looked up: ``MemForestClient``, or ``RemoteMemForest``."""

    def status(self, owner: str, session_id: str) -> SessionProgress:
        """How far a session has come."""

    def wait(self, owner: str, session_id: str, stage: str, timeout_s: float) -> SessionProgress:
        """Wait for a stage."""


class OperationSource(Protocol):
    """Where an operation can be looked up: ``Lifecycle``, or ``RemoteLifecycle``."""

    def operation(self, operation: TaskId) -> OperationTask:
        """An operation as it is."""

    def wait(self, operation: TaskId, timeout_s: float, watch: Watch) -> OperationTask:
        """Wait until it is done."""

    def ended(self, operation: TaskId, timeout_s: float) -> OperationTask:
        """Wait until it has ended in any way."""


@dataclass(frozen=True, slots=True)
class SessionHandle:
    """An accepted session: the same for the same session, however often it is sent."""

    owner: str
    session_id: str
    accepted: Accepted = field(compare=False)
    _source: SessionSource = field(compare=False, repr=False)
    topic: MatchedTopic | None = field(default=None, compare=False)
    """The topic that an appended turn belongs to; None when nothing is near, or nobody looked: ``MemForest`` does with
    the setting topics.match_on_append, a ``MemForestClient`` never."""
    degraded: str = field(default="", compare=False)
    """A sentence when the topic could not be looked for."""

    def status(self) -> SessionProgress:
        """How far the session has come."""
        return self._source.status(self.owner, self.session_id)

    def wait(self, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S) -> SessionProgress:
        """Wait, at most ``timeout_s`` seconds, until its "raw" cells, "facts" or "summaries" can be recalled.

        Raises WaitTimeout.
        """
        return self._source.wait(self.owner, self.session_id, stage, timeout_s)


@dataclass(frozen=True, slots=True)
class Operation:
    """A started operation: a task that goes on when its caller ends."""

    id: TaskId
    kind: OperationKind
    _source: OperationSource = field(compare=False, repr=False)

    def state(self) -> OperationTask:
        """How far it has come. Raises NotFound, StoreUnavailable."""
        return self._source.operation(self.id)

    def wait(self, timeout_s: float = DEFAULT_TIMEOUT_S, watch: Watch = lambda _: None) -> Numbers:
        """Wait, at most ``timeout_s`` seconds, until it is done; returns the counts of what was done, or in a dry run
        would be. ``watch`` is given the task at each look.

        Raises OperationFailed when it was given up, WaitTimeout when it takes longer (it goes on), StoreUnavailable.
        """
        return self._source.wait(self.id, timeout_s, watch).progress

    def wait_cancelled(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> OperationTask:
        """Wait, at most ``timeout_s`` seconds, until it has ended in any way; raises WaitTimeout, StoreUnavailable."""
        return self._source.ended(self.id, timeout_s)
