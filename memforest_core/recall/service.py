"""Recall: a question in, evidence out. It goes on without a part that is unavailable, and the result says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from typing import Unpack
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.domain.asked_now import asked_before, asked_now
from memforest_core.domain.evidence import Evidence, Mode, RecallResult
from memforest_core.domain.ids import TenantId
from memforest_core.domain.scoring import Voted, Weights
from memforest_core.domain.times import EARLIEST, LATEST, UNKNOWN_TIME, Precision, TimeSpan
from memforest_core.errors import IndexUnavailable, ModelRejected, ModelUnavailable, StoreUnavailable
from memforest_core.index.vector_index import DenseVector, VectorIndex
from memforest_core.models.calls import CallRecord, ChatModel, Embedded, Embedder, Reranker
from memforest_core.models.prompts import BUILT_IN, Prompts
from memforest_core.models.token_vectors import Unit, unpack
from memforest_core.recall.asking import Asked, Range, RecallOptions, asked_owners, checked
from memforest_core.recall.current import Current, current_states, previous_states
from memforest_core.recall.delivering import Delivering
from memforest_core.recall.gathering import Clock, Gathering, Place
from memforest_core.recall.given_vector import checked_vector
from memforest_core.recall.items import Bounds
from memforest_core.recall.picking import Paces, pick
from memforest_core.recall.places import found_places
from memforest_core.recall.pooling import Part, Pool
from memforest_core.recall.priorities import by_priority, fact_priorities
from memforest_core.recall.question import Question, parse_question
from memforest_core.recall.resolving import SPARE
from memforest_core.recall.rows.reading import AnswerCalls, RecallStore
from memforest_core.recall.rows.timeline import TimelineStore
from memforest_core.recall.slots import Slots
from memforest_core.recall.sources import Searching, Sources
from memforest_core.recall.thinking import Thought, no_chat_model
from memforest_core.recall.visits import VisitCounter, returned
from memforest_core.settings import RecallSettings, TopicSettings


def weights_of(settings: RecallSettings) -> Weights:
    """The weights of the signals as they are set."""
    return Weights(**{each.name: getattr(settings, f"{each.name}_weight") for each in fields(Weights)})


@dataclass(frozen=True)
class RecallService:
    """Answers questions from one store, index and embedder. Thread-safe: a recall keeps its state to itself.

    ``pointers`` says that facts were extracted without a model, so that the turn is what is worth delivering. ``chat``
    opens the chat model of the modes llm and planner and of completing follow-up questions, ``reranker`` scores the
    best pieces again, ``ledger`` keeps what their calls cost, ``visits`` counts what was returned, ``states`` finds the
    states that hold now, ``prompts`` are an application's own instructions, ``sources`` the external collections in
    place of those of the settings, ``topics`` how fast the priority of topics fades. ``explains``: what related words
    gave is a signal of its own, at the price of a search, for who shows why a piece was found. ``slots`` are shared by
    all services of a process.
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
    sources: Sources | None = None
    topics: TopicSettings = field(default_factory=TopicSettings)
    explains: bool = False
    slots: Slots = field(default_factory=lambda: Slots(RecallSettings().at_once))
    _paces: Paces = field(default_factory=Paces)

    @cached_property
    def _weights(self) -> Weights:
        return weights_of(self.settings)

    @cached_property
    def _known_sources(self) -> Sources:
        return self.sources or Sources(self.settings.sources, self.embedder.dimension)

    @cached_property
    def _delivering(self) -> Delivering:
        return Delivering(self.store, self.settings, self.reranker)

    @cached_property
    def _gathering(self) -> Gathering:
        return Gathering(self.store, self.index, self.settings, self._weights, self.pointers, self.embedder)

    def recall(
        self,
        tenant: TenantId,
        owner: str | None = None,
        question: str | None = None,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> RecallResult:
        """The ``k`` best pieces of evidence (1 to 1,000; the setting recall.k unless given) for a question, best first.

        ``question`` has at most 8,192 characters. ``mode`` is "auto", "flat", "embedding", "llm" or "planner".
        Options: ``since``, ``until``, ``between`` and ``as_of`` bound the time, ``asked_at`` says when it is asked
        (ISO 8601, unix seconds or datetimes), ``max_tokens`` and ``budget_ms`` (milliseconds) what may be spent,
        ``neighbours`` adds that many pieces before and after each, ``session_id`` names the running session,
        ``sessions``, ``exclude_sessions``, ``channels``, ``speakers``, ``roles``, ``metadata`` and ``trees`` say where
        to look, and ``min_score`` leaves out what scores less (RecallOptions tells more). ``vector`` is asked instead
        of a question. ``owners`` are further owners (or all of them, without ``owner``): one recall over at most 16
        forests, whose pieces say whose they are. ``sources`` are external collections that are searched beside.
        An owner without a memory yet gets an empty result whose ``owner_known`` is False. An index, a model or a source
        that is away is no error: ``degraded`` says what was missing. Raises InvalidInput (also for a mode that needs a
        chat model when none is configured), StoreUnavailable.
        """
        asked = checked(self.settings, question, k, mode, options)
        owners = asked_owners(owner, asked.owners)
        given = None if asked.vector is None else checked_vector(asked.vector, self.embedder.dimension)
        if asked.sources:
            self._known_sources.check(asked.sources)
        clock = Clock()
        if asked.mode.ranks and self.chat is None:
            raise no_chat_model()
        with clock.stage("places"), self.store.recalling(tenant) as rows:
            readable = self.chat is not None and given is None
            found = found_places(rows, tenant, owners, asked, times=self._weights.time > 0, turns=readable)
        places = found.known
        if not places and not asked.sources:
            mode = Mode.FLAT if asked.mode is Mode.AUTO else asked.mode
            unknown = found.unknown
            return RecallResult(question or "", mode, (), clock.total(), owner_known=False, owners_unknown=unknown)
        zone = ZoneInfo(places[0].forest.time_zone if places else "UTC")
        thought = Thought(self.settings, asked.moment(zone), self.chat, self.prompts)
        degraded = [sentence for place in places for sentence in place.degraded]
        if found.turns:
            with clock.stage("rewrite"):
                rewritten = thought.completed(asked.question.text, found.turns)
            if rewritten.changed:
                asked = replace(asked, question=parse_question(rewritten.text))
        with clock.stage("embed"):
            embedded = self._embed(asked.question, degraded) if given is None else None
        dense: DenseVector | None = given if embedded is None else embedded.vectors[0]
        searching = self._begin(tenant, owners, asked, dense, degraded)
        asked, picked = self._picked(asked, thought, dense, len(places))
        with self._slot(asked, clock):
            parts = self._parts(places, asked, dense, thought, clock)
            pool = self._pool(parts, asked, searching, zone, clock, degraded)
            voted = self._voted(pool, asked, clock, _tokens(embedded))
            evidence, failed, calls = self._delivering.evidence(pool, asked, voted, zone, clock)
        degraded += failed
        self._account(tenant, parts, [*thought.calls, *calls], degraded)
        self._note_visits(tenant, parts, evidence)
        timings = clock.total()
        if pool.alone and not asked.sources:
            self._paces.record(asked.mode, timings["total"])
        degraded += [sentence for part in parts for sentence in part.gathered.degraded]
        return RecallResult(
            question=question or "",
            mode=asked.mode,
            evidence=evidence,
            timings_ms=timings,
            degraded=tuple(dict.fromkeys([*degraded, *thought.degraded])),
            round_trips=sum(part.gathered.search.round_trips for part in parts),
            picked=picked,
            about=_span(pool.bounds.about),
            asked_for=asked.question.text,
            plan=thought.plans[0].told() if thought.plans else {},
            calls=len(thought.calls),
            owner_known=bool(places),
            owners_unknown=found.unknown,
            asked_of=(*(place.forest.owner for place in places), *asked.sources),
        )

    def close(self) -> None:
        """Close the connections to sources."""
        if "_known_sources" in self.__dict__:
            self._known_sources.close()

    @contextmanager
    def _slot(self, asked: Asked, clock: Clock) -> Iterator[None]:
        """A slot for what computes; none for what waits for a model or a source, perhaps for seconds."""
        with ExitStack() as held:
            if not (asked.mode.ranks or asked.sources or self.reranker is not None):
                with clock.stage("slot"):
                    held.enter_context(self.slots.one())
            yield

    def _begin(
        self, tenant: TenantId, owners: Sequence[str], asked: Asked, dense: DenseVector | None, degraded: list[str]
    ) -> Searching:
        """Ask the sources while the forests are searched."""
        if not asked.sources:
            return Searching()
        if dense is None:
            degraded.append("No source was searched: the embedding model is away.")
            return Searching()
        bounded = (asked.since, asked.until, asked.as_of, asked.metadata)
        wider = any(each is not None for each in bounded)
        return self._known_sources.begin(asked.sources, dense, tenant, owners, wider=wider)

    def _picked(self, asked: Asked, thought: Thought, dense: DenseVector | None, forests: int) -> tuple[Asked, str]:
        """The request with the mode that ``auto`` means, and why; several forests take as many times as long."""
        if asked.mode is not Mode.AUTO:
            return asked, ""
        recent = {mode: ms * max(1, forests) for mode, ms in self._paces.recent_ms().items()}
        possible = thought.possible and asked.vector is None
        mode, why = pick(possible, dense is None, asked.budget_ms, recent)
        return asked.in_mode(mode, self.settings), why

    def _parts(
        self, places: Sequence[Place], asked: Asked, dense: DenseVector | None, thought: Thought, clock: Clock
    ) -> list[Part]:
        """What each forest has. An index that failed is not asked again for the next one."""
        parts: list[Part] = []
        failure: IndexUnavailable | None = None
        for place in places:
            current = self._current(place, asked, clock)
            gathered = self._gathering.gather(place, asked, dense, thought, clock, current.facts, failure)
            failure = gathered.search.failure
            parts.append(Part(place, gathered, current))
        return parts

    def _pool(
        self,
        parts: Sequence[Part],
        asked: Asked,
        searching: Searching,
        zone: ZoneInfo,
        clock: Clock,
        degraded: list[str],
    ) -> Pool:
        """Everything that competes: what the forests have, and what the sources found in time."""
        if parts:
            bounds = parts[0].place.bounds
        else:
            bounds = Bounds(between=asked.between(zone), said_until=asked.said_until(zone))
        if not searching.answers:
            return Pool(parts, (), bounds)
        with clock.stage("sources"):
            pieces, told = self._known_sources.pieces(searching, bounds, asked.metadata, zone)
        degraded += told
        return Pool(parts, pieces, bounds)

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

    def _voted(self, pool: Pool, asked: Asked, clock: Clock, tokens: Unit | None) -> list[Voted]:
        """The candidates with all votes, best first; ``tokens`` are those of the question, if the embedding model gives
        them."""
        with clock.stage("score"):
            # With a chat model it was not measured: its sentences share more words with questions, and the questions of
            # its plans have words of their own. Where vectors mean little, words are all there is.
            less = self.chat is None and asked.question.known_to(self.embedder.model)
            enough = self.settings.enough_words if less else 0.0
            voted = pool.voted(asked.question, self._weights, enough)
        if tokens is not None and self.settings.tokens_weight > 0:
            with clock.stage("tokens"):
                weight = self.settings.tokens_weight
                voted = pool.nearer_first(self.store, voted, self.embedder.model, tokens, weight)
        with clock.stage("order"):
            voted = pool.ordered(self.store, voted, asked.question, self.settings.order_weight)
            voted = pool.dated_first(voted, asked.question, self.settings.series_weight)
            placed = pool.in_series(self.store, voted, asked.question, self.settings.series_weight)
            voted = pool.exact_first(self.store, placed.voted, asked.question, self.settings.exact_weight)
        if self.settings.priority_weight > 0:
            with clock.stage("topics"):
                voted = by_priority(voted, self._priorities(pool, voted), self.settings.priority_weight)
        voted = pool.current_first(replace(placed, voted=voted), self.settings.current_weight)
        if self.explains:
            with clock.stage("explain"):
                voted = pool.related_apart(voted, SPARE * asked.k, asked.question, self._weights, enough)
        return voted

    def _priorities(self, pool: Pool, voted: Sequence[Voted]) -> dict[UUID, float]:
        """The priorities of the topics of these pieces' facts, of all forests."""
        found: dict[UUID, float] = {}
        for part, own in pool.shares(voted) if pool.parts else ():
            facts = sorted({fact for one in own for fact in one.item.facts}, key=str)
            with self.store.prioritizing(part.place.tenant) as rows:
                found |= fact_priorities(rows, part.place.forest.id, facts, self.topics)
        return found

    def _note_visits(self, tenant: TenantId, parts: Sequence[Part], evidence: Sequence[Evidence]) -> None:
        """Count what is returned, forest by forest."""
        if self.visits is None:
            return
        for part in parts:
            candidates, forest = part.gathered.candidates, part.place.forest
            own = [piece for piece in evidence if not piece.source and piece.owner == forest.owner]
            self.visits.note(tenant, forest.id, returned(candidates.cells.values(), candidates.turns, own))

    def _account(
        self, tenant: TenantId, parts: Sequence[Part], calls: Sequence[CallRecord], degraded: list[str]
    ) -> None:
        """Record what the calls cost, for the only forest or for none; a failure does not hold back the evidence."""
        if self.ledger is None or not calls:
            return
        try:
            self.ledger.record(tenant, parts[0].place.forest.id if len(parts) == 1 else None, calls)
        except StoreUnavailable:
            degraded.append("The store is away: what the model calls cost was not kept.")

    def _embed(self, question: Question, degraded: list[str]) -> Embedded | None:
        try:
            return self.embedder.embed_query([question.text])
        except (ModelUnavailable, ModelRejected):
            degraded.append("The embedding model is away: answered by words alone.")
            return None


def _tokens(question: Embedded | None) -> Unit | None:
    """The token vectors of a question, if its model gives them."""
    return None if question is None or question.tokens is None else unpack(question.tokens[0].packed)


def _span(about: Range) -> TimeSpan:
    first, last = about
    if first is None and last is None:
        return UNKNOWN_TIME
    return TimeSpan(first or EARLIEST, last or LATEST, Precision.DAY)
