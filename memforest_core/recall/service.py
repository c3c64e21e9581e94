"""Recall: a question in, evidence out. It goes on without a part that is unavailable, and the result says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from typing import Unpack
from zoneinfo import ZoneInfo

from memforest_core.domain.asked_now import asked_before, asked_now
from memforest_core.domain.asked_order import Order, order_of
from memforest_core.domain.asked_times import asked_period
from memforest_core.domain.delivery import CHARS_PER_TOKEN, fitting
from memforest_core.domain.evidence import Evidence, Mode, RecallResult
from memforest_core.domain.ids import TenantId
from memforest_core.domain.scoring import Voted, Weights, vote
from memforest_core.domain.times import EARLIEST, LATEST, UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.domain.turns import checked_name
from memforest_core.errors import ModelRejected, ModelUnavailable, StoreUnavailable
from memforest_core.index.vector_index import DenseVector, VectorIndex
from memforest_core.models.calls import ChatModel, Embedder, Reranker
from memforest_core.models.prompts import BUILT_IN, Prompts
from memforest_core.recall.asking import Asked, Range, RecallOptions, checked
from memforest_core.recall.current import Current, current_first, current_states, previous_states
from memforest_core.recall.gathering import Clock, Gathered, Gathering, Place
from memforest_core.recall.items import ALWAYS, Bounds, items
from memforest_core.recall.ordering import in_order, reranked
from memforest_core.recall.picking import Paces, pick
from memforest_core.recall.question import Question, parse_question
from memforest_core.recall.records import SaidTurn
from memforest_core.recall.resolving import Resolver
from memforest_core.recall.rewriting import LAST_TURNS
from memforest_core.recall.rows.reading import AnswerCalls, RecallRows, RecallStore
from memforest_core.recall.rows.timeline import TimelineStore
from memforest_core.recall.thinking import Thought, no_chat_model
from memforest_core.recall.visits import VisitCounter, returned
from memforest_core.settings import RecallSettings
from memforest_core.store.owners import ForestRef


def weights_of(settings: RecallSettings) -> Weights:
    """The weights of the signals as they are set."""
    return Weights(**{each.name: getattr(settings, f"{each.name}_weight") for each in fields(Weights)})


@dataclass(frozen=True)
class RecallService:
    """Answers questions from one store, index and embedder. Thread-safe: a recall keeps its state to itself.

    ``pointers`` says that facts were extracted without a model, so that the turn is what is worth delivering. ``chat``
    opens the chat model of the modes llm and planner and of completing follow-up questions, ``ledger`` keeps what it
    costs, ``reranker`` scores the best pieces again, ``visits`` counts what was returned, ``states`` finds the states
    that hold now, ``prompts`` are an application's own instructions.
    """

    store: RecallStore
    index: VectorIndex
    embedder: Embedder
    settings: RecallSettings
    _: KW_ONLY
    pointers: bool = True
    chat: Callable[[], ChatModel] | None = None
    ledger: AnswerCalls | None = None
    reranker: Reranker | None = None
    visits: VisitCounter | None = None
    states: TimelineStore | None = None
    prompts: Prompts = BUILT_IN
    _paces: Paces = field(default_factory=Paces)

    @cached_property
    def _weights(self) -> Weights:
        return weights_of(self.settings)

    @cached_property
    def _gathering(self) -> Gathering:
        return Gathering(self.store, self.index, self.settings, self._weights, self.pointers, self.embedder)

    def recall(
        self,
        tenant: TenantId,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> RecallResult:
        """The ``k`` best pieces of evidence for a question; see RecallOptions for the rest.

        An owner without a memory yet gets an empty result with ``owner_known`` False. Raises InvalidInput (also for a
        mode that needs a chat model when none is configured), StoreUnavailable. An index or a model that is away is no
        error: ``degraded`` says what was missing.
        """
        asked = checked(self.settings, question, k, mode, options)
        owner = checked_name(owner, "owner")
        clock = Clock()
        if (asked.mode.ranks or asked.mode.plans) and self.chat is None:
            raise no_chat_model()
        place, turns = self._place(tenant, owner, asked)
        if place is None:
            mode = Mode.FLAT if asked.mode is Mode.AUTO else asked.mode
            return RecallResult(question, mode, (), clock.total(), owner_known=False)
        forest = place.forest
        thought = Thought(self.settings, asked.moment(ZoneInfo(forest.time_zone)), self.chat, self.prompts)
        degraded: list[str] = []
        if turns:
            with clock.stage("rewrite"):
                rewritten = thought.completed(asked.question.text, turns)
            if rewritten.changed:
                asked = replace(asked, question=parse_question(rewritten.text))
        with clock.stage("embed"):
            dense = self._embed(asked.question, degraded)
        picked = ""
        if asked.mode is Mode.AUTO:
            fitting_mode, picked = pick(thought.possible, dense is None, asked.budget_ms, self._paces.recent_ms())
            asked = replace(asked, mode=fitting_mode)
        current = self._current(place, asked, clock)
        gathered = self._gathering.gather(place, asked, dense, thought, clock, current.facts)
        voted = self._voted(place, asked, owner, gathered, current, clock)
        evidence = self._evidence(place, asked, gathered, voted, clock, degraded)
        self._account(tenant, forest, thought, degraded)
        if self.visits is not None:
            self.visits.note(
                tenant, forest.id, returned(gathered.candidates.cells.values(), gathered.candidates.turns, evidence)
            )
        timings = clock.total()
        self._paces.record(asked.mode, timings["total"])
        return RecallResult(
            question=question,
            mode=asked.mode,
            evidence=evidence,
            timings_ms=timings,
            degraded=(*degraded, *gathered.degraded, *thought.degraded),
            round_trips=gathered.search.round_trips,
            picked=picked,
            about=_span(place.bounds.about),
            asked_for=asked.question.text,
            plan=thought.plans[0].told() if thought.plans else {},
            calls=len(thought.calls),
        )

    def _place(self, tenant: TenantId, owner: str, asked: Asked) -> tuple[Place | None, list[SaidTurn]]:
        """Where evidence is looked for, and the last turns of the running session if a model can use them."""
        with self.store.recalling(tenant) as rows:
            forest = rows.forest(owner)
            if forest is None:
                return None, []
            turns: list[SaidTurn] = []
            if asked.session_id is not None and self.chat is not None:
                turns = rows.last_turns(forest.id, asked.session_id, LAST_TURNS)
            return Place(tenant, forest, self._bounds(rows, forest, asked)), turns

    def _bounds(self, rows: RecallRows, forest: ForestRef, asked: Asked) -> Bounds:
        """What may be evidence, and which time the question names."""
        zone = ZoneInfo(forest.time_zone)
        moment = asked.moment(zone)
        about = asked_period(asked.question.text, moment) if self._weights.time > 0 else None
        if about is not None:
            # "In May" asked years after the last conversation means its last May.
            about = asked_period(asked.question.text, moment, known_until=rows.last_said(forest.id))
        return Bounds(
            between=asked.between(zone),
            said_until=asked.said_until(zone),
            sessions=frozenset(rows.sessions(forest.id, asked.sessions)) if asked.sessions else None,
            excluded=asked.exclude_sessions,
            speakers=asked.speakers,
            roles=asked.roles,
            about=ALWAYS if about is None else (about.first, about.last),
        )

    def _current(self, place: Place, asked: Asked, clock: Clock) -> Current:
        """The states that hold now, or held before, if the question asks for them."""
        if self.states is None or self.settings.current_weight <= 0:
            return Current()
        for find, attributes in (
            (current_states, asked_now(asked.question.text)),
            (previous_states, asked_before(asked.question.text)),
        ):
            if attributes:
                with clock.stage("states"), self.states.reading(place.tenant) as rows:
                    return find(rows, place.forest, asked.question, attributes, place.bounds.said_until)
        return Current()

    def _voted(
        self, place: Place, asked: Asked, owner: str, gathered: Gathered, current: Current, clock: Clock
    ) -> list[Voted]:
        """The candidates with all votes, best first."""
        search, candidates = gathered.search, gathered.candidates
        with clock.stage("score"):
            found = items(candidates, asked.question, owner, place.bounds, gathered.leaves.positions)
            voted = vote(found, search.cells, search.facts, search.nodes, self._weights)
        if self.settings.order_weight > 0 and order_of(asked.question.text).order is not Order.NONE:
            with clock.stage("order"), self.store.recalling(place.tenant) as rows:
                voted = in_order(rows, candidates, voted, asked.question, self.settings.order_weight)
        return current_first(voted, current, self.settings.current_weight)

    def _evidence(
        self,
        place: Place,
        asked: Asked,
        gathered: Gathered,
        voted: list[Voted],
        clock: Clock,
        degraded: list[str],
    ) -> tuple[Evidence, ...]:
        """The best different pieces, reranked by a cross-encoder if there is one, within the caller's budget."""
        first = 0 if self.reranker is None else self.settings.rerank.first
        with clock.stage("resolve"), self.store.recalling(place.tenant) as rows:
            resolver = Resolver(
                rows,
                place.forest.id,
                gathered.candidates,
                ZoneInfo(place.forest.time_zone),
                same_words=self.settings.same_words,
                per_fact=self.settings.per_fact,
                said_until=place.bounds.said_until,
                excluded=place.bounds.excluded,
            )
            evidence = resolver.resolve(voted, max(asked.k, first), asked.neighbours)
        if self.reranker is not None:
            with clock.stage("rerank"):
                evidence, failed = reranked(self.reranker, asked.question.text, evidence, first)
            degraded += failed
        if asked.min_score is not None:
            evidence = tuple(piece for piece in evidence if piece.score >= asked.min_score)
        evidence = evidence[: asked.k]
        if asked.max_tokens is not None:
            evidence = tuple(fitting(evidence, asked.max_tokens * CHARS_PER_TOKEN))
        return evidence

    def _account(self, tenant: TenantId, forest: ForestRef, thought: Thought, degraded: list[str]) -> None:
        """Record what the calls cost; a failure does not hold back the evidence."""
        if self.ledger is None or not thought.calls:
            return
        try:
            self.ledger.record(tenant, forest.id, thought.calls)
        except StoreUnavailable:
            degraded.append("The store is away: what the model calls cost was not kept.")

    def _embed(self, question: Question, degraded: list[str]) -> DenseVector | None:
        try:
            vector: DenseVector = self.embedder.embed_query([question.text]).vectors[0]
        except (ModelUnavailable, ModelRejected):
            degraded.append("The embedding model is away: answered by words alone.")
            return None
        return vector


def _span(about: Range) -> TimeSpan:
    first, last = about
    if first is None and last is None:
        return UNKNOWN_TIME
    return TimeSpan(first or EARLIEST, last or LATEST, Precision.DAY)
