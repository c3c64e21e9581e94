"""Recall: a question in, evidence out, by plan, retrieve, score and deliver. The result says what was unavailable."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from typing import Unpack, cast
from zoneinfo import ZoneInfo

from memforest_core.domain.evidence import Evidence, Mode, RecallResult
from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import TenantId
from memforest_core.domain.times import EARLIEST, LATEST, UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.errors import IndexUnavailable, ModelRejected, ModelUnavailable, StoreUnavailable
from memforest_core.index.vector_index import DenseVector, VectorIndex
from memforest_core.ingest.accept.redaction import NOTHING, Redactor
from memforest_core.models.answers import BUILT_IN, Prompts
from memforest_core.models.calls import CallRecord, ChatModel, Embedded, Embedder, Reranker
from memforest_core.models.token_vectors import Unit, unpack
from memforest_core.recall.candidates import Scope
from memforest_core.recall.deliver import Deliverer
from memforest_core.recall.plan import ModeTimes, Planner, choose_mode, no_chat_model
from memforest_core.recall.question import Question, parse_question
from memforest_core.recall.records import SaidTurn
from memforest_core.recall.request import (
    Bounds,
    Range,
    RecallOptions,
    Request,
    checked_vector,
    owners_of,
    parse_request,
)
from memforest_core.recall.retrieve import Clock, Retriever, find_scopes
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.score import Pool, lift_recent, score
from memforest_core.recall.sources import Searching, Sources
from memforest_core.recall.temporal import find_states
from memforest_core.recall.visit_counter import VisitCounter, returned
from memforest_core.settings import RecallSettings
from memforest_core.work.telemetry import SILENT, Telemetry

PATIENCE_S = 5.0
"""A recall that has waited so long goes on without a slot: a store that hangs delays other recalls by no more."""


@renewed_in_child
class Slots:
    """``at_once`` slots for recalls of one process that compute: Python runs one thread at a time, and more of them
    only slow each other down. Thread-safe."""

    def __init__(self, at_once: int, patience_s: float = PATIENCE_S) -> None:
        self._free = threading.Semaphore(at_once)
        self._patience_s = patience_s

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a slot for the block; none after ``patience_s`` seconds in which none became free."""
        taken = self._free.acquire(timeout=self._patience_s)
        try:
            yield
        finally:
            if taken:
                self._free.release()


@dataclass(frozen=True)
class RecallService:
    """Answers questions from one store, index and embedder. Thread-safe: a recall has its state to itself.

    ``pointers`` says that facts were extracted without a model, so that the turn is what is worth delivering. ``chat``
    opens the chat model of the modes llm and planner and of completing follow-up questions, ``reranker`` scores the
    best items again, ``visits`` counts what was returned, ``prompts`` are an application's own instructions,
    ``sources`` the external collections in place of those of the settings. ``slots`` are shared by all services of a
    process.
    """

    store: RecallStore
    index: VectorIndex
    embedder: Embedder
    settings: RecallSettings
    _: KW_ONLY
    pointers: bool = True
    chat: Callable[[], ChatModel] | None = None
    reranker: Reranker | None = None
    visits: VisitCounter | None = None
    prompts: Prompts = BUILT_IN
    sources: Sources | None = None
    redactor: Redactor = NOTHING
    """Masks questions, before a model sees them, as texts are masked before they are stored."""
    slots: Slots = field(default_factory=lambda: Slots(RecallSettings().at_once))
    telemetry: Telemetry = SILENT
    _times: ModeTimes = field(default_factory=ModeTimes)

    @cached_property
    def _known_sources(self) -> Sources:
        return self.sources or Sources(self.settings.sources, self.embedder.dimension)

    @cached_property
    def _deliverer(self) -> Deliverer:
        return Deliverer(self.store, self.settings, self.reranker)

    @cached_property
    def _retriever(self) -> Retriever:
        return Retriever(self.store, self.index, self.settings, self.pointers, self.embedder)

    def recall(
        self,
        tenant: TenantId,
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
        needs a chat model when none is configured), StoreUnavailable.
        """
        question = None if question is None else cast(str, self.redactor.values(question, Counter()))
        with self.telemetry.span("recall"):
            return self._recall(tenant, owner, question, parse_request(self.settings, question, k, mode, options))

    def _recall(self, tenant: TenantId, owner: str | None, question: str | None, request: Request) -> RecallResult:
        owners = owners_of(owner, request.owners)
        given = None if request.vector is None else checked_vector(request.vector, self.embedder.dimension)
        if request.sources:
            self._known_sources.check(request.sources)
        clock = Clock()
        if request.mode.ranks and self.chat is None:
            raise no_chat_model()
        with clock.stage("scopes"), self.store.recalling(tenant) as rows:
            times, readable = self.settings.weights["time"] > 0, self.chat is not None and given is None
            scopes, turns, unknown = find_scopes(rows, tenant, owners, request, times=times, turns=readable)
        if not scopes and not request.sources:
            used = Mode.FLAT if request.mode is Mode.AUTO else request.mode
            none_known = tuple(unknown)
            return RecallResult(question or "", used, (), clock.total(), owner_known=False, owners_unknown=none_known)
        zone = ZoneInfo(scopes[0].forest.time_zone if scopes else "UTC")
        planner = Planner(request.timestamp(zone), self.chat, self.prompts)
        degraded: list[str] = []
        request = _completed(request, turns, planner, clock)
        with clock.stage("embed"):
            embedded = self._embed(request.question, degraded) if given is None else None
        dense: DenseVector | None = given if embedded is None else embedded.vectors[0]
        searching = self._search_sources(tenant, owners, request, dense, degraded)
        request, picked = self._in_mode(request, planner, dense, len(scopes))
        with self._slot(request, clock):
            tokens = None if embedded is None else self._tokens(request.question, embedded)
            for scope in scopes:
                scope.tokens_of = "" if tokens is None else self.embedder.model
            self._retrieve(scopes, request, dense, planner, clock)
            pool = self._pool(scopes, request, searching, zone, clock, degraded)
            table = score(self.store, pool, request.question, self.settings.weights, tokens, clock)
            if len(table) and (weight := self.settings.weights["recency"]) > 0:
                lift_recent(table, weight, request.timestamp(zone), self.settings.half_life_days)
            evidence, failed, calls = self._deliverer.deliver(pool, request, table, clock)
        self._account(tenant, scopes, [*planner.calls, *calls], failed)
        self._note_visits(scopes, evidence)
        timings = clock.total()
        if pool.alone and not request.sources:
            self._times.record(request.mode, timings["total"])
        all_degraded = [*degraded, *(each for scope in scopes for each in scope.degraded), *failed, *planner.degraded]
        return RecallResult(
            question=question or "",
            mode=request.mode,
            evidence=evidence,
            timings_ms=timings,
            degraded=tuple(dict.fromkeys(all_degraded)),
            round_trips=sum(scope.search.round_trips for scope in scopes),
            picked=picked,
            about=_span(pool.bounds.about),
            completed_question=request.question.text,
            plan=planner.plans[0].to_dict() if planner.plans else {},
            calls=len(planner.calls),
            owner_known=bool(scopes),
            owners_unknown=tuple(unknown),
            searched=(*(scope.forest.owner for scope in scopes), *request.sources),
        )

    def close(self) -> None:
        """Close the connections to sources."""
        if "_known_sources" in self.__dict__:
            self._known_sources.close()

    @contextmanager
    def _slot(self, request: Request, clock: Clock) -> Iterator[None]:
        """A slot for a recall that computes; none for one that waits for a model or a source, perhaps for seconds."""
        with ExitStack() as held:
            if not (request.mode.ranks or request.sources or self.reranker is not None):
                with clock.stage("slot"):
                    held.enter_context(self.slots.one())
            yield

    def _search_sources(
        self, tenant: TenantId, owners: Sequence[str], request: Request, dense: DenseVector | None, degraded: list[str]
    ) -> Searching:
        """Search the sources while the forests are searched."""
        if not request.sources:
            return {}
        if dense is None:
            degraded.append("No source was searched: the embedding model is unavailable.")
            return {}
        bounded = (request.since, request.until, request.as_of, request.metadata)
        wider = any(each is not None for each in bounded)
        return self._known_sources.begin(request.sources, dense, tenant, owners, wider=wider)

    def _in_mode(
        self, request: Request, planner: Planner, dense: DenseVector | None, forests: int
    ) -> tuple[Request, str]:
        """The request with the mode that ``auto`` means, and why; several forests take as many times as long."""
        if request.mode is not Mode.AUTO:
            return request, ""
        recent = {mode: ms * max(1, forests) for mode, ms in self._times.recent_ms().items()}
        possible = planner.possible and request.vector is None
        mode, why = choose_mode(possible, dense is None, request.budget_ms, recent)
        return replace(request, mode=mode), why

    def _retrieve(
        self, scopes: Sequence[Scope], request: Request, dense: DenseVector | None, planner: Planner, clock: Clock
    ) -> None:
        """Retrieve the candidates of each forest. An index that failed is not called for the next one."""
        failure: IndexUnavailable | None = None
        for scope in scopes:
            if self.settings.weights["current"] > 0:
                with clock.stage("states"):
                    reading = partial(self.store.reading, scope.tenant)
                    scope.states = find_states(reading, scope.forest, request.question, scope.bounds.said_until)
            scope.search = self._retriever.search(scope, request, dense)
            scope.search.failure = failure
            self._retriever.retrieve(scope, request, planner, clock)
            failure = scope.search.failure

    def _pool(
        self,
        scopes: Sequence[Scope],
        request: Request,
        searching: Searching,
        zone: ZoneInfo,
        clock: Clock,
        degraded: list[str],
    ) -> Pool:
        """All that competes: what the forests have, and what the sources found in time."""
        outside = Bounds(between=request.between(zone), said_until=request.said_until(zone))
        bounds = scopes[0].bounds if scopes else outside
        if not searching:
            return Pool(scopes, (), bounds)
        with clock.stage("sources"):
            items, missing = self._known_sources.items(searching, bounds, request.metadata, zone)
        degraded += missing
        return Pool(scopes, items, bounds)

    def _note_visits(self, scopes: Sequence[Scope], evidence: Sequence[Evidence]) -> None:
        """Count what is returned, forest by forest."""
        if self.visits is None:
            return
        for scope in scopes:
            own = [item for item in evidence if not item.source and item.owner == scope.forest.owner]
            found = returned(scope.candidates.cells.values(), scope.candidates.turns, own)
            self.visits.note(scope.tenant, scope.forest.id, found)

    def _account(
        self, tenant: TenantId, scopes: Sequence[Scope], calls: Sequence[CallRecord], degraded: list[str]
    ) -> None:
        """Record what the calls cost, for the only forest or for none; a failure does not hold back the evidence."""
        if not calls:
            return
        self.telemetry.called(tenant, calls)
        try:
            self.store.record(tenant, scopes[0].forest.id if len(scopes) == 1 else None, calls)
        except StoreUnavailable:
            degraded.append("The store is unavailable: what the model calls cost was not recorded.")

    def _tokens(self, question: Question, embedded: Embedded) -> Unit | None:
        """The question's token vectors, if they are compared; those of a language that the model does not know only add
        noise."""
        if embedded.tokens is None or self.settings.weights["tokens"] <= 0:
            return None
        return unpack(embedded.tokens[0].packed) if question.known_to(self.embedder.model) else None

    def _embed(self, question: Question, degraded: list[str]) -> Embedded | None:
        try:
            return self.embedder.embed_query([question.text])
        except (ModelUnavailable, ModelRejected):
            degraded.append("The embedding model is unavailable: answered by words alone.")
            return None


def _completed(request: Request, turns: Sequence[SaidTurn], planner: Planner, clock: Clock) -> Request:
    """The request with its question completed by the turns before it."""
    if not turns:
        return request
    with clock.stage("rewrite"):
        completed = planner.completed(request.question.text, turns)
    return request if completed == request.question.text else request.with_question(parse_question(completed))


def _span(about: Range) -> TimeSpan:
    first, last = about
    if first is None and last is None:
        return UNKNOWN_TIME
    return TimeSpan(first or EARLIEST, last or LATEST, Precision.DAY)
