"""Retrieves the candidates of a question: by searching the index (or full text without it) and browsing trees."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import inf
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.domain.evidence import Mode
from memforest_core.domain.ids import FactId, SessionId, TenantId, TreeKind
from memforest_core.domain.indexed import term_index
from memforest_core.domain.people import People, found_in
from memforest_core.domain.question_time import named_period
from memforest_core.domain.scoring import coverage, fused
from memforest_core.domain.temporal_question import Order, answering_terms, order_of
from memforest_core.domain.text import terms
from memforest_core.domain.value_kinds import kind_of
from memforest_core.index.vector_index import DenseVector, IndexFilter, PointKind, SparseVector, VectorIndex
from memforest_core.models.calls import Embedder
from memforest_core.recall.browse import browse
from memforest_core.recall.candidates import OCCURRENCES_PER_FACT, Candidates, Scope, read_candidates, shortlist
from memforest_core.recall.index_search import IndexSearch, best_of_words
from memforest_core.recall.plan import LAST_TURNS, SUMMARY_CHARS, Planner
from memforest_core.recall.question import Question
from memforest_core.recall.records import FactText, Said, SaidTurn, TextsById, TreeRoot
from memforest_core.recall.request import ALWAYS, Bounds, Range, Request
from memforest_core.recall.rows.recall_rows import RecallRows, RecallStore
from memforest_core.recall.temporal import near_facts
from memforest_core.settings import RecallSettings
from memforest_core.store.owners import ForestRef
from memforest_core.store.reads import Read

FlatHits = Mapping[PointKind, frozenset[UUID]]
"""What the flat search found of each kind, in no order; of nodes roots."""
ROOTS = 10
"""Roots of trees that vectors bring (paper 4.3)."""
TOPICS = 8
"""Cells whose passages may have a value of the kind that a question wants."""
CELLS_PER_ITEM = 8
"""Cells that are read for each piece of evidence that is wanted, or ranked again: the best by what the search says of
them."""
FILTER_FACTOR = 4
"""How many times more the flat search brings when turns are left out by what the index can't filter by."""
BEST_CHARS = 8_000
"""Characters read of the best hits by words, to see how much of the question they contain; a cell has no more."""
RAW_LIMIT = 64
"""Cells that are not indexed yet and that one recall reads: the latest. More are searched for by full text."""
MAX_SESSIONS = 2_000
"""Sessions of channels that the index is limited to. Of more, turns are left out after the search."""
MANY_SESSIONS = (
    f"The channels have more than {MAX_SESSIONS:,} sessions: they were looked for among what was found everywhere."
)
UNAVAILABLE = "The vector index is unavailable: answered from full text and what it had found before."
UNAVAILABLE_FOR_VECTOR = "The vector index is unavailable: only what it had found near the vector before is here."
CATCHING_UP = "The vector index is catching up: what is not indexed yet was searched for by full text."
COLD_FOR_VECTOR = "Some topics are cold: what only they contain can't be found by a vector."
CATCHING_UP_FOR_VECTOR = "The vector index is catching up: what is not indexed yet can't be found by a vector."


@dataclass(slots=True)
class Clock:
    """Wall time per stage of one recall."""

    spent: dict[str, float] = field(default_factory=dict)
    _started: float = field(default_factory=time.perf_counter)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + _ms(started)

    def total(self) -> dict[str, float]:
        """All stages and their total so far, in milliseconds."""
        return self.spent | {"total": _ms(self._started)}


def _ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000.0


def find_scopes(
    rows: RecallRows, tenant: TenantId, owners: Sequence[str], request: Request, *, times: bool, turns: bool
) -> tuple[list[Scope], list[SaidTurn], list[str]]:
    """The forests of these owners, in their order; the last turns of the running session; the owners without a memory.

    At most seven statements for each owner. ``times`` says that the time counts which the question names, ``turns``
    that a model can use the last turns of the running session: those of the first owner who has it. Raises
    InvalidInput, StoreUnavailable.
    """
    scopes: list[Scope] = []
    said: list[SaidTurn] = []
    unknown: list[str] = []
    for owner in owners:
        # Before the index is searched: in the other order a turn that is indexed between the two would be missed.
        some = 1 if request.vector is not None else RAW_LIMIT + 1
        forest, cells, unsure, cold = rows.together(
            rows.forest(owner), rows.not_indexed(owner, some), rows.index_unsure(), rows.cold_topics(owner)
        )
        if forest is None:
            unknown.append(owner)
            continue
        if turns and request.session_id is not None and not said:
            said = rows.last_turns(forest.id, request.session_id, LAST_TURNS)
        bounds, degraded = _bounds(rows, forest, request, times=times)
        scopes.append(Scope(tenant, forest, bounds, degraded, cells, unsure, cold))
    return scopes, said, unknown


def _bounds(rows: RecallRows, forest: ForestRef, request: Request, *, times: bool) -> tuple[Bounds, list[str]]:
    """What may be evidence in a forest, and which time the question names; a sentence when channels have more sessions
    than the index can be limited to."""
    zone = ZoneInfo(forest.time_zone)
    at = request.timestamp(zone)
    about = named_period(request.question.text, at) if times else None
    if about is not None:
        # "In May", years after the last conversation, means its last May.
        about = named_period(request.question.text, at, known_until=rows.last_said(forest.id))
    channels = request.channels
    found = rows.sessions_in(forest.id, channels, request.sessions, MAX_SESSIONS + 1) if channels else []
    many = len(found) > MAX_SESSIONS
    sessions = frozenset(found) if channels and not many else None
    if sessions is None and request.sessions:
        sessions = frozenset(rows.sessions(forest.id, request.sessions))
    bounds = Bounds(
        between=request.between(zone),
        said_until=request.said_until(zone),
        sessions=sessions,
        excluded=request.exclude_sessions,
        speakers=request.speakers,
        roles=request.roles,
        about=ALWAYS if about is None else (about.first, about.last),
        channels=frozenset(request.channels),
    )
    return bounds, [MANY_SESSIONS] if many else []


@dataclass(frozen=True, slots=True)
class Retriever:
    """Retrieves candidates from one store and index; ``pointers`` says that facts only point to their turns."""

    store: RecallStore
    index: VectorIndex
    settings: RecallSettings
    pointers: bool
    embedder: Embedder

    def retrieve(self, scope: Scope, request: Request, planner: Planner, clock: Clock) -> None:
        """Add the candidates of a forest and their scores to its scope: flat hits united with what a model finds in the
        trees and with the facts of its states."""
        # No connection is held while the index or a chat model is called: either may take seconds.
        search, question = scope.search, request.question
        cold: list[tuple[TextsById, TextsById]] = []
        if scope.cold is not None and request.vector is None:
            # Before the index is searched: what becomes warm meanwhile is cold no more afterwards.
            with clock.stage("load"), self.store.recalling(scope.tenant) as rows:
                cold.append(rows.one(self._cold_text(rows, scope, question)))
        with clock.stage("search"):
            hits = search.flat(self._limits(request, scope.bounds))
        with clock.stage("load"), self.store.recalling(scope.tenant) as rows:
            if search.failure is not None:
                hits = self._full_text(rows, scope, question)
            people, said = self._read_hits(rows, scope, request, hits, cold)
            roots = self._roots(rows, scope, request, hits, people) if request.mode.ranks else []
        with clock.stage("series"):
            scope.near = self._near(scope, question, people)
        if roots:
            questions: Mapping[UUID, str] = dict.fromkeys([root.id for root in roots], question.text)
            if request.mode is Mode.PLANNER:
                with clock.stage("plan"):
                    questions = planner.plan(question.text, roots)
            with clock.stage("browse"):
                reading = partial(self.store.recalling, scope.tenant)
                beam, overlaps = self.settings.beam, search.scope.overlaps
                scope.browsed = browse(reading, roots, beam, planner.ranker(), questions, overlaps)
        with clock.stage("load"), self.store.recalling(scope.tenant) as rows:
            scope.candidates = self._candidates(rows, scope, request, hits, said)
        with clock.stage("search"):
            search.score(scope.candidates.voters())
        if search.failure is not None:
            scope.degraded.append(UNAVAILABLE if request.vector is None else UNAVAILABLE_FOR_VECTOR)
        scope.degraded += scope.browsed.degraded

    def search(self, scope: Scope, request: Request, dense: DenseVector | None) -> IndexSearch:
        """The searches of one question, limited to what the index knows of the bounds."""
        bounds = scope.bounds
        everything = IndexFilter(scope.tenant, scope.forest.id, overlaps=_seconds(bounds.between))
        cells = everything
        if bounds.said_until is not None and everything.overlaps is None:
            cells = replace(cells, overlaps=_seconds((None, bounds.said_until)))
        if bounds.sessions is not None:
            cells = replace(cells, session_ids=tuple(SessionId(id_) for id_ in bounds.sessions))
        trees = tuple(sorted(kind.value for kind in request.trees))
        words = expanded(request.question, self.settings.weights["wording"])
        return IndexSearch(self.index, everything, dense, words, cells, trees)

    def _limits(self, request: Request, bounds: Bounds) -> Mapping[PointKind, int]:
        """Flat hits per signal: at least as many as evidence items wanted.

        It brings more when turns are left out afterwards, by what the index can't filter by.
        """
        settings = self.settings
        cells, facts = max(settings.flat_limit, request.k), max(settings.fact_limit, request.k)
        if request.filters_after or (bounds.channels and bounds.sessions is None):
            cells, facts = FILTER_FACTOR * cells, FILTER_FACTOR * facts
        if bounds.said_until is not None:
            facts *= FILTER_FACTOR
        roots = ROOTS if request.mode.ranks and request.trees else 0
        return {_CELL: cells, _FACT: facts if bounds.sessions is None else 0, _NODE: roots}

    def _full_text(self, rows: RecallRows, scope: Scope, question: Question) -> FlatHits:
        """What Postgres full text finds when the index is unavailable; scores go where the index's would. Facts that
        are known to be wrong by the end of the bounds are not found."""
        search = scope.search
        limit, until = self.settings.flat_limit, scope.bounds.said_until
        cells, facts = rows.full_text(scope.forest.id, question.words, limit, until)
        search.cells.lexical |= covering(question, cells)
        search.facts.lexical |= covering(question, facts)
        return {_CELL: frozenset(search.cells.lexical), _FACT: frozenset(search.facts.lexical), _NODE: frozenset()}

    def _cold_text(self, rows: RecallRows, scope: Scope, question: Question) -> Read[tuple[TextsById, TextsById]]:
        """The cells and facts of cold topics that have words of the question."""
        return rows.cold_text(scope.forest.id, question.words, self.settings.flat_limit, scope.bounds.said_until)

    def _read_hits(
        self, rows: RecallRows, scope: Scope, request: Request, hits: FlatHits, cold: list[tuple[TextsById, TextsById]]
    ) -> tuple[People, list[Said]]:
        """Read what became cold and the best of the hits' texts into the scope: one round trip, or two when a topic
        became cold or warm meanwhile. Everybody who has spoken, and where the facts among the hits were said."""
        forest, question, search = scope.forest, request.question, scope.search
        behind = scope.unsure or bool(scope.unindexed)
        # Only other forests and what is not in the index are compared with them.
        compared = [search.cells, search.facts] if behind or scope.cold is not None or request.owners else []
        best = [id_ for scores in compared if (id_ := best_of_words(scores)) is not None]
        now_cold, speakers, texts, said = rows.together(
            rows.cold_topics(forest.owner),
            rows.speakers(forest.id),
            rows.texts(best, BEST_CHARS),
            rows.cells_of_facts(list(hits[_FACT]), OCCURRENCES_PER_FACT, scope.bounds.said_until),
        )
        scope.texts = texts
        if request.vector is not None:
            scope.degraded += [CATCHING_UP_FOR_VECTOR] if behind else []
            scope.degraded += [COLD_FOR_VECTOR] if scope.cold or now_cold else []
        else:
            raw = covering(question, dict(islice(scope.unindexed.items(), RAW_LIMIT)))
            if len(scope.unindexed) > RAW_LIMIT or scope.unsure:
                # So that a turn is found at once, however many are not indexed yet.
                raw = covering(question, rows.full_text(forest.id, question.words, RAW_LIMIT)[0]) | raw
                scope.degraded.append(CATCHING_UP)
            if now_cold not in {None, scope.cold}:
                cold.append(rows.one(self._cold_text(rows, scope, question)))
            cells, facts = ({id_: text for each in cold for id_, text in each[of].items()} for of in (0, 1))
            scope.outside_cells, scope.outside_facts = raw | covering(question, cells), covering(question, facts)
        return People(forest.owner, speakers, forest.display_name), said

    def _roots(
        self, rows: RecallRows, scope: Scope, request: Request, hits: FlatHits, people: People
    ) -> list[TreeRoot]:
        """The roots of the trees to browse: of named people, the best roots, and the trees that contain the hits."""
        if not request.trees:
            return []
        search, weights, most = scope.search, self.settings.weights, self.settings.tree_limit
        # Trees of sessions hold cells in their leaves, the others facts.
        in_trees = [*hits[_CELL]] if TreeKind.SESSION in request.trees else []
        in_trees += hits[_FACT] if request.trees - {TreeKind.SESSION} else ()
        scores = fused(search.nodes, weights, hits[_NODE])
        best = sorted(scores, key=lambda root: (-scores[root], root))[:ROOTS]
        scores = fused(search.cells, weights, hits[_CELL]) | fused(search.facts, weights, hits[_FACT])
        votes: dict[UUID, float] = defaultdict(float)
        for payload, root in rows.one(rows.roots_above(in_trees, request.trees)):
            votes[root] += scores.get(payload, 0.0)
        best += sorted(votes, key=lambda root: (-votes[root], root))
        keys = named_keys(request.question, people) if TreeKind.ENTITY in request.trees else []
        named, found = rows.together(
            rows.entity_roots(scope.forest.id, keys, SUMMARY_CHARS),
            rows.tree_roots(list(dict.fromkeys(best))[:most], SUMMARY_CHARS),
        )
        return list({root.id: root for root in (*named, *found)}.values())[:most]

    def _near(self, scope: Scope, question: Question, people: People) -> Mapping[FactId, float]:
        """How near facts are to a question about a series, where that counts."""
        if self.settings.weights["series"] <= 0:
            return {}

        def said(facts: Sequence[FactId]) -> Sequence[FactText]:
            with self.store.recalling(scope.tenant) as rows:
                return rows.one(rows.facts(scope.forest.id, facts, scope.bounds.said_until))

        return near_facts(scope.search, self.embedder, said, question, people, self.settings.fact_limit)

    def _candidates(
        self, rows: RecallRows, scope: Scope, request: Request, hits: FlatHits, said: Sequence[Said]
    ) -> Candidates:
        """Read the candidates; of many cells only the best, but for a question for which more may count than what is
        near it: an order, a time, or turns that are left out afterwards."""
        bounds, sure = scope.bounds, scope.states.facts
        cells = list(hits[_CELL] | scope.browsed.cells | scope.outside_cells.keys())
        facts = scope.browsed.facts | sure | scope.near.keys() | scope.outside_facts.keys()
        unread = [FactId(fact) for fact in facts if fact not in hits[_FACT]]
        said = [*said, *rows.one(rows.cells_of_facts(unread, OCCURRENCES_PER_FACT, bounds.said_until))]
        scores, weights = (scope.search.cells, scope.search.facts), self.settings.weights
        wants_value = weights["series"] > 0 and kind_of(request.question.text) is not None
        topics = shortlist(TOPICS, cells, said, scores, weights, ()) if wants_value else []
        limited = bounds.limited or request.filters_after or bounds.between != ALWAYS or bounds.about != ALWAYS
        ordered = order_of(request.question.text).order is not Order.NONE
        if not (limited or ordered or scope.near or scope.browsed.positions):
            rerank = self.settings.rerank
            wanted = request.k if rerank.model is None and rerank.path is None else max(request.k, rerank.first)
            most = CELLS_PER_ITEM * wanted
            if len({*cells, *(cell for _, cell in said)}) > most:
                always = {*scope.outside_cells, *scope.outside_facts, *sure}
                cells, said = shortlist(most, cells, said, scores, weights, always), []
        return read_candidates(rows, scope, request, cells, said, topics, sentences=not self.pointers)


# Python finds a member of an enumeration ten times slower than a name of the module.
_CELL, _FACT, _NODE = PointKind.CELL, PointKind.FACT, PointKind.NODE


def named_keys(question: Question, people: People) -> list[str]:
    """Keys of the trees of the owner and of everybody whom the question names."""
    named = [people.by_key(key) for key in question.name_keys()]
    named += [one.person for one in found_in(question.text, people)]
    known = [key for person in named if person is not None for key in sorted(person.keys)]
    return list(dict.fromkeys([people.owner.key, *known, *question.name_keys()]))


def expanded(question: Question, wording: float) -> SparseVector:
    """The question's terms; with ``wording`` the usual words of statements of the state that it is about."""
    telling = answering_terms(question.terms, question.spoken) if wording > 0 else ()
    weights = dict.fromkeys(map(term_index, telling), wording)
    weights |= dict.fromkeys(map(term_index, question.terms), 1.0)
    return SparseVector(*zip(*sorted(weights.items()), strict=True)) if weights else SparseVector((), ())


def _seconds(between: Range) -> tuple[float, float] | None:
    first, last = between
    if first is None and last is None:
        return None
    return first.timestamp() if first is not None else -inf, last.timestamp() if last is not None else inf


def covering(question: Question, found: TextsById) -> dict[UUID, float]:
    """How much of the question each text has, in (0, 1]; texts that have none of it are left out."""
    parts = coverage(question.wanted, [question.held(terms(text)) for text in found.values()])
    return {id_: part for id_, part in zip(found, parts, strict=True) if part > 0.0}
