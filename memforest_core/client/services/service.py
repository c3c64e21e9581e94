"""The whole service: what a worker or a reader needs, wired from settings. Each part is made on first use."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from memforest_core.assistant.calendar.service import CalendarService
from memforest_core.assistant.checked_calls import CheckedCalls
from memforest_core.assistant.condensing import Condenser
from memforest_core.assistant.context.portraits import Merger
from memforest_core.assistant.context.service import ContextService, ContextualAnswers
from memforest_core.assistant.conversation_window.service import WindowService
from memforest_core.assistant.profile.describing import Describer
from memforest_core.assistant.profile.forgetting import Forgetter
from memforest_core.assistant.profile.intents import Intents
from memforest_core.assistant.topics.cooling import TopicCooling
from memforest_core.assistant.topics.matching import TopicMatcher
from memforest_core.assistant.topics.service import TopicService
from memforest_core.client.services.producer_services import Producer, open_producer
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.operation_rules import OPERATIONS, OperationKind
from memforest_core.index.collection_rows import CollectionStore, claim_collection
from memforest_core.index.index_opening import Maintenance, open_index, open_maintenance
from memforest_core.index.rows import IndexRows
from memforest_core.index.service import Indexer
from memforest_core.index.vector_index import VectorIndex
from memforest_core.ingest.accept.redaction import Redactor
from memforest_core.ingest.extract.extraction_prompt import fixed_part
from memforest_core.ingest.extract.proposer import ModelProposer, OfflineProposer, Proposer
from memforest_core.ingest.extract.service import ExtractionService
from memforest_core.ingest.reduce.service import ReductionService
from memforest_core.ingest.refresh.rows import RefreshRows, redo
from memforest_core.ingest.refresh.service import RefreshService
from memforest_core.ingest.refresh.summarizer import ModelSummarizer, OfflineSummarizer, Summarizer, Titles
from memforest_core.lifecycle.bundle.service import Bundles
from memforest_core.lifecycle.correct.service import Correction
from memforest_core.lifecycle.erase.service import Erasure
from memforest_core.lifecycle.erase.steps import Clearing, Erasing, ForestEraser, Vacuuming
from memforest_core.lifecycle.merge.service import Merging
from memforest_core.lifecycle.rebuild.embedding import Reembedding
from memforest_core.lifecycle.rebuild.planner import Planner
from memforest_core.lifecycle.rebuild.rows.forest_sizes import PlanRows
from memforest_core.lifecycle.rebuild.service import Rematerializing
from memforest_core.lifecycle.retain.service import Retention
from memforest_core.models.accounting import ListPrices, Price
from memforest_core.models.answers import Prompts, open_prompts
from memforest_core.models.calls import CHAT_STEPS, ChatModel, Embedder, Step
from memforest_core.models.model_opening import (
    BUILT_IN_EMBEDDINGS,
    chat_key,
    open_chat,
    open_embedder,
    open_limits,
    open_reranker,
    step_settings,
)
from memforest_core.observe.inspection import InspectionService, open_inspection
from memforest_core.observe.reading.service import ReadingService
from memforest_core.recall.answer import AnswerService, open_answering
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.rows.visit_rows import add_visits
from memforest_core.recall.service import RecallService, Slots
from memforest_core.recall.timeline import TimelineService, open_timeline
from memforest_core.recall.visit_counter import VisitCounter
from memforest_core.settings import OFFLINE, Settings
from memforest_core.store.engine import Engine
from memforest_core.store.schema import check_ready
from memforest_core.work.audit import AuditLog
from memforest_core.work.jobs import MAX_LOST_LEASES, LeaseLimits
from memforest_core.work.operations import Operations, needs_its_file, undo_import, undo_nothing
from memforest_core.work.reconciler import Reconciler
from memforest_core.work.records import TaskId
from memforest_core.work.rows.job_rows import JobStore
from memforest_core.work.rows.operation_rows import OperationRows
from memforest_core.work.runner import Handler
from memforest_core.work.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from memforest_core.models.limits.call_limits import CallLimits
    from memforest_core.observe.webhooks.posting import PostingWorker

T = TypeVar("T")


def _part(kind: type[T], make: Callable[[Services], T]) -> cached_property[T]:
    make.__annotations__["return"] = kind
    return cached_property(make)


def _operating(kind: type[T], make: Callable[[LifecycleParts], T]) -> cached_property[T]:
    make.__annotations__["return"] = kind
    return cached_property(make)


def _jitter() -> random.Random:
    return random.Random()  # noqa: S311 - no secret


class LifecycleParts:
    """What runs operations on stored memory: each part is made on first use."""

    def __init__(self, services: Services) -> None:
        self._all = services
        self._engine = services.engine
        self._settings = services.settings

    @cached_property
    def operations(self) -> Operations:
        return self._all.operations

    @cached_property
    def audit_log(self) -> AuditLog:
        return self._all.audit_log

    erasure = _operating(Erasure, lambda own: Erasure(own._engine, own.operations))
    clearing = _operating(Clearing, lambda own: Clearing(own._engine, own._all.index, own._all.embedder.dimension))
    erasing = _operating(
        Erasing, lambda own: Erasing(own._engine, own._all.index, own.clearing, own._all.embedder.model, own._settings)
    )
    eraser = _operating(ForestEraser, lambda own: ForestEraser(own._engine, own._all.embedder.model, own._settings))
    vacuuming = _operating(Vacuuming, lambda own: Vacuuming(own._engine, own._settings.worker.vacuum_every_s))

    @cached_property
    def correction(self) -> Correction:
        def erase_fact(tenant: TenantId, owner: str, fact: FactId, actor: str, part_of: TaskId) -> TaskId:
            return self.erasure.ask(tenant, owner, fact=fact, actor=actor, part_of=part_of)

        return Correction(self._engine, self._all.embedder, self._all.producer.wakeups, erase_fact, self._all.redactor)

    @cached_property
    def merging(self) -> Merging:
        model = self._all.embedder.model
        return Merging(self._engine, self.operations, model, self._settings, self.clearing.clear)

    bundles = _operating(
        Bundles, lambda own: Bundles(own._engine, own._all.embedder, own._all.producer.wakeups, own._settings)
    )

    @cached_property
    def rematerializing(self) -> Rematerializing:
        settings, engine = self._settings, self._engine
        planner = Planner(
            partial(PlanRows.opened, engine), settings, _models(self._all), _prices(settings), self._all.prompts
        )
        model, wakeups = self._all.embedder.model, self._all.producer.wakeups
        return Rematerializing(engine, self.operations, planner, settings, model, wakeups, self.clearing.clear)

    retention = _operating(Retention, lambda own: Retention(own._engine, own.operations, own.eraser))

    def handlers(self) -> dict[str, Handler]:
        """The handlers of operations, by kind."""
        deleting: dict[str, Handler] = {
            OperationKind.ERASE: self.erasing.step,
            OperationKind.CORRECT: self.correction.step,
            OperationKind.REMATERIALIZE: self.rematerializing.step,
            OperationKind.MERGE: self.merging.step,
            OperationKind.RETAIN: self.retention.step,
        }
        following = {kind: self.vacuuming.following(handler) for kind, handler in deleting.items()}
        return following | {
            OperationKind.IMPORT: needs_its_file,
            OperationKind.EXPORT: needs_its_file,
            OperationKind.VACUUM: self.vacuuming.step,
        }

    def undo(self) -> dict[str, Handler]:
        """The handlers of operations that were cancelled, by kind."""
        nothing: dict[str, Handler] = {kind: undo_nothing for kind in OPERATIONS}
        clearing: dict[str, Handler] = {
            OperationKind.MERGE: self.merging.undo,
            OperationKind.REMATERIALIZE: self.rematerializing.undo,
            OperationKind.IMPORT: undo_import(self.clearing.clear),
        }
        return nothing | {kind: self.vacuuming.following(handler) for kind, handler in clearing.items()}


def _models(services: Services) -> dict[Step, str | None]:
    """What a plan counts the costs of: rules cost nothing."""
    named = {step: step_settings(services.settings.llm, step).model for step in (Step.EXTRACT, Step.SUMMARIZE)}
    chat = {step: None if model == OFFLINE else model for step, model in named.items()}
    return chat | {Step.EMBED: services.embedder.model}


def _prices(settings: Settings) -> ListPrices:
    given = {step: step_settings(settings.llm, step).price for step in (Step.EXTRACT, Step.SUMMARIZE)}
    embedding = Price(prompt=settings.embedding.input_usd_per_mtok)
    return ListPrices(given | {Step.EMBED: embedding}, frozenset(BUILT_IN_EMBEDDINGS))


@dataclass
class Services:
    """Every service of a process, over its configuration, connections and models. A reader loads no chat model."""

    settings: Settings
    producer: Producer
    index: VectorIndex
    embedder: Embedder
    remote_limits: CallLimits | None
    """Of the embedding model, None for one that runs in this process."""
    telemetry: Telemetry = SILENT

    @property
    def engine(self) -> Engine:
        return self.producer.engine

    @property
    def redactor(self) -> Redactor:
        return self.producer.acceptance.redactor

    prompts = _part(Prompts, lambda own: open_prompts(own.settings.prompts))
    """The application's own instructions, read once. Raises InvalidSettings."""
    operations = _part(
        Operations, lambda own: Operations(partial(OperationRows.opened, own.engine), own.producer.wakeups)
    )
    audit_log = _part(
        AuditLog, lambda own: AuditLog(partial(OperationRows.opened, own.engine), own.settings.database.audit_key)
    )

    lifecycle = _part(LifecycleParts, lambda own: LifecycleParts(own))
    _profile_chat = _part(
        CheckedCalls, lambda own: CheckedCalls(own.engine, own._chat_for(Step.PROFILE), own.telemetry, own.redactor)
    )

    @cached_property
    def limits(self) -> CallLimits:
        """The limits of all models that are called, opened with the first."""
        return self.remote_limits or open_limits(self.settings)

    @cached_property
    def chat(self) -> ChatModel:
        """The chat models, by step, within the limits that all workers share."""
        return open_chat(self.settings.llm, self.limits)

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

    def _chat_for(self, *steps: Step) -> Callable[[], ChatModel] | None:
        """How the chat model is opened, None where rules do one of these steps."""
        return None if any(map(self._offline, steps)) else lambda: self.chat

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
        if self._offline(Step.EXTRACT):
            return OfflineProposer()
        fixed = fixed_part(self.settings.extract, self.prompts.extract)
        return ModelProposer(self.chat, self.settings.extract.repairs, fixed)

    @cached_property
    def summarizer(self) -> Summarizer:
        if self._offline(Step.SUMMARIZE):
            return OfflineSummarizer()
        return ModelSummarizer(self.chat, self.prompts.summarize)

    extraction = _part(
        ExtractionService,
        lambda own: ExtractionService(
            own.engine,
            own.proposer,
            own.embedder,
            own.settings.extract.model_copy(update={"lease_s": max(own._ten_calls_s, own.settings.extract.lease_s)}),
            _jitter(),
            own.telemetry,
            step_settings(own.settings.llm, Step.EXTRACT).timeout_s,
        ),
    )
    indexer = _part(
        Indexer,
        lambda own: Indexer(
            partial(IndexRows.opened, own.engine),
            own.index,
            own.embedder,
            own.settings.index.batch,
            _jitter(),
            own.telemetry,
        ),
    )
    reduction = _part(
        ReductionService, lambda own: ReductionService(own.engine, own.index, own.embedder, own.settings, own.telemetry)
    )

    @cached_property
    def refresh(self) -> RefreshService:
        override = self.settings.llm.summarize.concurrency
        return RefreshService(
            partial(RefreshRows.opened, self.engine),
            self.summarizer,
            self.embedder,
            self.settings.refresh.model_copy(update={"lease_s": max(self._ten_calls_s, self.settings.refresh.lease_s)}),
            override or self.settings.llm.concurrency,
            _jitter(),
            self.telemetry,
            Titles(None if self._offline(Step.SUMMARIZE) else self.chat, self.settings.refresh.title_sizes),
        )

    jobs = _part(JobStore, lambda own: JobStore(own.engine))
    reconciler = _part(
        Reconciler,
        lambda own: Reconciler(
            own.jobs,
            partial(redo, own.engine),
            own.producer.wakeups,
            LeaseLimits(own.settings.worker.dead_after_s, MAX_LOST_LEASES),
        ),
    )
    maintenance = _part(
        Maintenance,
        lambda own: open_maintenance(
            own.engine,
            own.index,
            own.producer.wakeups,
            own.settings,
            own.telemetry,
            handlers=own.lifecycle.handlers(),
            undo=own.lifecycle.undo(),
        ),
    )

    @cached_property
    def webhooks(self) -> PostingWorker:
        from memforest_core.observe.webhooks.posting import Poster, PostingWorker

        settings = self.settings.webhooks
        return PostingWorker(self.engine, settings, Poster(settings), _jitter(), self.telemetry)

    @cached_property
    def recall(self) -> RecallService:
        rerank = self.settings.recall.rerank
        return RecallService(
            RecallStore(self.engine),
            self.index,
            self.embedder,
            self.settings.recall,
            # What the rules extract points to turns; what a model wrote is evidence itself.
            pointers=self._offline(Step.EXTRACT),
            chat=self._chat_for(Step.BROWSE, Step.PLAN),
            reranker=open_reranker(rerank, None if rerank.model is None else self.limits),
            visits=self.visits,
            prompts=self.prompts,
            redactor=self.redactor,
            slots=Slots(self.settings.recall.at_once),
            telemetry=self.telemetry,
        )

    visits = _part(VisitCounter, lambda own: VisitCounter(partial(add_visits, own.engine)))
    answering = _part(
        AnswerService,
        lambda own: open_answering(own.settings.llm, lambda: own.chat, own.engine, own.telemetry, own.prompts.answer),
    )
    """Evidence to answers. Raises InvalidSettings without a chat model."""
    timeline = _part(TimelineService, lambda own: open_timeline(own.engine))
    reading = _part(ReadingService, lambda own: ReadingService(own.engine))

    @cached_property
    def window(self) -> WindowService:
        chat = self._chat_for(Step.SUMMARIZE)
        compactor = Condenser(chat, self.settings.window.summary_chars, self.prompts.window)
        return WindowService(self.engine, self.settings.window, compactor, self.telemetry)

    @cached_property
    def calendar(self) -> CalendarService:
        chat = self._chat_for(Step.SUMMARIZE)
        settings, own = self.settings.calendar, self.prompts.calendar
        digester, condenser = Condenser(chat, settings.day_chars, own), Condenser(chat, settings.week_chars, own)
        return CalendarService(
            *(self.engine, settings, digester, condenser), telemetry=self.telemetry, acceptance=self.producer.acceptance
        )

    topics = _part(TopicService, lambda own: TopicService(own.engine, own.settings))
    topic_matcher = _part(TopicMatcher, lambda own: TopicMatcher(own.engine, own.embedder, own.settings))
    topic_cooling = _part(TopicCooling, lambda own: TopicCooling(own.engine, own.settings.topics))
    describer = _part(
        Describer, lambda own: Describer(own.engine, own._profile_chat, own.settings.profile, own.prompts.profile)
    )

    @cached_property
    def forgetter(self) -> Forgetter:
        # What is looked for to be deleted is no visit.
        recall, lifecycle = replace(self.recall, visits=None), self.lifecycle
        models = (self.embedder, lifecycle.erasure, lifecycle.operations, self._profile_chat)
        return Forgetter(self.engine, recall, *models)

    intents = _part(Intents, lambda own: Intents(own.engine, own._profile_chat))

    @cached_property
    def context(self) -> ContextService:
        settings = self.settings.context
        merger = Merger(self.engine, self._profile_chat, settings.merge)
        window = self.settings.window
        return ContextService(
            self.engine, settings, window, self.describer, self.window, self.recall, days=self.calendar, merger=merger
        )

    contextual_answers = _part(
        ContextualAnswers, lambda own: ContextualAnswers(own.recall, own.context, lambda: own.answering)
    )
    inspection = _part(InspectionService, lambda own: open_inspection(own.engine, own.settings))

    def close(self) -> None:
        """Write the visits that are left, and release the index and the connections."""
        try:
            if "visits" in self.__dict__:
                self.visits.flush()
        finally:
            if "recall" in self.__dict__:
                self.recall.close()
            self.index.close()
            if self.remote_limits or "limits" in self.__dict__:
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
        producer, limits, embedder = _opened(undo, settings, embedder, telemetry)
        index = open_index(settings, embedder, owned=owns_index)
        claim_collection(producer.engine, index.name, embedder.model, embedder.dimension)
        services = Services(settings, producer, index, embedder, limits, telemetry)
        services.prompts  # noqa: B018 - read now, so that a bad file is refused at the start
        undo.pop_all()
    return services


def _opened(
    undo: ExitStack, settings: Settings, embedder: Embedder | None, telemetry: Telemetry | None = None
) -> tuple[Producer, CallLimits | None, Embedder]:
    """The checked database, and the embedding model with the limits of one that is called."""
    producer = open_producer(settings, telemetry)
    undo.callback(producer.close)
    check_ready(producer.engine)
    if embedder is not None or settings.embedding.model in BUILT_IN_EMBEDDINGS:
        return producer, None, embedder or open_embedder(settings.embedding)
    limits = open_limits(settings)
    undo.callback(limits.close)
    return producer, limits, open_embedder(settings.embedding, limits)


@contextmanager
def open_reembedding(settings: Settings, embedder: Embedder | None = None) -> Iterator[Reembedding]:
    """Giving the whole database the embedding model of these settings; the live collection is not read.

    Raises InvalidSettings for a database at another schema, StoreUnavailable.
    """
    with ExitStack() as undo:
        producer, _, embedder = _opened(undo, settings, embedder)
        index = open_index(settings, embedder)
        undo.callback(index.close)
        indexer = Indexer(partial(IndexRows.opened, producer.engine), index, embedder, settings.index.batch, _jitter())
        yield Reembedding(
            producer.engine,
            CollectionStore(producer.engine).tenants,
            embedder,
            index,
            indexer.run_one,
            _prices(settings),
            settings.worker.dead_after_s,
        )
