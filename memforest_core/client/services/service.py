"""The whole service: what a worker or a reader needs, wired from settings."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial

from memforest_core.assistant.calendar.service import CalendarService, Summarizing
from memforest_core.assistant.checked_calls import CheckedCalls
from memforest_core.assistant.condensing import Compactor, Digester, PeriodCondenser
from memforest_core.assistant.context.portraits import Merger, Portraits
from memforest_core.assistant.context.service import ContextService, ContextualAnswers
from memforest_core.assistant.conversation_window.service import WindowService
from memforest_core.assistant.profile.describing import Describer
from memforest_core.assistant.profile.forgetting import Finder, Forgetter
from memforest_core.assistant.profile.intents import Intents
from memforest_core.assistant.topics.cooling import TopicCooling
from memforest_core.assistant.topics.service import TopicMatcher, TopicService
from memforest_core.client.services.lifecycle_parts import LifecycleParts
from memforest_core.client.services.process_parts import Process
from memforest_core.client.services.producer_services import open_producer
from memforest_core.index.collection_rows import claim_collection
from memforest_core.index.index_opening import Maintenance, open_index, open_maintenance
from memforest_core.index.rows import IndexStore
from memforest_core.index.service import Indexer
from memforest_core.ingest.extract.extraction_prompt import fixed_part
from memforest_core.ingest.extract.proposer import ModelProposer, OfflineProposer, Proposer
from memforest_core.ingest.extract.service import ExtractionService
from memforest_core.ingest.reduce.service import ReductionService
from memforest_core.ingest.refresh.rows import RefreshRows, redo
from memforest_core.ingest.refresh.service import RefreshService
from memforest_core.ingest.refresh.summarizer import ModelSummarizer, OfflineSummarizer, Summarizer, Titles
from memforest_core.models.calls import CHAT_STEPS, ChatModel, Embedder, Step
from memforest_core.models.limits.limited_models import (
    chat_key,
    limit_chat,
    limit_embedder,
    limit_reranker,
    open_limits,
)
from memforest_core.models.model_opening import open_chat, open_embedder, open_reranker, step_settings
from memforest_core.observe.inspection import InspectionService, open_inspection
from memforest_core.observe.reading.service import ReadingService
from memforest_core.observe.webhooks.posting import Poster, PostingWorker
from memforest_core.recall.answer import AnswerService, open_answering
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.rows.visit_rows import VisitStore
from memforest_core.recall.service import RecallService, Slots
from memforest_core.recall.timeline import TimelineService, open_timeline
from memforest_core.recall.visit_counter import VisitCounter
from memforest_core.settings import OFFLINE, Settings
from memforest_core.store.schema import check_ready
from memforest_core.work.jobs import MAX_LOST_LEASES, LeaseLimits
from memforest_core.work.reconciler import Reconciler
from memforest_core.work.rows.job_rows import JobStore
from memforest_core.work.telemetry import SILENT, Telemetry


class Services(Process):
    """Every service of a process. Parts are made on first use, so that a reader loads no chat model."""

    @cached_property
    def chat(self) -> ChatModel:
        """The chat models, by step, within the limits that all workers share."""
        return limit_chat(open_chat(self.settings.llm), self.limits, self.settings.llm)

    def paused(self, step: Step) -> float:
        """Seconds for which a step should not start, because its chat model failed; 0.0 when it may start."""
        key = chat_key(self.settings.llm, step)
        return 0.0 if key is None else self.limits.paused(key)

    def check_models(self, steps: Iterable[Step]) -> None:
        """Raise ModelAuthFailed if a step's model needs a key and none is set."""
        remote = [step for step in steps if not self._offline(step)]
        if remote:
            chat = open_chat(self.settings.llm)
            for step in remote:
                chat.check(step)

    def _offline(self, step: Step) -> bool:
        return step_settings(self.settings.llm, step).model == OFFLINE

    @property
    def _ten_calls_s(self) -> float:
        """Seconds within which a unit of work ends: of ten calls that all time out."""
        return 10 * max(step_settings(self.settings.llm, step).timeout_s for step in CHAT_STEPS)

    @property
    def stuck_s(self) -> float:
        """After so many seconds a unit of work is stuck: as it is set, else long enough for ten calls."""
        worker = self.settings.worker
        return worker.stuck_s if "stuck_s" in worker.model_fields_set else max(worker.stuck_s, self._ten_calls_s)

    @cached_property
    def proposer(self) -> Proposer:
        """The extraction model, or the offline rules."""
        if self._offline(Step.EXTRACT):
            return OfflineProposer()
        fixed = fixed_part(self.settings.extract, self.prompts.extract)
        return ModelProposer(self.chat, self.settings.extract.repairs, fixed)

    @cached_property
    def summarizer(self) -> Summarizer:
        """The summary model, or the offline summarizer."""
        if self._offline(Step.SUMMARIZE):
            return OfflineSummarizer()
        return ModelSummarizer(self.chat, self.prompts.summarize)

    @cached_property
    def extraction(self) -> ExtractionService:
        """Windows to candidates."""
        return ExtractionService(
            self.engine,
            self.proposer,
            self.embedder,
            self.settings.extract.model_copy(update={"lease_s": max(self._ten_calls_s, self.settings.extract.lease_s)}),
            random.Random(),  # noqa: S311 - jitter
            self.telemetry,
            step_settings(self.settings.llm, Step.EXTRACT).timeout_s,
            self.settings.only_english,
        )

    @cached_property
    def indexer(self) -> Indexer:
        """Rows to points."""
        return Indexer(
            IndexStore(self.engine),
            self.index,
            self.embedder,
            self.settings.index.batch,
            random.Random(),  # noqa: S311 - jitter
            self.telemetry,
        )

    @cached_property
    def reduction(self) -> ReductionService:
        """Candidates to facts in trees."""
        return ReductionService(self.engine, self.index, self.embedder, self.settings, self.telemetry)

    @cached_property
    def refresh(self) -> RefreshService:
        """Dirty nodes to summaries."""
        override = self.settings.llm.summarize.concurrency
        return RefreshService(
            partial(RefreshRows.opened, self.engine),
            self.summarizer,
            self.embedder,
            self.settings.refresh.model_copy(update={"lease_s": max(self._ten_calls_s, self.settings.refresh.lease_s)}),
            override or self.settings.llm.concurrency,
            random.Random(),  # noqa: S311 - jitter
            self.telemetry,
            Titles(None if self._offline(Step.SUMMARIZE) else self.chat, self.settings.refresh.title_sizes),
        )

    @cached_property
    def jobs(self) -> JobStore:
        """Leases and heartbeats."""
        return JobStore(self.engine)

    @cached_property
    def reconciler(self) -> Reconciler:
        """The loop that frees lost leases and wakes workers."""
        return Reconciler(
            self.jobs,
            partial(redo, self.engine),
            self.producer.wakeups,
            LeaseLimits(self.settings.worker.dead_after_s, MAX_LOST_LEASES),
        )

    @cached_property
    def maintenance(self) -> Maintenance:
        """Resumable tasks, and the upkeep of the index."""
        return open_maintenance(
            self.engine,
            self.index,
            self.producer.wakeups,
            self.settings,
            self.telemetry,
            handlers=self.lifecycle.handlers(),
            undo=self.lifecycle.undo(),
        )

    @cached_property
    def webhooks(self) -> PostingWorker:
        """Events to webhooks."""
        settings, jitter = self.settings.webhooks, random.Random()  # noqa: S311 - jitter
        return PostingWorker(self.engine, settings, Poster(settings), jitter, self.telemetry)

    @cached_property
    def lifecycle(self) -> LifecycleParts:
        """What can be done to stored memory."""
        return LifecycleParts(self)

    @cached_property
    def recall(self) -> RecallService:
        """Questions to evidence."""
        rerank = self.settings.recall.rerank
        return RecallService(
            RecallStore(self.engine),
            self.index,
            self.embedder,
            self.settings.recall,
            # What the rules extract points to turns; what a model wrote is evidence itself.
            pointers=self._offline(Step.EXTRACT),
            chat=None if self._offline(Step.BROWSE) or self._offline(Step.PLAN) else lambda: self.chat,
            reranker=limit_reranker(open_reranker(rerank), self.limits, rerank),
            visits=self.visits,
            prompts=self.prompts,
            slots=Slots(self.settings.recall.at_once),
        )

    @cached_property
    def visits(self) -> VisitCounter:
        """What recall returned and is not written yet."""
        return VisitCounter(VisitStore(self.engine))

    @cached_property
    def answering(self) -> AnswerService:
        """Evidence to answers. Raises InvalidSettings without a chat model."""
        return open_answering(self.settings.llm, lambda: self.chat, self.engine, self.telemetry, self.prompts.answer)

    @cached_property
    def timeline(self) -> TimelineService:
        """The states of a subject, in order."""
        return open_timeline(self.engine)

    @cached_property
    def reading(self) -> ReadingService:
        """What is stored, page by page."""
        return ReadingService(self.engine)

    @cached_property
    def window(self) -> WindowService:
        """Sessions as a model should see them."""
        chat = None if self._offline(Step.SUMMARIZE) else lambda: self.chat
        compactor = Compactor(chat, self.settings.window.summary_chars, self.prompts.window)
        return WindowService(self.engine, self.settings.window, compactor, self.telemetry)

    @cached_property
    def calendar(self) -> CalendarService:
        """Digests of days, weeks, months and years."""
        chat = None if self._offline(Step.SUMMARIZE) else lambda: self.chat
        settings, own = self.settings.calendar, self.prompts.calendar
        digester, condenser = Digester(chat, settings.day_chars, own), PeriodCondenser(chat, settings.week_chars, own)
        return CalendarService(self.engine, settings, digester, condenser, telemetry=self.telemetry)

    @cached_property
    def topics(self) -> TopicService:
        """Scenes as topics."""
        return TopicService(self.engine, self.settings)

    @cached_property
    def topic_matcher(self) -> TopicMatcher:
        """Turns to topics."""
        return TopicMatcher(self.engine, self.index, self.embedder, self.settings.topics)

    @cached_property
    def topic_cooling(self) -> TopicCooling:
        """Topics that become cold or warm."""
        return TopicCooling(self.engine, self.settings.topics)

    @cached_property
    def summarizing(self) -> Summarizing:
        """Summaries that are wanted now."""
        return Summarizing(self.calendar, self.producer.acceptance)

    @cached_property
    def describer(self) -> Describer:
        """What is known of people."""
        return Describer(self.engine, self._profile_chat, self.settings.profile, self.prompts.profile)

    @cached_property
    def forgetter(self) -> Forgetter:
        """Forgetting by words."""
        # What is looked for to be deleted is no visit.
        finder = Finder(self.engine, replace(self.recall, visits=None), self.embedder)
        erasure, operations = self.lifecycle.erasure, self.lifecycle.operations
        return Forgetter(self.engine, finder, erasure, operations, self._profile_chat, self.settings.profile)

    @cached_property
    def intents(self) -> Intents:
        """What texts ask of the memory."""
        return Intents(self._profile_chat)

    @cached_property
    def context(self) -> ContextService:
        """What goes into the prompt of a chat turn."""
        settings = self.settings.context
        portraits = Portraits(self.engine, self.describer, timedelta(seconds=settings.profile_every_s))
        merger = Merger(self.engine, self._profile_chat, settings.merge)
        return ContextService(
            self.engine,
            settings,
            self.settings.window,
            portraits,
            self.window,
            self.recall,
            days=self.calendar,
            merger=merger,
        )

    @cached_property
    def contextual_answers(self) -> ContextualAnswers:
        """Questions to answers."""
        return ContextualAnswers(self.recall, self.context, lambda: self.answering)

    @cached_property
    def _profile_chat(self) -> CheckedCalls:
        offline = self._offline(Step.PROFILE)
        return CheckedCalls(self.engine, None if offline else lambda: self.chat, self.telemetry)

    @cached_property
    def inspection(self) -> InspectionService:
        """Looking inside."""
        return open_inspection(self.engine, self.settings)

    def close(self) -> None:
        """Write the visits that are left, and release the index and the connections."""
        try:
            if "visits" in self.__dict__:
                self.visits.close()
        finally:
            if "recall" in self.__dict__:
                self.recall.close()
            self.index.close()
            self.limits.close()
            self.producer.close()


def open_services(
    settings: Settings, *, embedder: Embedder | None = None, telemetry: Telemetry = SILENT, owns_index: bool = False
) -> Services:
    """Wire the whole service and check that it fits the stored state.

    ``owns_index`` says that this process is the node whose directory the in-process index lies in.
    Raises InvalidSettings for a database at another schema, a superuser role, an embedding model that the
    stored vectors were not made with, or a file of instructions that can't be used; StoreUnavailable. An index that is
    unavailable is no error: what is written is indexed when it is back.
    """
    with ExitStack() as undo:
        producer = open_producer(settings, telemetry)
        undo.callback(producer.close)
        check_ready(producer.engine)
        limits = open_limits(settings)
        undo.callback(limits.close)
        embedder = embedder or limit_embedder(open_embedder(settings.embedding), limits, settings.embedding)
        index = open_index(settings, embedder, owned=owns_index)
        claim_collection(producer.engine, index.name, embedder.model, embedder.dimension)
        services = Services(settings, producer, index, embedder, limits, telemetry)
        services.prompts  # noqa: B018 - read now, so that a bad file is refused at the start
        undo.pop_all()
    return services
