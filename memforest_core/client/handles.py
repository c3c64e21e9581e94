"""Handles of an accepted session and of an operation, in this process or over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from memforest_core.assistant.topics.records import MatchedTopic
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.ingest.accept.records import Accepted, SessionProgress
from memforest_core.work.records import Numbers, OperationTask, TaskId
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S

Watch = Callable[[OperationTask], None]


@dataclass(frozen=True, slots=True)
class SessionHandle:
    """An accepted session: the same for the same session, however often it is sent."""

    owner: str
    session_id: str
    accepted: Accepted = field(compare=False)
    _source: Any = field(compare=False, repr=False)
    """``MemForestClient`` or ``RemoteMemForest``."""
    topic: MatchedTopic | None = field(default=None, compare=False)
    """The topic of an appended turn; None when nobody looked: ``MemForest`` does with the setting
    topics.match_on_append, a ``MemForestClient`` never."""
    degraded: str = field(default="", compare=False)
    """A sentence when something was unavailable that finds the topic, or a note gives no alias."""

    def status(self) -> SessionProgress:
        """How far the session has come."""
        progress: SessionProgress = self._source.status(self.owner, self.session_id)
        return progress

    def wait(self, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S) -> SessionProgress:
        """Wait, at most ``timeout_s`` seconds, until its "raw" cells, "facts" or "summaries" can be recalled.

        Raises WaitTimeout.
        """
        progress: SessionProgress = self._source.wait(self.owner, self.session_id, stage, timeout_s)
        return progress


@dataclass(frozen=True, slots=True)
class Operation:
    """A started operation: a task that goes on when its caller ends."""

    id: TaskId
    kind: OperationKind
    _source: Any = field(compare=False, repr=False)
    """``Lifecycle`` or ``RemoteLifecycle``."""

    def state(self) -> OperationTask:
        """How far it has come. Raises NotFound, StoreUnavailable."""
        task: OperationTask = self._source.operation(self.id)
        return task

    def wait(self, timeout_s: float = DEFAULT_TIMEOUT_S, watch: Watch = lambda _: None) -> Numbers:
        """Wait, at most ``timeout_s`` seconds, until it is done; returns the counts of what was done, or in a dry run
        would be. ``watch`` is given the task at each look.

        Raises OperationFailed when it was given up, WaitTimeout when it takes longer (it goes on), StoreUnavailable.
        """
        task: OperationTask = self._source.wait(self.id, timeout_s, watch)
        return task.progress

    def wait_cancelled(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> OperationTask:
        """Wait, at most ``timeout_s`` seconds, until it has ended in any way; raises WaitTimeout, StoreUnavailable."""
        task: OperationTask = self._source.ended(self.id, timeout_s)
        return task
