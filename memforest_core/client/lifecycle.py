"""Operations on stored memory: delete, correct, merge, export, import, rebuild, limit, audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from memforest_core.client.handles import Operation
from memforest_core.client.producer import completed, served
from memforest_core.client.services.service import LifecycleParts
from memforest_core.domain.ids import TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.lifecycle.bundle.service import Bundles
from memforest_core.lifecycle.rebuild.records import Options, Plan
from memforest_core.work.records import TaskId


@completed(LifecycleParts, "lifecycle")
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

    export = served(lambda own: own._parts.bundles, Bundles.export)
    import_ = served(lambda own: own._parts.bundles, Bundles.import_)

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
        task = self._parts.correction.set_pinned(self._tenant, owner, fact, actor, True, session=session, turn=turn)
        return self._started(task, OperationKind.CORRECT)

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
        task = self._parts.correction.set_pinned(self._tenant, owner, fact, actor, False, session=session, turn=turn)
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

    def cancel(self, operation: TaskId, *, actor: str) -> Operation:
        """Take an operation back that waits, or a merge, import, export or rebuild that is under way: workers clear
        what it has built and release its forests. Cancelling again is the same.

        Raises InvalidInput (``too_late``) for what is done or can't be taken back any more.
        """
        return self._started(operation, self._parts.operations.cancel(self._tenant, operation, actor))

    def _started(self, task: TaskId, kind: OperationKind) -> Operation:
        return Operation(task, kind, self)
