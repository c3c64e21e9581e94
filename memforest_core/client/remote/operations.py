"""Every operation as a call over HTTP, with the signature that the library gives it.

Made by ``python -m memforest_core.service.http.remote_source``; a test compares it with the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memforest_core.assistant.calendar.records import DayDigest, PeriodDigest
from memforest_core.assistant.context.result import Context
from memforest_core.assistant.conversation_window.records import HeldItems, SessionWindow
from memforest_core.assistant.profile.records import Forgetting, Intent, Profile
from memforest_core.assistant.topics.records import Topic, TopicContext, TopicStats, TopicTurn
from memforest_core.client.remote.exchange import Exchange, ask, ask_until, hand_over
from memforest_core.client.remote.records import Stored
from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.pages import Page
from memforest_core.domain.turns import Turn
from memforest_core.ingest.accept.records import Backlog, Quota, RunningSession, SessionProgress
from memforest_core.lifecycle.correct.records import Pins
from memforest_core.lifecycle.erase.receipt import Receipt
from memforest_core.lifecycle.merge.report import ConflictReport
from memforest_core.lifecycle.rebuild.plan import Plan
from memforest_core.lifecycle.retain.records import Policy, Preview
from memforest_core.observe.reading.records import StoredFact, StoredNode, StoredSession, StoredTree
from memforest_core.observe.records import LoggedCall
from memforest_core.observe.webhooks.records import Delivery, Endpoint, NewEndpoint
from memforest_core.recall.answering.answer import Answer
from memforest_core.recall.timeline.states import Timeline
from memforest_core.work.records import Acted, AuditEntry, DeadDetail, DeadLetter, OperationTask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date
    from typing import Unpack
    from uuid import UUID

    from memforest_core.assistant.conversation_window.naming import ItemInput
    from memforest_core.assistant.profile.records import Turns
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.ingest.accept.records import TenantLimits
    from memforest_core.recall.asking import RecallOptions
    from memforest_core.store.engine import Connection
    from memforest_core.work.records import DeadKind, TaskId


class Operations:
    """Calls by the names of the library's methods."""

    def enqueue(
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
    ) -> Exchange[Stored]:
        """As ``MemForestClient.enqueue``."""
        return hand_over(
            "enqueue",
            Stored,
            {
                "owner": owner,
                "session_id": session_id,
                "turns": turns,
                "wait": wait,
                "started_at": started_at,
                "display_name": display_name,
                "metadata": metadata,
                "channel": channel,
                "time_zone": time_zone,
                "backfill": backfill,
                "transaction": transaction,
                "trace": trace,
                "room_timeout_s": room_timeout_s,
                "timeout_s": timeout_s,
            },
        )

    def append(
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
    ) -> Exchange[Stored]:
        """As ``MemForestClient.append``."""
        return hand_over(
            "append",
            Stored,
            {
                "owner": owner,
                "session_id": session_id,
                "turn": turn,
                "wait": wait,
                "display_name": display_name,
                "metadata": metadata,
                "channel": channel,
                "time_zone": time_zone,
                "close": close,
                "transaction": transaction,
                "trace": trace,
                "timeout_s": timeout_s,
            },
        )

    def status(self, owner: str, session_id: str) -> Exchange[SessionProgress]:
        """As ``MemForestClient.status``."""
        return ask("status", SessionProgress, {"owner": owner, "session_id": session_id})

    def wait(
        self, owner: str, session_id: str, stage: str = "facts", timeout_s: float = 300.0
    ) -> Exchange[SessionProgress]:
        """As ``MemForestClient.wait``."""
        return ask_until(
            "wait", SessionProgress, {"owner": owner, "session_id": session_id, "stage": stage, "timeout_s": timeout_s}
        )

    def flush(self, owner: str, timeout_s: float = 300.0) -> Exchange[Backlog]:
        """As ``MemForestClient.flush``."""
        return ask_until("flush", Backlog, {"owner": owner, "timeout_s": timeout_s})

    def session_start(self, owner: str, session_id: str | None = None) -> Exchange[RunningSession]:
        """As ``RunningSessions.start``."""
        return ask("session_start", RunningSession, {"owner": owner, "session_id": session_id})

    def session_switch(self, owner: str, session_id: str) -> Exchange[RunningSession]:
        """As ``RunningSessions.switch``."""
        return ask("session_switch", RunningSession, {"owner": owner, "session_id": session_id})

    def session_close(
        self, owner: str, session_id: str | None = None, *, summarize: bool = True
    ) -> Exchange[RunningSession | None]:
        """As ``RunningSessions.close``."""
        return ask(
            "session_close", RunningSession | None, {"owner": owner, "session_id": session_id, "summarize": summarize}
        )

    def session_current(self, owner: str) -> Exchange[RunningSession | None]:
        """As ``RunningSessions.current``."""
        return ask("session_current", RunningSession | None, {"owner": owner})

    def quota(self) -> Exchange[Quota]:
        """As ``MemForestClient.quota``."""
        return ask("quota", Quota, {})

    def set_limits(self, limits: TenantLimits) -> Exchange[None]:
        """As ``MemForestClient.set_limits``."""
        return ask("set_limits", None, {"limits": limits})

    def recall(
        self,
        owner: str | None = None,
        question: str | None = None,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> Exchange[RecallResult]:
        """As ``RecallService.recall``."""
        return ask("recall", RecallResult, {"owner": owner, "question": question, "k": k, "mode": mode, **options})

    def recall_many(
        self, questions: Sequence[tuple[str, str]], k: int | None = None, mode: str | None = None
    ) -> Exchange[list[RecallResult]]:
        """As ``MemForest.recall_many``."""
        return ask("recall_many", list[RecallResult], {"questions": questions, "k": k, "mode": mode})

    def answer(
        self,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        *,
        context: bool = False,
        **options: Unpack[RecallOptions],
    ) -> Exchange[Answer]:
        """As ``ContextualAnswers.answer``."""
        return ask(
            "answer",
            Answer,
            {"owner": owner, "question": question, "k": k, "mode": mode, "context": context, **options},
        )

    def timeline(
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
    ) -> Exchange[Timeline]:
        """As ``TimelineService.timeline``."""
        return ask(
            "timeline",
            Timeline,
            {
                "owner": owner,
                "entity": entity,
                "attribute": attribute,
                "scene": scene,
                "as_of": as_of,
                "since": since,
                "until": until,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def context(
        self,
        owner: str,
        session: str | None = None,
        question: str | None = None,
        speaker: str | None = None,
        channel: str | None = None,
        max_tokens: int | None = None,
    ) -> Exchange[Context]:
        """As ``ContextService.context``."""
        return ask(
            "context",
            Context,
            {
                "owner": owner,
                "session": session,
                "question": question,
                "speaker": speaker,
                "channel": channel,
                "max_tokens": max_tokens,
            },
        )

    def sessions(self, owner: str, *, limit: int = 100, cursor: str | None = None) -> Exchange[Page[StoredSession]]:
        """As ``ReadingService.sessions``."""
        return ask("sessions", Page[StoredSession], {"owner": owner, "limit": limit, "cursor": cursor})

    def turns(
        self,
        owner: str,
        session_id: str,
        *,
        last: int | None = None,
        before: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Exchange[Page[Turn]]:
        """As ``ReadingService.turns``."""
        return ask(
            "turns",
            Page[Turn],
            {
                "owner": owner,
                "session_id": session_id,
                "last": last,
                "before": before,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def facts(
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
    ) -> Exchange[Page[StoredFact]]:
        """As ``ReadingService.facts``."""
        return ask(
            "facts",
            Page[StoredFact],
            {
                "owner": owner,
                "session_id": session_id,
                "about": about,
                "attribute": attribute,
                "since": since,
                "until": until,
                "pinned": pinned,
                "superseded": superseded,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def trees(
        self, owner: str, *, kind: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Exchange[Page[StoredTree]]:
        """As ``ReadingService.trees``."""
        return ask("trees", Page[StoredTree], {"owner": owner, "kind": kind, "limit": limit, "cursor": cursor})

    def node(self, node_id: UUID | str, *, limit: int = 100, cursor: str | None = None) -> Exchange[StoredNode]:
        """As ``ReadingService.node``."""
        return ask("node", StoredNode, {"node_id": node_id, "limit": limit, "cursor": cursor})

    def calls(
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
    ) -> Exchange[Page[LoggedCall]]:
        """As ``InspectionService.calls``."""
        return ask(
            "calls",
            Page[LoggedCall],
            {
                "owner": owner,
                "session_id": session_id,
                "step": step,
                "outcome": outcome,
                "since": since,
                "until": until,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def remember(
        self,
        owner: str,
        text: str,
        about: str | None = None,
        *,
        at: object | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        wait: str = "none",
        timeout_s: float = 300.0,
    ) -> Exchange[Stored]:
        """As ``MemForestClient.remember``."""
        return hand_over(
            "remember",
            Stored,
            {
                "owner": owner,
                "text": text,
                "about": about,
                "at": at,
                "session_id": session_id,
                "metadata": metadata,
                "wait": wait,
                "timeout_s": timeout_s,
            },
        )

    def forget(
        self,
        owner: str,
        words: str,
        dry_run: bool = False,
        *,
        turns: Turns = "alone",
        actor: str = "memory",
        wait: bool = False,
        timeout_s: float = 300.0,
    ) -> Exchange[Forgetting]:
        """As ``Forgetter.forget``."""
        return ask(
            "forget",
            Forgetting,
            {
                "owner": owner,
                "words": words,
                "dry_run": dry_run,
                "turns": turns,
                "actor": actor,
                "wait": wait,
                "timeout_s": timeout_s,
            },
        )

    def profile(self, owner: str, about: str | None = None, *, write: bool = True) -> Exchange[Profile]:
        """As ``Describer.profile``."""
        return ask("profile", Profile, {"owner": owner, "about": about, "write": write})

    def intent(self, text: str) -> Exchange[Intent]:
        """As ``Intents.intent``."""
        return ask("intent", Intent, {"text": text})

    def window(
        self, owner: str, session_id: str = "LATEST", *, max_tokens: int | None = None, last_turns: int | None = None
    ) -> Exchange[SessionWindow]:
        """As ``WindowService.window``."""
        return ask(
            "window",
            SessionWindow,
            {"owner": owner, "session_id": session_id, "max_tokens": max_tokens, "last_turns": last_turns},
        )

    def window_put(self, owner: str, session_id: str, items: Sequence[ItemInput]) -> Exchange[HeldItems]:
        """As ``WindowService.window_put``."""
        return ask("window_put", HeldItems, {"owner": owner, "session_id": session_id, "items": items})

    def today(self, owner: str) -> Exchange[DayDigest]:
        """As ``CalendarService.today``."""
        return ask("today", DayDigest, {"owner": owner})

    def day(self, owner: str, date: date | str) -> Exchange[DayDigest]:
        """As ``CalendarService.day``."""
        return ask("day", DayDigest, {"owner": owner, "date": date})

    def week(self, owner: str) -> Exchange[PeriodDigest]:
        """As ``CalendarService.week``."""
        return ask("week", PeriodDigest, {"owner": owner})

    def days(self, owner: str, *, limit: int = 30, cursor: str | None = None) -> Exchange[Page[DayDigest]]:
        """As ``CalendarService.days``."""
        return ask("days", Page[DayDigest], {"owner": owner, "limit": limit, "cursor": cursor})

    def period(self, owner: str, period: str) -> Exchange[PeriodDigest]:
        """As ``CalendarService.period``."""
        return ask("period", PeriodDigest, {"owner": owner, "period": period})

    def summarize(
        self, owner: str, *, day: date | str | None = None, session: str | None = None
    ) -> Exchange[DayDigest | SessionProgress]:
        """As ``Summarizing.summarize``."""
        return ask("summarize", DayDigest | SessionProgress, {"owner": owner, "day": day, "session": session})

    def topics(self, owner: str, *, limit: int = 100, cursor: str | None = None) -> Exchange[Page[Topic]]:
        """As ``TopicService.topics``."""
        return ask("topics", Page[Topic], {"owner": owner, "limit": limit, "cursor": cursor})

    def topic_context(self, owner: str, topic: UUID | str, *, max_tokens: int | None = None) -> Exchange[TopicContext]:
        """As ``TopicService.topic_context``."""
        return ask("topic_context", TopicContext, {"owner": owner, "topic": topic, "max_tokens": max_tokens})

    def topic_history(
        self,
        owner: str,
        topic: UUID | str,
        *,
        include_compressed: bool = True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Exchange[Page[TopicTurn]]:
        """As ``TopicService.topic_history``."""
        return ask(
            "topic_history",
            Page[TopicTurn],
            {
                "owner": owner,
                "topic": topic,
                "include_compressed": include_compressed,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def topic_stats(self, owner: str, topic: UUID | str) -> Exchange[TopicStats]:
        """As ``TopicService.topic_stats``."""
        return ask("topic_stats", TopicStats, {"owner": owner, "topic": topic})

    def topic_tag(self, owner: str, topic: UUID | str, tags: Sequence[str]) -> Exchange[Topic]:
        """As ``TopicService.topic_tag``."""
        return ask("topic_tag", Topic, {"owner": owner, "topic": topic, "tags": tags})

    def topic_merge(self, owner: str, a: UUID | str, b: UUID | str) -> Exchange[Topic]:
        """As ``TopicService.topic_merge``."""
        return ask("topic_merge", Topic, {"owner": owner, "a": a, "b": b})


class LifecycleOperations:
    """Calls by the names of the library's methods."""

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
    ) -> Exchange[OperationTask]:
        """As ``Lifecycle.forget``."""
        return ask(
            "lifecycle.forget",
            OperationTask,
            {
                "owner": owner,
                "session": session,
                "turns": turns,
                "fact": fact,
                "since": since,
                "until": until,
                "speaker": speaker,
                "everything": everything,
                "actor": actor,
                "dry_run": dry_run,
            },
        )

    def receipt(self, operation: TaskId) -> Exchange[Receipt]:
        """As ``Lifecycle.receipt``."""
        return ask("lifecycle.receipt", Receipt, {"operation": operation})

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
    ) -> Exchange[OperationTask]:
        """As ``Lifecycle.correct``."""
        return ask(
            "lifecycle.correct",
            OperationTask,
            {
                "owner": owner,
                "fact": fact,
                "text": text,
                "start": start,
                "end": end,
                "value": value,
                "erase": erase,
                "actor": actor,
                "dry_run": dry_run,
            },
        )

    def pin(
        self,
        owner: str,
        fact: UUID | str | None = None,
        *,
        session: str | None = None,
        turn: str | None = None,
        actor: str,
    ) -> Exchange[OperationTask]:
        """As ``Lifecycle.pin``."""
        return ask(
            "lifecycle.pin",
            OperationTask,
            {"owner": owner, "fact": fact, "session": session, "turn": turn, "actor": actor},
        )

    def unpin(
        self,
        owner: str,
        fact: UUID | str | None = None,
        *,
        session: str | None = None,
        turn: str | None = None,
        actor: str,
    ) -> Exchange[OperationTask]:
        """As ``Lifecycle.unpin``."""
        return ask(
            "lifecycle.unpin",
            OperationTask,
            {"owner": owner, "fact": fact, "session": session, "turn": turn, "actor": actor},
        )

    def pins(self, owner: str, *, limit: int = 1000) -> Exchange[Pins]:
        """As ``Lifecycle.pins``."""
        return ask("lifecycle.pins", Pins, {"owner": owner, "limit": limit})

    def merge(
        self, sources: Sequence[str], into: str, *, keep_sources: bool = False, actor: str, dry_run: bool = False
    ) -> Exchange[OperationTask]:
        """As ``Lifecycle.merge``."""
        return ask(
            "lifecycle.merge",
            OperationTask,
            {"sources": sources, "into": into, "keep_sources": keep_sources, "actor": actor, "dry_run": dry_run},
        )

    def merge_conflicts(self, sources: Sequence[str], into: str) -> Exchange[ConflictReport]:
        """As ``Lifecycle.merge_conflicts``."""
        return ask("lifecycle.merge_conflicts", ConflictReport, {"sources": sources, "into": into})

    def rematerialize_plan(
        self, owner: str, *, rules: Mapping[str, float] | None = None, extract: bool = False, summaries: bool = False
    ) -> Exchange[Plan]:
        """As ``Lifecycle.rematerialize_plan``."""
        return ask(
            "lifecycle.rematerialize_plan",
            Plan,
            {"owner": owner, "rules": rules, "extract": extract, "summaries": summaries},
        )

    def rematerialize(
        self,
        owner: str,
        *,
        rules: Mapping[str, float] | None = None,
        extract: bool = False,
        summaries: bool = False,
        actor: str,
        dry_run: bool = False,
    ) -> Exchange[OperationTask]:
        """As ``Lifecycle.rematerialize``."""
        return ask(
            "lifecycle.rematerialize",
            OperationTask,
            {
                "owner": owner,
                "rules": rules,
                "extract": extract,
                "summaries": summaries,
                "actor": actor,
                "dry_run": dry_run,
            },
        )

    def rematerialize_abandon(self, owner: str) -> Exchange[int]:
        """As ``Lifecycle.rematerialize_abandon``."""
        return ask("lifecycle.rematerialize_abandon", int, {"owner": owner})

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
    ) -> Exchange[Policy]:
        """As ``Lifecycle.set_policy``."""
        return ask(
            "lifecycle.set_policy",
            Policy,
            {
                "owner": owner,
                "max_age_days": max_age_days,
                "max_facts": max_facts,
                "max_bytes": max_bytes,
                "fraction": fraction,
                "facts_max_age_days": facts_max_age_days,
                "digests_max_age_days": digests_max_age_days,
                "window_max_age_days": window_max_age_days,
                "order": order,
                "actor": actor,
            },
        )

    def clear_policy(self, owner: str | None = None, *, actor: str) -> Exchange[bool]:
        """As ``Lifecycle.clear_policy``."""
        return ask("lifecycle.clear_policy", bool, {"owner": owner, "actor": actor})

    def policies(self) -> Exchange[Sequence[Policy]]:
        """As ``Lifecycle.policies``."""
        return ask("lifecycle.policies", Sequence[Policy], {})

    def apply_policy(
        self, owner: str | None = None, *, actor: str, dry_run: bool = False
    ) -> Exchange[Sequence[OperationTask]]:
        """As ``Lifecycle.apply_policy``."""
        return ask(
            "lifecycle.apply_policy", Sequence[OperationTask], {"owner": owner, "actor": actor, "dry_run": dry_run}
        )

    def preview_policy(self, owner: str) -> Exchange[Preview]:
        """As ``Lifecycle.preview_policy``."""
        return ask("lifecycle.preview_policy", Preview, {"owner": owner})

    def operations(self, limit: int = 100) -> Exchange[Sequence[OperationTask]]:
        """As ``Lifecycle.operations``."""
        return ask("lifecycle.operations", Sequence[OperationTask], {"limit": limit})

    def operation(self, operation: TaskId) -> Exchange[OperationTask]:
        """As ``Lifecycle.operation``."""
        return ask("lifecycle.operation", OperationTask, {"operation": operation})

    def wait(
        self, operation: TaskId, timeout_s: float = 300.0, watch: Callable[[OperationTask], None] = lambda *_: None
    ) -> Exchange[OperationTask]:
        """As ``Lifecycle.wait``."""
        return ask_until(
            "lifecycle.wait", OperationTask, {"operation": operation, "timeout_s": timeout_s, "watch": watch}
        )

    def ended(self, operation: TaskId, timeout_s: float = 300.0) -> Exchange[OperationTask]:
        """As ``Lifecycle.ended``."""
        return ask_until("lifecycle.ended", OperationTask, {"operation": operation, "timeout_s": timeout_s})

    def cancel(self, operation: TaskId, *, actor: str) -> Exchange[OperationTask]:
        """As ``Lifecycle.cancel``."""
        return ask("lifecycle.cancel", OperationTask, {"operation": operation, "actor": actor})

    def audit(
        self,
        owner: str | None = None,
        *,
        action: str | None = None,
        operation: TaskId | None = None,
        since: object | None = None,
        limit: int = 1000,
    ) -> Exchange[Sequence[AuditEntry]]:
        """As ``Lifecycle.audit``."""
        return ask(
            "lifecycle.audit",
            Sequence[AuditEntry],
            {"owner": owner, "action": action, "operation": operation, "since": since, "limit": limit},
        )


class DeadOperations:
    """Calls by the names of the library's methods."""

    def list(
        self, owner: str | None = None, *, code: str | None = None, kinds: Sequence[DeadKind] = (), limit: int = 1000
    ) -> Exchange[Sequence[DeadLetter]]:
        """As ``DeadLetters.list``."""
        return ask("dead.list", Sequence[DeadLetter], {"owner": owner, "code": code, "kinds": kinds, "limit": limit})

    def show(self, id_: str, *, text: bool = False) -> Exchange[DeadDetail]:
        """As ``DeadLetters.show``."""
        return ask("dead.show", DeadDetail, {"id_": id_, "text": text})

    def retry(self, *ids: str) -> Exchange[Acted]:
        """As ``DeadLetters.retry``."""
        return ask("dead.retry", Acted, {"ids": ids})

    def retry_all(
        self, owner: str | None = None, *, code: str | None = None, kinds: Sequence[DeadKind] = ()
    ) -> Exchange[Acted]:
        """As ``DeadLetters.retry_all``."""
        return ask("dead.retry_all", Acted, {"owner": owner, "code": code, "kinds": kinds})

    def discard(self, *ids: str) -> Exchange[Acted]:
        """As ``DeadLetters.discard``."""
        return ask("dead.discard", Acted, {"ids": ids})


class WebhookOperations:
    """Calls by the names of the library's methods."""

    def create(self, url: str, events: Sequence[str] | None = None, *, description: str = "") -> Exchange[NewEndpoint]:
        """As ``Webhooks.create``."""
        return ask("webhooks.create", NewEndpoint, {"url": url, "events": events, "description": description})

    def list(self) -> Exchange[Sequence[Endpoint]]:
        """As ``Webhooks.list``."""
        return ask("webhooks.list", Sequence[Endpoint], {})

    def delete(self, endpoint: UUID | str) -> Exchange[None]:
        """As ``Webhooks.delete``."""
        return ask("webhooks.delete", None, {"endpoint": endpoint})

    def enable(self, endpoint: UUID | str, enabled: bool = True) -> Exchange[Endpoint]:
        """As ``Webhooks.enable``."""
        return ask("webhooks.enable", Endpoint, {"endpoint": endpoint, "enabled": enabled})

    def rotate(self, endpoint: UUID | str) -> Exchange[NewEndpoint]:
        """As ``Webhooks.rotate``."""
        return ask("webhooks.rotate", NewEndpoint, {"endpoint": endpoint})

    def deliveries(
        self,
        endpoint: UUID | str | None = None,
        *,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Exchange[Page[Delivery]]:
        """As ``Webhooks.deliveries``."""
        return ask(
            "webhooks.deliveries",
            Page[Delivery],
            {"endpoint": endpoint, "state": state, "limit": limit, "cursor": cursor},
        )

    def replay(self, delivery: UUID | str) -> Exchange[Delivery]:
        """As ``Webhooks.replay``."""
        return ask("webhooks.replay", Delivery, {"delivery": delivery})
