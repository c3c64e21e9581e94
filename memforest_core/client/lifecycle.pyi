"""Made by ``python .ci/stubs.py``."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from memforest_core.client.handles import Operation
from memforest_core.client.services.service import LifecycleParts
from memforest_core.domain.ids import TenantId
from memforest_core.lifecycle.bundle.records import ExportFormat
from memforest_core.lifecycle.bundle.service import Watch
from memforest_core.lifecycle.correct.records import Pins
from memforest_core.lifecycle.erase.records import Receipt
from memforest_core.lifecycle.merge.records import ConflictReport
from memforest_core.lifecycle.rebuild.records import Plan
from memforest_core.lifecycle.retain.records import Policy, Preview
from memforest_core.work.audit import AuditHead, AuditReport
from memforest_core.work.records import AuditEntry, Numbers, OperationTask, TaskId

class Lifecycle:
    """Operations on stored memory, for one tenant. Thread-safe.

    What returns an ``Operation`` returns at once: a task with a row, progress and an entry in the audit, which workers
    carry out and which survives a kill at any point. ``owner`` is the owner's id, ``actor`` the caller's name, for the
    audit; a ``dry_run`` only counts. Times are ISO 8601, unix seconds or datetimes.
    All raise InvalidInput, NotFound and StoreUnavailable before anything is changed."""

    def __init__(self, parts: LifecycleParts, tenant: TenantId) -> None: ...
    def apply_policy(self, owner: str | None = None, *, actor: str, dry_run: bool = False) -> Sequence[Operation]:
        """Forget now what is beyond an owner's policy, or (owner None) beyond anybody's."""

    def audit(
        self,
        owner: str | None = None,
        *,
        action: str | None = None,
        operation: TaskId | None = None,
        since: object | None = None,
        limit: int = 1000,
    ) -> Sequence[AuditEntry]:
        """Which caller started what, when, and how it ended, the newest first; of an ``owner`` also after its deletion.

        ``action`` is a kind of operation, ``operation`` one operation's id, ``since`` the earliest time; ``limit`` the
        most entries."""

    def audit_head(self, *, sign: bool = False) -> AuditHead:
        """The newest row of the audit; keep it elsewhere, to prove later that the audit only grew.

        ``sign`` adds a signature with MEMFOREST_DATABASE__AUDIT_KEY. Raises InvalidSettings without that."""

    def audit_verify(self, head: AuditHead | None = None) -> AuditReport:
        """Read the whole audit, and find rows that were changed, removed or inserted.

        Only a ``head`` of before shows that the newest rows were removed. Raises InvalidSettings for a signed one
        without the key."""

    def cancel(self, operation: TaskId, *, actor: str) -> Operation:
        """Take an operation back that waits, or a merge, import, export or rebuild that is under way: workers clear
        what it has built and release its forests. Cancelling again is the same.

        Raises InvalidInput (``too_late``) for what is done or can't be taken back any more."""

    def clear_policy(self, owner: str | None = None, *, actor: str) -> bool:
        """Remove the policy of an owner, or (None) the one for all others; returns whether there was one."""

    def correct(
        self,
        owner: str,
        fact: UUID | str,
        *,
        text: str | None = None,
        start: object | None = None,
        end: object | None = None,
        value: str | None = None,
        erase: bool = False,
        actor: str,
        dry_run: bool = False,
    ) -> Operation:
        """Give a ``fact`` (its UUID) another sentence (``text``), time (from ``start`` to ``end``) or ``value``.

        The old one is superseded: recall leaves it out from now on, and still has it ``as_of`` before; with ``erase``
        it is deleted. The operation is done when the new one can be found.

        Raises ModelUnavailable and ModelRejected too: the new sentence has to be embedded."""

    def ended(self, operation: TaskId, timeout_s: float = 300.0) -> OperationTask:
        """Wait, at most ``timeout_s`` seconds, until an operation is done, was given up or cancelled.

        Raises WaitTimeout."""

    def export(
        self,
        owner: str,
        path: str | Path,
        *,
        format: ExportFormat = "bundle",
        vectors: bool | None = None,
        summaries: bool = True,
        overwrite: bool = False,
        actor: str,
        dry_run: bool = False,
        watch: Watch = ...,
    ) -> Numbers:
        """Write an owner's forest to the file ``path``, as it is at this moment; this process writes it.

        ``format`` is ``bundle``; ``sqlite``, a bundle with views for people and other programs; or ``jsonl``, the same
        rows as JSON lines. ``import_`` reads each. ``vectors`` (default: not in JSON lines) and ``summaries`` say
        whether those are included, ``overwrite`` whether an existing file is replaced. ``watch`` is called with the
        rows done and the number of all rows."""

    def forget(
        self,
        owner: str,
        *,
        session: str | None = None,
        turns: Sequence[str] = (),
        fact: UUID | str | None = None,
        since: object | None = None,
        until: object | None = None,
        speaker: str | None = None,
        everything: bool = False,
        actor: str,
        dry_run: bool = False,
    ) -> Operation:
        """Delete ``turns`` (their ids) of a session, a whole ``session`` (its id), a ``fact`` (its UUID), what was said
        from ``since`` to before ``until``, a ``speaker``'s words (their id or name), or ``everything``.

        Facts that were said nowhere else go, others lose that occurrence; summaries that may quote what is gone are
        masked in the same transaction. ``receipt`` says what was removed, and that nothing refers to it."""

    def import_(
        self,
        path: str | Path,
        owner: str | None = None,
        *,
        vectors: bool = True,
        actor: str,
        dry_run: bool = False,
        watch: Watch = ...,
    ) -> Numbers:
        """Read a forest from the bundle at ``path`` for an ``owner`` who has none (by default the bundle's own).

        This process reads it; without ``vectors`` they are computed again. Everything is checked before anything is
        written. Called again after an interruption it continues. ``watch`` as in ``export``."""

    def merge(
        self, sources: Sequence[str], into: str, *, keep_sources: bool = False, actor: str, dry_run: bool = False
    ) -> Operation:
        """Merge the forests of these owners (``sources``) into the forest of another owner (``into``), old or new.

        The sources take no sessions meanwhile, and are gone afterwards unless ``keep_sources``. Calls no model but for
        nodes above what was joined."""

    def merge_conflicts(self, sources: Sequence[str], into: str) -> ConflictReport:
        """What a merge of ``sources`` into the owner ``into`` would do, and which facts contradict; changes nothing."""

    def operation(self, operation: TaskId) -> OperationTask:
        """An operation as it is."""

    def operations(self, limit: int = 100) -> Sequence[OperationTask]:
        """The newest operations, at most ``limit``."""

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
        explicit deletion takes what is pinned, too."""

    def pins(self, owner: str, *, limit: int = 1000) -> Pins:
        """The pinned sessions, turns and facts of an owner, at most ``limit`` of each."""

    def policies(self) -> Sequence[Policy]:
        """All policies, the one for all others first."""

    def preview_policy(self, owner: str) -> Preview:
        """What a policy would delete from an owner's forest now: facts, cells, digests, and what windows hold."""

    def receipt(self, operation: TaskId) -> Receipt:
        """What a finished deletion (by its operation's id) removed, and what the search for references to it found."""

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
        meanwhile are taken along."""

    def rematerialize_abandon(self, owner: str) -> int:
        """Delete the hidden forests that abandoned rebuilds of an owner's forest have left; returns how many."""

    def rematerialize_plan(
        self, owner: str, *, rules: Mapping[str, float] | None = None, extract: bool = False, summaries: bool = False
    ) -> Plan:
        """The cost of a rebuild of an owner's forest: calls, tokens, dollars. Arguments as in ``rematerialize``."""

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
        faded_max_age_days: float | None = None,
        order: str = "age",
        actor: str,
    ) -> Policy:
        """Limit an owner's forest, or (owner None) every forest without a policy of its own; workers apply it.

        None is no limit. ``max_age_days`` is the age of turns, ``facts_max_age_days`` of facts (since they were said
        last), ``digests_max_age_days`` of the calendar's digests (since the end of what they tell of),
        ``window_max_age_days`` of what windows hold (since it was put in or made), ``faded_max_age_days`` of topics
        (since they became cold; what another topic has too stays): all that is older goes.
        ``max_facts`` and ``max_bytes`` bound a forest; ``fraction`` is the share, above 0 and at most 1, of its facts
        that one run may forget for them, in this ``order``: "age" takes what is least important, "visits" what was not
        visited for longest, then what was visited least, then the oldest, "relevance" what recent questions found
        least, itself or its neighbours in a tree, "centrality" what is connected least with other facts."""

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

    def wait(
        self, operation: TaskId, timeout_s: float = 300.0, watch: Callable[[OperationTask], None] = ...
    ) -> OperationTask:
        """Wait, at most ``timeout_s`` seconds, until an operation is done; ``watch`` is given it at each look.

        Raises OperationFailed, WaitTimeout."""
