"""Made by ``python .ci/stubs.py``."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Literal, Self, Unpack
from uuid import UUID

from memforest_core.assistant.calendar.records import DayDigest, PeriodDigest
from memforest_core.assistant.context.records import Context
from memforest_core.assistant.conversation_window.records import HeldItems, ItemInput, SessionWindow
from memforest_core.assistant.profile.records import Forgetting, Intent, Profile, Turns
from memforest_core.assistant.topics.records import Topic, TopicContext, TopicStats, TopicTurn
from memforest_core.client.api import MemForest
from memforest_core.client.async_calls import Face, Threads
from memforest_core.client.embedded.node import EmbeddedNode
from memforest_core.client.handles import Operation, SessionHandle
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.client.producer import MemForestClient, SessionInput
from memforest_core.client.services.service import Services
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.ids import TenantId
from memforest_core.domain.pages import Page
from memforest_core.domain.turns import Turn
from memforest_core.ingest.accept.records import Backlog, Quota, RunningSession, SessionProgress, TenantLimits
from memforest_core.lifecycle.bundle.records import ExportFormat
from memforest_core.lifecycle.bundle.service import Watch
from memforest_core.lifecycle.correct.records import Pins
from memforest_core.lifecycle.erase.records import Receipt
from memforest_core.lifecycle.merge.records import ConflictReport
from memforest_core.lifecycle.rebuild.records import Plan
from memforest_core.lifecycle.retain.records import Policy, Preview
from memforest_core.observe.reading.records import StoredFact, StoredNode, StoredSession, StoredTree
from memforest_core.observe.records import LoggedCall
from memforest_core.observe.webhooks.records import Delivery, Endpoint, NewEndpoint
from memforest_core.observe.webhooks.service import Webhooks
from memforest_core.recall.answer import Answer
from memforest_core.recall.request import RecallOptions
from memforest_core.recall.states import Timeline
from memforest_core.settings import Settings
from memforest_core.store.engine import Connection
from memforest_core.work.audit import AuditHead, AuditReport
from memforest_core.work.dead import DeadLetters
from memforest_core.work.records import (
    Acted,
    AuditEntry,
    DeadDetail,
    DeadKind,
    DeadLetter,
    Numbers,
    OperationTask,
    TaskId,
)

class AsyncDeadLetters(Face[DeadLetters]):
    """``DeadLetters`` for asyncio programs: the same methods."""

    async def discard(self, *ids: str) -> Acted:
        """Go on without these: turns stay recallable, summaries stay as they are. Raises as ``retry``."""

    async def list(
        self, owner: str | None = None, *, code: str | None = None, kinds: Sequence[DeadKind] = (), limit: int = 1000
    ) -> Sequence[DeadLetter]:
        """What was given up, by kind, owner and session, at most ``limit``. Raises InvalidInput, NotFound."""

    async def retry(self, *ids: str) -> Acted:
        """Try these again, as if they had never been tried. Raises InvalidInput, NotFound; then none is tried."""

    async def retry_all(
        self, owner: str | None = None, *, code: str | None = None, kinds: Sequence[DeadKind] = ()
    ) -> Acted:
        """Try everything again that was given up: of one owner, with one error, of these kinds. Raises NotFound."""

    async def show(self, id_: str, *, text: bool = False) -> DeadDetail:
        """Everything about one, named by its id or the beginning of it; ``text`` adds what was said.

        Raises InvalidInput, NotFound."""

class AsyncWebhooks(Face[Webhooks]):
    """``Webhooks`` for asyncio programs: the same methods."""

    async def create(self, url: str, events: Sequence[str] | None = None, *, description: str = "") -> NewEndpoint:
        """Have ``events`` (all unless given) posted to ``url`` from now on; the secret is shown this once.

        Raises InvalidInput."""

    async def delete(self, endpoint: UUID | str) -> None:
        """Delete an endpoint with its deliveries. Raises InvalidInput, NotFound."""

    async def deliveries(
        self,
        endpoint: UUID | str | None = None,
        *,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """Deliveries of an ``endpoint``, or of all, the newest first; only those in a ``state`` (such as "dead") where
        one is given. At most ``limit``; ``cursor`` is that of the page before. Raises InvalidInput."""

    async def enable(self, endpoint: UUID | str, enabled: bool = True) -> Endpoint:
        """Enable an endpoint, or with ``enabled`` False disable it: nothing that happens meanwhile is posted to it.

        Raises InvalidInput, NotFound."""

    async def list(self) -> Sequence[Endpoint]:
        """All endpoints, the newest first."""

    async def replay(self, delivery: UUID | str) -> Delivery:
        """Deliver again what was delivered or given up, with all its tries; what is under way stays as it is.

        Raises InvalidInput, NotFound."""

    async def rotate(self, endpoint: UUID | str) -> NewEndpoint:
        """Give an endpoint another secret; the former one signs too for a day. Raises InvalidInput, NotFound."""

class AsyncLifecycle(Face[Lifecycle]):
    """``Lifecycle`` for asyncio programs: the same methods. Wait for an operation with ``wait``, by its id."""

    async def apply_policy(self, owner: str | None = None, *, actor: str, dry_run: bool = False) -> Sequence[Operation]:
        """Forget now what is beyond an owner's policy, or (owner None) beyond anybody's."""

    async def audit(
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

    async def audit_head(self, *, sign: bool = False) -> AuditHead:
        """The newest row of the audit; keep it elsewhere, to prove later that the audit only grew.

        ``sign`` adds a signature with MEMFOREST_DATABASE__AUDIT_KEY. Raises InvalidSettings without that."""

    async def audit_verify(self, head: AuditHead | None = None) -> AuditReport:
        """Read the whole audit, and find rows that were changed, removed or inserted.

        Only a ``head`` of before shows that the newest rows were removed. Raises InvalidSettings for a signed one
        without the key."""

    async def cancel(self, operation: TaskId, *, actor: str) -> Operation:
        """Take an operation back that waits, or a merge, import, export or rebuild that is under way: workers clear
        what it has built and release its forests. Cancelling again is the same.

        Raises InvalidInput (``too_late``) for what is done or can't be taken back any more."""

    async def clear_policy(self, owner: str | None = None, *, actor: str) -> bool:
        """Remove the policy of an owner, or (None) the one for all others; returns whether there was one."""

    async def correct(
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

    async def ended(self, operation: TaskId, timeout_s: float = 300.0) -> OperationTask:
        """Wait, at most ``timeout_s`` seconds, until an operation is done, was given up or cancelled.

        Raises WaitTimeout."""

    async def export(
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

    async def forget(
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

    async def import_(
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

    async def merge(
        self, sources: Sequence[str], into: str, *, keep_sources: bool = False, actor: str, dry_run: bool = False
    ) -> Operation:
        """Merge the forests of these owners (``sources``) into the forest of another owner (``into``), old or new.

        The sources take no sessions meanwhile, and are gone afterwards unless ``keep_sources``. Calls no model but for
        nodes above what was joined."""

    async def merge_conflicts(self, sources: Sequence[str], into: str) -> ConflictReport:
        """What a merge of ``sources`` into the owner ``into`` would do, and which facts contradict; changes nothing."""

    async def operation(self, operation: TaskId) -> OperationTask:
        """An operation as it is."""

    async def operations(self, limit: int = 100) -> Sequence[OperationTask]:
        """The newest operations, at most ``limit``."""

    async def pin(
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

    async def pins(self, owner: str, *, limit: int = 1000) -> Pins:
        """The pinned sessions, turns and facts of an owner, at most ``limit`` of each."""

    async def policies(self) -> Sequence[Policy]:
        """All policies, the one for all others first."""

    async def preview_policy(self, owner: str) -> Preview:
        """What a policy would delete from an owner's forest now: facts, cells, digests, and what windows hold."""

    async def receipt(self, operation: TaskId) -> Receipt:
        """What a finished deletion (by its operation's id) removed, and what the search for references to it found."""

    async def rematerialize(
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

    async def rematerialize_abandon(self, owner: str) -> int:
        """Delete the hidden forests that abandoned rebuilds of an owner's forest have left; returns how many."""

    async def rematerialize_plan(
        self, owner: str, *, rules: Mapping[str, float] | None = None, extract: bool = False, summaries: bool = False
    ) -> Plan:
        """The cost of a rebuild of an owner's forest: calls, tokens, dollars. Arguments as in ``rematerialize``."""

    async def set_policy(
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

    async def unpin(
        self,
        owner: str,
        fact: UUID | str | None = None,
        *,
        session: str | None = None,
        turn: str | None = None,
        actor: str,
    ) -> Operation:
        """Let policies forget a ``fact``, a ``session`` or a ``turn`` again; arguments as in ``pin``."""

    async def wait(
        self, operation: TaskId, timeout_s: float = 300.0, watch: Callable[[OperationTask], None] = ...
    ) -> OperationTask:
        """Wait, at most ``timeout_s`` seconds, until an operation is done; ``watch`` is given it at each look.

        Raises OperationFailed, WaitTimeout."""

class AsyncMemForest(Face[MemForest]):
    """``MemForest`` for asyncio programs: the same methods, in ``threads`` threads of its own.

    A call that waits for workers (``wait=``, ``flush``, ``wait``) occupies no thread meanwhile, so any number of
    them leaves recall as fast as it is."""

    def __init__(self, memory: MemForest, *, threads: int | Threads = 16) -> None:
        """``threads`` is how many, or those of another facade, which are shared then."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...
    async def answer(
        self,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        *,
        context: bool = False,
        **options: Unpack[RecallOptions],
    ) -> Answer:
        """What a chat model answers from the evidence, citing it, or that it is not in memory; arguments as in recall.

        With ``context`` it reads the profile, the days and the window of the session (``session_id`` of the options,
        else the one that runs or got a turn last) too, and can cite them; not together with ``as_of``.

        One call to the model of ``llm.answer``; without any evidence none. Raises as recall does, InvalidSettings
        without a chat model, and ModelAuthFailed or ModelRejected when no call can succeed. A model that is unavailable
        is no error: the evidence comes back, and ``degraded`` says so."""

    async def append(
        self,
        owner: str,
        session_id: str | None,
        turn: TurnInput,
        *,
        wait: str = "none",
        display_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        channel: str | None = None,
        time_zone: str | None = None,
        close: bool = False,
        transaction: Connection | None = None,
        trace: str | None = None,
        timeout_s: float = 300.0,
    ) -> SessionHandle:
        """Add one turn to a running session; without a ``session_id`` (None) to the one that runs, which the handle
        names. A turn that comes more than ``accept.session_gap_h`` hours after the last one begins the next session.

        It waits up to ``accept.quiet_s`` seconds for the second turn of its cell, and is searchable meanwhile. With
        ``close``, or ``wait`` "facts" or "summaries", the cell is closed instead and extracted at once; the next turn
        begins a new cell. The other arguments, and what is raised, are those of ``enqueue``.

        The handle of a ``MemForest`` names the ``topic`` of the turn, which is stored with it (the setting
        topics.match_on_append). A turn that a ``transaction`` carries, or a ``MemForestClient`` appends, is not
        compared: workers find its topic."""

    async def calls(
        self,
        owner: str | None = None,
        *,
        session_id: str | None = None,
        step: str | None = None,
        outcome: str | None = None,
        since: object | None = None,
        until: object | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[LoggedCall]:
        """The model calls that were made, failed ones too, the newest first: tokens, dollars and latency of each.

        ``owner`` and ``session_id`` select the calls made for them, ``step`` those of one step ("extract", "summarize",
        "browse", "plan", "answer", "profile", "embed", "rerank"), ``outcome`` those that ended so ("ok" or an
        error's code), ``since`` and ``until`` those recorded from that time to before that time (ISO 8601, unix seconds
        or datetimes; UTC without a zone). ``limit`` is the most items of one page, 1 to 1,000; ``cursor`` is that of
        the page before. Without an owner the whole tenant's; an owner without a memory yet has none, and
        ``owner_known`` is False. Raises NotFound for a session that the owner does not have, InvalidInput,
        StoreUnavailable."""

    @property
    def client(self) -> MemForestClient:
        """This object, as what accepts sessions."""

    async def close(self, *, summarize: bool = False, timeout_s: float = 300.0) -> None:
        """As ``MemForest.close``, after the calls under way; waits end with InvalidInput (code "closed")."""

    @classmethod
    async def connect(cls, settings: Settings | None = None, *, threads: int = 16) -> Self:
        """As ``MemForest.connect``."""

    async def context(
        self,
        owner: str,
        session: str | None = None,
        question: str | None = None,
        speaker: str | None = None,
        channel: str | None = None,
        max_tokens: int | None = None,
    ) -> Context:
        """What goes into the prompt of one chat turn: profile, week, today, recalled evidence and the running session.

        ``session`` is the session's id; None (or "LATEST") is the one that runs or, without one, the one that got a
        turn last. One without a turn yet has no window. ``question`` is what is recalled: the message that is to be
        answered; None is the last turn of a user in the session. ``speaker`` (an id or a name) is whom the profile,
        today and the week are about, and bounds evidence to what they said; unless given, the profile is about the
        owner and the days are everybody's. ``channel`` bounds evidence and window to sessions of that ``channel``; the
        profile is of the whole memory, days are left out.
        ``max_tokens`` bounds the estimated tokens of the result's ``text`` (context.max_tokens unless given).

        Each section has its share of the budget; what one does not use goes to the window, then to evidence, profile,
        today and the week. Nothing is there twice. What is left out is named with the reason, what failed in
        ``degraded``. Calls to a model are made as ``profile`` and ``window`` make them, a profile's at most once in
        context.profile_every_s; with context.merge one more call makes one text of profile, today and the week. An
        owner without a memory gets an empty context. Raises InvalidInput, StoreUnavailable."""

    async def day(self, owner: str, date: date | str, speaker: str | None = None) -> DayDigest:
        """What happened on a day, in the owner's time zone, speaker by speaker.

        ``date`` is a date or ISO 8601 ("2026-11-22"). ``speaker`` (an id, a name, a nickname or a mention) is whose day
        it is alone: what that person said and did, and what others said of them. A digest that is missing or out of
        date is made now for everybody: one call to the model of ``llm.summarize`` for 25 speakers (none where their
        words are short, some for a very long day); without a model, rules pick, and ``extractive`` says so. A day whose
        turns are the same as when its digest was made is never made again. A model that is unavailable is no error:
        ``degraded`` says so. A day without turns, or of an owner without a memory, has no digest (``made`` is False);
        one without a word of or about the ``speaker`` has no ``speakers``. Raises InvalidInput, StoreUnavailable."""

    async def days(
        self, owner: str, *, speaker: str | None = None, limit: int = 30, cursor: str | None = None
    ) -> Page[DayDigest]:
        """An owner's days on which something was said, the newest first, with their digests.

        ``speaker`` is whose days these are, as in ``day``; a page has fewer then, as days without that person are left
        out. ``limit`` is the most days of one page, 1 to 1,000; ``cursor`` is that of the page before. Digests are made
        as ``day`` does, ``calendar.at_once`` at most in one call: of other days ``made`` is False. Raises InvalidInput,
        StoreUnavailable."""

    @cached_property
    def dead(self) -> AsyncDeadLetters:
        """``DeadLetters`` for asyncio programs: the same methods."""

    @classmethod
    async def embedded(
        cls, path: str | Path, settings: Settings | None = None, *, concurrency: int = 8, threads: int = 16
    ) -> Self:
        """As ``MemForest.embedded``."""

    @property
    def embedded_node(self) -> EmbeddedNode | None:
        """The node that this object owns, None with services that run elsewhere."""

    async def enqueue(
        self,
        owner: str,
        session_id: str,
        turns: Sequence[TurnInput],
        *,
        wait: str = "none",
        started_at: object | None = None,
        display_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        channel: str | None = None,
        time_zone: str | None = None,
        backfill: bool = False,
        transaction: Connection | None = None,
        trace: str | None = None,
        room_timeout_s: float = 0.0,
        timeout_s: float = 300.0,
    ) -> SessionHandle:
        """Store a session and wake the workers; returns as soon as it is durable.

        ``turns`` are mappings as TurnInput; messages of chat APIs are taken as they are (docs/input.md).
        ``wait`` is "none", "raw", "facts" or "summaries": the stage to wait for, at most ``timeout_s`` seconds.
        ``started_at`` is the time of turns without one (ISO 8601, unix seconds or a datetime; now unless given).
        ``display_name`` is what an owner is called whose id is no name; it stays until another is given. ``metadata``
        are the session's own fields (JSON values), by which recall can filter, ``channel`` is where it takes place (at
        most 200 characters), to which recall can be bounded; given again, they replace the former. So does
        ``time_zone`` (an IANA name): where the session's speakers are, and a new owner; otherwise the owner's zone.
        ``backfill`` puts the session behind live ones. ``transaction`` is an open SQLAlchemy connection (or ORM
        session) whose commit then stores the session together with the app's own data; it can't be waited for.
        ``trace`` is the W3C traceparent to follow a new session under. A full queue refuses; with ``room_timeout_s``
        the call first waits that many seconds for room.

        Raises InvalidInput, SessionConflict, StoreUnavailable, and QuotaExceeded, whose ``retry_after`` says in how
        many seconds to come back; nothing is stored then. Raises WaitTimeout when the stage is not reached in time;
        the session is stored."""

    async def enqueue_many(
        self,
        sessions: Iterable[SessionInput],
        *,
        wait: str = "none",
        backfill: bool = True,
        timeout_s: float = 300.0,
        room_timeout_s: float = 3600.0,
    ) -> list[SessionHandle]:
        """As ``enqueue_stream``, with all handles at the end; then wait for all of them, as ``enqueue`` does.

        The handles hold ids and counts, no turns. ``timeout_s`` are the seconds to wait for one session."""

    def enqueue_stream(
        self, sessions: Iterable[SessionInput], *, backfill: bool = True, room_timeout_s: float = 3600.0
    ) -> AsyncIterator[SessionHandle]:
        """As ``MemForest.enqueue_stream``."""

    async def facts(
        self,
        owner: str,
        *,
        session_id: str | None = None,
        about: str | None = None,
        attribute: str | None = None,
        since: object | None = None,
        until: object | None = None,
        pinned: bool | None = None,
        superseded: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[StoredFact]:
        """An owner's facts with the turns that say them, the one that was learned last first.

        ``session_id`` selects what one session says, ``about`` (a name or a speaker's id) what is about somebody,
        ``attribute`` one state ("residence"), ``since`` and ``until`` what happened or, without a date, was mentioned
        from that time to before that time (ISO 8601, unix seconds or datetimes), ``pinned`` and ``superseded`` what is
        (True) or is not (False). ``limit`` and ``cursor`` as in ``sessions``. Raises NotFound for a session that the
        owner does not have, InvalidInput, StoreUnavailable."""

    async def flush(self, owner: str, timeout_s: float = 300.0) -> Backlog:
        """Wait, at most ``timeout_s`` seconds, until all that was accepted for the owner is durable, placed, refreshed
        and indexed. Raises NotFound, WaitTimeout."""

    def for_tenant(self, tenant: str) -> AsyncMemForest:
        """As ``MemForest.for_tenant``, over the same threads."""

    async def forget(
        self,
        owner: str,
        words: str,
        dry_run: bool = False,
        *,
        about: str | None = None,
        turns: Turns = "alone",
        actor: str = "memory",
        wait: bool = False,
        timeout_s: float = 300.0,
    ) -> Forgetting:
        """Delete the facts that ``words`` name ("where I work", "that I like jazz"); says what was found and goes.

        With a chat model one call chooses among the facts that are found; without, those that say all that the words
        say. Words that fit several things choose none. ``about`` is whom "I" in them means (a speaker's id or name);
        the owner unless given. Words that give an alias ("that gruzilkin is Sergey") mean the notes that gave it; the
        name goes with their turns. ``turns`` says what becomes of the turns that say the facts: "alone" deletes those
        that say nothing else, "all" also those that say other things, "none" leaves them; ``left`` of the result names
        what stays. ``dry_run`` only says what would go. ``actor`` is the name for the audit. Returns when the deletions
        are requested; with ``wait`` when they are done, at most ``timeout_s`` seconds later, with their receipts. A
        model that is unavailable, or names what it was not shown, chooses nothing, and ``degraded`` says so.
        Raises InvalidInput, ForestFrozen, StoreUnavailable; with ``wait`` also OperationFailed and WaitTimeout."""

    async def ingest(
        self,
        owner: str,
        session_id: str,
        turns: Sequence[TurnInput],
        *,
        wait: str = "none",
        started_at: object | None = None,
        display_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        channel: str | None = None,
        time_zone: str | None = None,
        backfill: bool = False,
        transaction: Connection | None = None,
        trace: str | None = None,
        room_timeout_s: float = 0.0,
        timeout_s: float = 300.0,
    ) -> SessionHandle:
        """Store a session and wake the workers; returns as soon as it is durable.

        ``turns`` are mappings as TurnInput; messages of chat APIs are taken as they are (docs/input.md).
        ``wait`` is "none", "raw", "facts" or "summaries": the stage to wait for, at most ``timeout_s`` seconds.
        ``started_at`` is the time of turns without one (ISO 8601, unix seconds or a datetime; now unless given).
        ``display_name`` is what an owner is called whose id is no name; it stays until another is given. ``metadata``
        are the session's own fields (JSON values), by which recall can filter, ``channel`` is where it takes place (at
        most 200 characters), to which recall can be bounded; given again, they replace the former. So does
        ``time_zone`` (an IANA name): where the session's speakers are, and a new owner; otherwise the owner's zone.
        ``backfill`` puts the session behind live ones. ``transaction`` is an open SQLAlchemy connection (or ORM
        session) whose commit then stores the session together with the app's own data; it can't be waited for.
        ``trace`` is the W3C traceparent to follow a new session under. A full queue refuses; with ``room_timeout_s``
        the call first waits that many seconds for room.

        Raises InvalidInput, SessionConflict, StoreUnavailable, and QuotaExceeded, whose ``retry_after`` says in how
        many seconds to come back; nothing is stored then. Raises WaitTimeout when the stage is not reached in time;
        the session is stored."""

    async def ingest_many(
        self,
        sessions: Iterable[SessionInput],
        *,
        wait: str = "none",
        backfill: bool = True,
        timeout_s: float = 300.0,
        room_timeout_s: float = 3600.0,
    ) -> list[SessionHandle]:
        """As ``enqueue_stream``, with all handles at the end; then wait for all of them, as ``enqueue`` does.

        The handles hold ids and counts, no turns. ``timeout_s`` are the seconds to wait for one session."""

    async def intent(
        self,
        text: str,
        owner: str | None = None,
        *,
        speaker: str | None = None,
        addressees: Sequence[str] | None = None,
    ) -> Intent:
        """What a text that is addressed to the assistant requests of its memory: to remember or forget something, what
        is known about the writer or somebody else, or nothing. Nothing is done about it.

        ``text`` has at most 8,192 characters. ``owner`` is the memory whose speakers ``about`` of the result may mean,
        ``speaker`` who wrote the text (an id or a name). With ``addressees`` (at most 16 names or ids of the assistant,
        such as "bot") a text without one of them requests nothing; without, any text is taken as addressed. With a chat
        model one call reads it (a second one when the answer can't be used); else, or when the model is unavailable,
        rules do, and ``degraded`` says so in the latter case. Raises InvalidInput, StoreUnavailable."""

    @cached_property
    def lifecycle(self) -> AsyncLifecycle:
        """``Lifecycle`` for asyncio programs: the same methods. Wait for an operation with ``wait``, by its id."""

    async def node(self, node_id: UUID | str, *, limit: int = 100, cursor: str | None = None) -> StoredNode:
        """A node of a tree, its parent, its neighbours on its level, and a page of its children.

        ``limit`` and ``cursor`` are those of the children. Raises NotFound, InvalidInput, StoreUnavailable."""

    async def period(self, owner: str, period: str, speaker: str | None = None) -> PeriodDigest:
        """One text of a month ("2026-11"), a year ("2026") or the whole life ("life"), the most recent first; of a
        ``speaker`` as in ``day``.

        A month is made from its days, a year from its months, the life from its years; one reading makes
        ``calendar.at_once`` digests of days at most, the newest first, and ``missing`` lists those still to be
        made. Raises InvalidInput, StoreUnavailable."""

    async def profile(self, owner: str, about: str | None = None, *, write: bool = True) -> Profile:
        """What is known now of somebody: the states that hold, and pinned facts that are none, with their ids.

        ``about`` is a speaker's id or name, or another name; None is the owner. With a chat model ``text`` is sentences
        in the third person: one call at temperature 0 (a second one when the answer can't be used), stored under a hash
        of the facts, the model and the prompt, until one of the memory's words is deleted. Without a model it is a
        list; with one that is unavailable too, and ``degraded`` says so. Without ``write`` no call is made: a text that
        is not stored already is a list. An owner without a memory yet gets an empty one, and ``owner_known`` is False.
        Raises InvalidInput, StoreUnavailable."""

    async def quota(self, tenant: str | None = None) -> Quota:
        """The limits of a ``tenant`` (this one by default), and how much of them is used now."""

    async def recall(
        self,
        owner: str | None = None,
        question: str | None = None,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> RecallResult:
        """The ``k`` best evidence items (1 to 1,000; the setting recall.k unless given) for a question, best first.

        ``question`` has at most 8,192 characters. ``mode`` is "auto", "flat", "embedding", "llm" or "planner".
        Options: ``since``, ``until``, ``between`` and ``as_of`` bound the time, ``asked_at`` is the timestamp of the
        question (ISO 8601, unix seconds or datetimes), ``max_tokens`` and ``budget_ms`` (milliseconds) what may be
        spent, ``neighbours`` adds that many items before and after each, ``session_id`` names the running session,
        ``sessions``, ``exclude_sessions``, ``channels``, ``speakers``, ``roles``, ``metadata`` and ``trees`` say what
        to search, and ``min_score`` leaves out what scores less (RecallOptions says more). ``vector`` is given instead
        of a question. ``owners`` are further owners (or all of them, without ``owner``): one recall over at most 16
        forests, whose items say whose they are. ``sources`` are external collections that are searched in addition.
        An owner without a memory yet gets an empty result whose ``owner_known`` is False. An index, a model or a source
        that is unavailable is no error: ``degraded`` says what was missing. Raises InvalidInput (also for a mode that
        needs a chat model when none is configured), StoreUnavailable."""

    async def recall_many(
        self, questions: Sequence[tuple[str, str]], k: int | None = None, mode: str | None = None
    ) -> list[RecallResult]:
        """Recall for many (owner, question), eight at once; results in their order. ``k`` and ``mode`` as in recall."""

    async def remember(
        self,
        owner: str,
        text: str,
        about: str | None = None,
        *,
        alias: str | None = None,
        at: object | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        wait: str = "none",
        timeout_s: float = 300.0,
    ) -> SessionHandle:
        """Keep a note: a statement such as "I moved to Miami", as a session of one turn whose facts are pinned.

        ``about`` is whom it is about, and "I" in it (a speaker's id or name, or another name); the owner unless
        given. ``alias`` is another name of theirs, which finds them while the note is stored; a text such as "gruzilkin
        is Sergey" gives one itself when either is a speaker. A name of another speaker is refused (InvalidInput); in a
        text it is no alias, and ``degraded`` of the handle says so. ``at`` is its time (ISO 8601, unix seconds or a
        datetime; now unless given): of two notes that contradict each other the later one is current; the timeline has
        both. ``session_id`` is the note's own id; the same note again under it changes nothing. ``metadata``, ``wait``
        and what is raised are as in ``enqueue``."""

    @property
    def services(self) -> Services:
        """The services behind, for tools that look inside."""

    async def session_close(
        self, owner: str, session_id: str | None = None, *, summarize: bool = True
    ) -> RunningSession | None:
        """Close the session that runs, or the named one; None when none runs.

        The next turn without a session id begins a new one. With ``summarize`` the session's last cell is extracted at
        once instead of after the quiet period, and the refresh of its summaries is due; ``wait(owner, session_id,
        "summaries")`` waits for them. Raises NotFound for an owner or a session that does not exist, else as
        ``session_start``."""

    async def session_current(self, owner: str) -> RunningSession | None:
        """The session that runs; None when none does. Raises InvalidInput, StoreUnavailable."""

    async def session_start(self, owner: str, session_id: str | None = None) -> RunningSession:
        """Begin a session, for apps that have no session ids of their own: ``append`` without one goes to it.

        The session that ran before is left: it can be gone back to. Without a ``session_id`` one is made, from the time
        and a random part. Raises InvalidInput, ForestFrozen, StoreUnavailable."""

    async def session_switch(self, owner: str, session_id: str) -> RunningSession:
        """Go on with a session of before: ``append`` without a session id goes to it now.

        Raises NotFound for a session that the owner does not have, else as ``session_start``."""

    async def sessions(self, owner: str, *, limit: int = 100, cursor: str | None = None) -> Page[StoredSession]:
        """An owner's sessions, the newest first.

        ``limit`` is the most items of one page, 1 to 1,000; ``cursor`` is that of the page before. An owner without a
        memory yet has none, and ``owner_known`` is False. Raises InvalidInput, StoreUnavailable."""

    async def set_limits(self, limits: TenantLimits, tenant: str | None = None) -> None:
        """Give a ``tenant`` (this one by default) limits of its own; None takes the settings'. Raises InvalidInput."""

    @property
    def settings(self) -> Settings:
        """The settings in force."""

    async def status(self, owner: str, session_id: str) -> SessionProgress:
        """How far a session has come, and why no further: ``last_error``. Raises NotFound."""

    async def summarize(
        self, owner: str, *, day: date | str | None = None, session: str | None = None
    ) -> DayDigest | SessionProgress:
        """Summarize a ``day`` or a ``session`` now, whether it is due or not: one of the two is given.

        Of a day (a date or ISO 8601) the digest is made, and returned. Of a session the last cell is extracted at once
        instead of after the quiet period, and the refresh of its summaries is due; how far it has come is returned, and
        ``wait(owner, session, "summaries")`` waits for workers to do it. Raises NotFound for an owner or a session that
        does not exist, ForestFrozen, InvalidInput, StoreUnavailable."""

    @property
    def tenant(self) -> TenantId:
        """The tenant that everything here belongs to."""

    async def timeline(
        self,
        owner: str,
        *,
        entity: str | None = None,
        attribute: str | None = None,
        scene: str | None = None,
        as_of: object | None = None,
        since: object | None = None,
        until: object | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Timeline:
        """The states of an entity, an attribute or a scene in the order of time, each with the turns that say so.

        ``entity`` is a name; without it the states are the owner's own, "*" is everybody. ``attribute`` is what is
        stated ("residence"), ``scene`` a scene's label or id; of several of these, the states that all of them name.
        ``as_of`` leaves out what was said later; ``since`` and ``until`` keep the states that happened or were
        mentioned in that time, both ends included (ISO 8601, unix seconds or datetimes, naive ones in the owner's
        zone). ``limit`` is the most states at once, 1 to 1,000; ``cursor`` is that of the page before. An owner without
        a memory yet has none, and ``owner_known`` is False. Raises InvalidInput (naming what is known),
        StoreUnavailable."""

    async def today(self, owner: str, speaker: str | None = None) -> DayDigest:
        """What happened today, in the owner's time zone, speaker by speaker; see ``day``.

        It is made again at most once in ``calendar.today_s`` seconds, and only if enough turns have come since:
        ``new_turns`` counts those that it does not tell of."""

    async def topic_context(
        self, owner: str, topic: UUID | Literal["current"] | str = "current", *, max_tokens: int | None = None
    ) -> TopicContext:
        """A topic for a prompt: its title and summary as a system message, then its turns in the order of time. The
        "current" topic, that of the owner's newest turn, unless another ``topic`` is named.

        The newest turns that fit ``max_tokens`` estimated tokens (the setting topics.context_tokens unless given) are
        there, without a gap; ``left_out`` says how many are not. Counts as an access, which warms a cold topic. Raises
        NotFound for a topic that the owner does not have, InvalidInput, StoreUnavailable."""

    async def topic_history(
        self,
        owner: str,
        topic: UUID | str,
        *,
        include_compressed: bool = True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[TopicTurn]:
        """All turns of a topic, of both sides, in the order of time.

        A cold topic's turns are there as well; without ``include_compressed`` it has none, and stays cold. Reading
        them counts as an access. ``limit`` and ``cursor`` as in ``topics``; raises as ``topic_context``."""

    async def topic_merge(self, owner: str, a: UUID | str, b: UUID | str) -> Topic:
        """Make one topic of two: ``a`` takes the turns, facts and tags of ``b``, which ends. It is hot, and summarized.

        Raises InvalidInput when both together have more facts than a scene may hold (``reduce.scene_cap``) or are one
        and the same; ForestFrozen, else as ``topic_context``."""

    async def topic_rate(
        self, owner: str, topic: UUID | str, importance: float | None = None, *, useful: bool | None = None
    ) -> Topic:
        """Set how important a topic is, from 0 to 1, or move that by a feedback: a fifth of the way to 1 when it was
        useful, to 0 when it was not.

        From then on this counts instead of what its turns state, and accesses teach on top of it. Raises InvalidInput
        unless exactly one of both is given, ForestFrozen, else as ``topic_context``."""

    async def topic_stats(self, owner: str, topic: UUID | str) -> TopicStats:
        """Counts of a topic: turns, facts, dates, accesses, what its texts take, how fast it fades, and its points.

        No access. Raises as ``topic_context``."""

    async def topic_tag(self, owner: str, topic: UUID | str, tags: Sequence[str]) -> Topic:
        """Give a topic these tags instead of those it has; none removes them. At most 20, of 60 characters each.

        They are cleared when a turn or fact of the topic is deleted. Raises ForestFrozen, else as ``topic_context``."""

    async def topics(self, owner: str, *, limit: int = 100, cursor: str | None = None) -> Page[Topic]:
        """An owner's topics, the one with the newest turn first.

        Turns that are appended have their topics at once, those of whole sessions when workers place their facts.
        ``limit`` is the most items of one page, 1 to 1,000; ``cursor`` is that of the page before. An owner without a
        memory yet has none, and ``owner_known`` is False. Raises InvalidInput, StoreUnavailable."""

    async def trees(
        self, owner: str, *, kind: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[StoredTree]:
        """An owner's trees with the summaries of their roots, in the order of kind and scope.

        ``kind`` is "session", "entity" or "scene"; all unless given. ``limit`` and ``cursor`` as in ``sessions``.
        Raises InvalidInput, StoreUnavailable."""

    async def turns(
        self,
        owner: str,
        session_id: str,
        *,
        last: int | None = None,
        before: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Turn]:
        """A session's turns in order, page by page from the first one; or its ``last`` so many turns.

        ``before`` is a turn's id: only those before it. ``limit`` and ``cursor`` as in ``sessions``. Raises NotFound
        for a session or a turn that the owner does not have, InvalidInput, StoreUnavailable."""

    async def wait(
        self, owner: str, session_id: str, stage: str = "facts", timeout_s: float = 300.0
    ) -> SessionProgress:
        """Wait, at most ``timeout_s`` seconds, until a session's "raw" cells, "facts" or "summaries" can be recalled.

        Raises NotFound, and WaitTimeout whose ``last_error`` says why it goes no further."""

    @cached_property
    def webhooks(self) -> AsyncWebhooks:
        """``Webhooks`` for asyncio programs: the same methods."""

    async def week(self, owner: str, speaker: str | None = None) -> PeriodDigest:
        """One text of the six days before today (days 2 to 7), the most recent first; of a ``speaker`` as in ``day``.

        Made from the digests of those days, which are made too where they are missing or out of date; one call to the
        model where they don't fit ``calendar.week_chars`` together. Raises InvalidInput, StoreUnavailable."""

    async def window(
        self, owner: str, session_id: str = "LATEST", *, max_tokens: int | None = None, last_turns: int | None = None
    ) -> SessionWindow:
        """A session as a model should see it: the last turns word for word, older ones as summaries, and items.

        ``session_id`` "LATEST" names the session that runs or, without one, the one that got a turn last.
        ``max_tokens`` bounds the estimated tokens (the setting window.max_tokens unless given), ``last_turns`` turns
        stay word for word (window.last_turns). Summaries are those of the session's tree, where they are clean. When
        12 turns have gathered without, all but ``last_turns`` of them are compacted: one call to the
        model of ``llm.summarize`` makes the next summary of the one before and what is new; without a model, rules do.
        A model that is unavailable is no error: ``degraded`` says so. An owner without a memory, or without a session
        for LATEST, gets an empty window. Raises NotFound for a session that the owner does not have, InvalidInput,
        StoreUnavailable."""

    async def window_put(self, owner: str, session_id: str, items: Sequence[ItemInput]) -> HeldItems:
        """Put what recall found into a session's window: references to facts and turns, never copies of words.

        ``items`` are items of evidence, ids of facts, or pairs of a session's and a turn's id, the best first, at most
        1,000. They stay until there are more than window.items: then those fall out that were put in (again)
        the longest ago (window.eviction "LRU"), or put in first ("FIFO"). What is forgotten falls out at once.
        ``session_id`` as in ``window``. Raises NotFound for a session that is not stored, InvalidInput,
        StoreUnavailable."""
