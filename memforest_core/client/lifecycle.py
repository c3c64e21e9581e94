"""Operations on stored memory: delete, correct, merge, export, import, rebuild, limit, audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.client.handles import Operation
from memforest_core.client.producer import without_tenant
from memforest_core.client.services.lifecycle_parts import LifecycleParts
from memforest_core.domain.ids import TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.turns import parse_timestamp
from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.bundle.service import Bundles
from memforest_core.lifecycle.correct.records import Pins
from memforest_core.lifecycle.correct.service import Correction
from memforest_core.lifecycle.erase.records import Receipt
from memforest_core.lifecycle.erase.service import Erasure
from memforest_core.lifecycle.merge.service import Merging
from memforest_core.lifecycle.rebuild.records import Options, Plan
from memforest_core.lifecycle.rebuild.service import Rematerializing
from memforest_core.lifecycle.retain.records import Policy
from memforest_core.lifecycle.retain.service import Retention
from memforest_core.work.records import AuditEntry, OperationTask, TaskId
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S, Steps, waiting

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def _served(
    service: Callable[[LifecycleParts], S], method: Callable[Concatenate[S, TenantId, P], T]
) -> Callable[Concatenate[Lifecycle, P], T]:
    """A method of ``Lifecycle`` that is a service's own, for its tenant: documented where it is done."""

    def called(lifecycle: Lifecycle, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(service(lifecycle._parts), lifecycle._tenant, *args, **kwargs)

    without_tenant(called, method)
    return called


def _starting(
    kind: OperationKind, service: Callable[[LifecycleParts], S], method: Callable[Concatenate[S, TenantId, P], TaskId]
) -> Callable[Concatenate[Lifecycle, P], Operation]:
    """The same for a method that starts an operation of this ``kind``."""

    def called(lifecycle: Lifecycle, /, *args: P.args, **kwargs: P.kwargs) -> Operation:
        return lifecycle._started(method(service(lifecycle._parts), lifecycle._tenant, *args, **kwargs), kind)

    without_tenant(called, method, Operation)
    return called


class Lifecycle:
    """Operations on stored memory, for one tenant. Thread-safe.

    What returns an ``Operation`` returns at once: a task with a row, progress and an entry in the audit, which workers
    carry out and which survives a kill at any point. ``owner`` is the owner's id, ``actor`` the caller's name, for the
    audit; a ``dry_run`` only counts. Times are ISO 8601, unix seconds or datetimes.
    All raise InvalidInput, NotFound and StoreUnavailable before anything is changed.
    """

    def __init__(self, parts: LifecycleParts, tenant: TenantId) -> None:
        self._parts = parts
        self._tenant = tenant

    forget = _starting(OperationKind.ERASE, lambda parts: parts.erasure, Erasure.ask)
    correct = _starting(OperationKind.CORRECT, lambda parts: parts.correction, Correction.correct)
    merge = _starting(OperationKind.MERGE, lambda parts: parts.merging, Merging.ask)
    merge_conflicts = _served(lambda parts: parts.merging, Merging.conflicts)
    export = _served(lambda parts: parts.bundles, Bundles.export)
    import_ = _served(lambda parts: parts.bundles, Bundles.import_)
    rematerialize_abandon = _served(lambda parts: parts.rematerializing, Rematerializing.abandon)
    clear_policy = _served(lambda parts: parts.retention, Retention.clear_policy)
    policies = _served(lambda parts: parts.retention, Retention.policies)
    preview_policy = _served(lambda parts: parts.retention, Retention.preview)

    def set_policy(
        self,
        owner: str | None = None,
        *,
        max_age_days: float | None = None,
        max_facts: int | None = None,
        max_bytes: int | None = None,
        fraction: float = 0.1,
        facts_max_age_days: float | None = None,
        digests_max_age_days: float | None = None,
        window_max_age_days: float | None = None,
        order: str = "age",
        actor: str,
    ) -> Policy:
        """Limit an owner's forest, or (owner None) every forest without a policy of its own; workers apply it.

        None is no limit. ``max_age_days`` is the age of turns, ``facts_max_age_days`` of facts (since they were said
        last), ``digests_max_age_days`` of the calendar's digests (since the end of what they tell of),
        ``window_max_age_days`` of what windows hold (since it was put in or made): all that is older goes.
        ``max_facts`` and ``max_bytes`` bound a forest; ``fraction`` is the share, above 0 and at most 1, of its facts
        that one run may forget for them, in this ``order``: "age" takes what is least important, "visits" what was not
        visited for longest, then what was visited least, then the oldest.
        """
        return self._parts.retention.set_policy(
            self._tenant,
            owner,
            actor=actor,
            max_age_days=max_age_days,
            max_facts=max_facts,
            max_bytes=max_bytes,
            fraction=fraction,
            facts_max_age_days=facts_max_age_days,
            digests_max_age_days=digests_max_age_days,
            window_max_age_days=window_max_age_days,
            order=order,
        )

    def receipt(self, operation: TaskId) -> Receipt:
        """What a finished deletion (by its operation's id) removed, and what the search for references to it found."""
        return self._parts.erasure.receipt(self._tenant, operation)

    def pin(
        self,
        owner: str,
        fact: UUID | str | None = None,
        *,
        session: str | None = None,
        turn: str | None = None,
        actor: str,
    ) -> Operation:
        """Keep a ``fact`` (its UUID), a ``session`` or one ``turn`` of it (their ids) whatever a policy says.

        Of a session all turns stay, and every fact that was said there; of a turn the facts that rest on it. An
        explicit deletion takes what is pinned, too.
        """
        return self._set_pinned(owner, fact, session, turn, actor, True)

    def unpin(
        self,
        owner: str,
        fact: UUID | str | None = None,
        *,
        session: str | None = None,
        turn: str | None = None,
        actor: str,
    ) -> Operation:
        """Let policies forget a ``fact``, a ``session`` or a ``turn`` again; arguments as in ``pin``."""
        return self._set_pinned(owner, fact, session, turn, actor, False)

    def pins(self, owner: str, *, limit: int = 1_000) -> Pins:
        """The pinned sessions, turns and facts of an owner, at most ``limit`` of each."""
        return self._parts.correction.pins(self._tenant, owner, limit)

    def _set_pinned(
        self, owner: str, fact: UUID | str | None, session: str | None, turn: str | None, actor: str, pinned: bool
    ) -> Operation:
        if (fact is None) == (session is None) or (turn is not None and session is None):
            raise InvalidInput("Name a fact, a session, or a turn with its session.", code="invalid_pin")
        correction = self._parts.correction
        if fact is not None:
            task = correction.set_pinned(self._tenant, owner, fact, actor, pinned)
        else:
            task = correction.set_words_pinned(self._tenant, owner, session or "", turn, actor, pinned)
        return self._started(task, OperationKind.CORRECT)

    def rematerialize_plan(
        self, owner: str, *, rules: Mapping[str, float] | None = None, extract: bool = False, summaries: bool = False
    ) -> Plan:
        """The cost of a rebuild of an owner's forest: calls, tokens, dollars. Arguments as in ``rematerialize``."""
        return self._parts.rematerializing.plan(self._tenant, owner, Options(dict(rules or {}), extract, summaries))

    def rematerialize(
        self,
        owner: str,
        *,
        rules: Mapping[str, float] | None = None,
        extract: bool = False,
        summaries: bool = False,
        actor: str,
        dry_run: bool = False,
    ) -> Operation:
        """Rebuild an owner's facts, trees and summaries next to the live ones, and switch at the end.

        ``rules`` are branching and thresholds by name (``session_k``, ``scene_assign``...); ``extract`` reads all
        windows with today's prompt and model, ``summaries`` writes all summaries with today's. Sessions that come
        meanwhile are taken along.
        """
        options = Options(dict(rules or {}), extract, summaries)
        task = self._parts.rematerializing.ask(self._tenant, owner, options, actor=actor, dry_run=dry_run)
        return self._started(task, OperationKind.REMATERIALIZE)

    def apply_policy(self, owner: str | None = None, *, actor: str, dry_run: bool = False) -> Sequence[Operation]:
        """Forget now what is beyond an owner's policy, or (owner None) beyond anybody's."""
        tasks = self._parts.retention.apply(self._tenant, owner, actor=actor, dry_run=dry_run)
        return [self._started(task, OperationKind.RETAIN) for task in tasks]

    def operation(self, operation: TaskId) -> OperationTask:
        """An operation as it is."""
        return self._parts.operations.get(self._tenant, operation)

    def operations(self, limit: int = 100) -> Sequence[OperationTask]:
        """The newest operations, at most ``limit``."""
        return self._parts.operations.list(self._tenant, limit)

    def cancel(self, operation: TaskId, *, actor: str) -> Operation:
        """Take an operation back that waits, or a merge, import, export or rebuild that is under way: workers clear
        what it has built and release its forests. Cancelling again is the same.

        Raises InvalidInput (``too_late``) for what is done or can't be taken back any more.
        """
        return self._started(operation, self._parts.operations.cancel(self._tenant, operation, actor))

    @waiting
    def wait(
        self,
        operation: TaskId,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        watch: Callable[[OperationTask], None] = lambda _: None,
    ) -> Steps[OperationTask]:
        """Wait, at most ``timeout_s`` seconds, until an operation is done; ``watch`` is given it at each look.

        Raises OperationFailed, WaitTimeout.
        """
        return self._parts.operations.wait_steps(self._tenant, operation, timeout_s, watch)

    @waiting
    def ended(self, operation: TaskId, timeout_s: float = DEFAULT_TIMEOUT_S) -> Steps[OperationTask]:
        """Wait, at most ``timeout_s`` seconds, until an operation is done, was given up or cancelled.

        Raises WaitTimeout.
        """
        return self._parts.operations.ended_steps(self._tenant, operation, timeout_s)

    def audit(
        self,
        owner: str | None = None,
        *,
        action: str | None = None,
        operation: TaskId | None = None,
        since: object | None = None,
        limit: int = 1_000,
    ) -> Sequence[AuditEntry]:
        """Which caller started what, when, and how it ended, the newest first; of an ``owner`` also after its deletion.

        ``action`` is a kind of operation, ``operation`` one operation's id, ``since`` the earliest time; ``limit`` the
        most entries.
        """
        moment = None if since is None else parse_timestamp(since, ZoneInfo("UTC"), "since")
        return self._parts.operations.audit(
            self._tenant, owner, action=action, task=operation, since=moment, limit=limit
        )

    def _started(self, task: TaskId, kind: OperationKind) -> Operation:
        return Operation(task, kind, self)
