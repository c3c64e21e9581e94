"""Finds the candidates of a question: by searching the vector index (or full text without it) and browsing trees."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from memforest_core.domain.asked_order import Order, order_of
from memforest_core.domain.attributes import answering_terms
from memforest_core.domain.evidence import Mode
from memforest_core.domain.ids import FactId, ForestId, SessionId, TenantId
from memforest_core.domain.lexical import term_index
from memforest_core.domain.mentions import found_in
from memforest_core.domain.people import People
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.scoring import Scores, Weights, coverage, fused
from memforest_core.domain.text import terms
from memforest_core.errors import IndexUnavailable
from memforest_core.index.vector_index import DenseVector, IndexFilter, SparseVector, VectorIndex
from memforest_core.models.calls import Embedder
from memforest_core.recall.asking import Asked, Range
from memforest_core.recall.browsing import Browsed, Reading, browse
from memforest_core.recall.candidates import OCCURRENCES_PER_FACT, Candidates, OfHits, Reads, gather
from memforest_core.recall.index_search import FlatHits, IndexSearch, Limits, best_by_words
from memforest_core.recall.items import ALWAYS, Bounds
from memforest_core.recall.kept_trees import KeptTrees
from memforest_core.recall.planning import plan_trees
from memforest_core.recall.question import Question
from memforest_core.recall.records import Above, FactText, FoundText, TreeRoot
from memforest_core.recall.related import related_terms
from memforest_core.recall.rows.reading import RecallRows, RecallStore
from memforest_core.recall.series import Nearness, near_facts
from memforest_core.recall.shortlist import Shortlist
from memforest_core.recall.thinking import Thought
from memforest_core.settings import RecallSettings
from memforest_core.store.owners import ForestRef
from memforest_core.store.reads import Read

FILTER_FACTOR = 4
"""How many times more the flat search brings when turns are left out by what the index can't filter by."""
BEST_CHARS = 8_000
"""Of the best hits by words are read to see how much of the question they hold; a cell has no more."""
RAW_LIMIT = 64
"""Cells that the index has not seen yet and that one recall reads: the latest. More are asked for by full text."""
SMALL_TREE = 32
"""Leaves of a tree that is read as a whole when it is browsed for the first time: with its inner nodes some 50 rows."""
ColdText = tuple[list[FoundText], list[FoundText]]
"""Cells and facts of cold topics that hold words of a question."""
NOTHING_COLD: ColdText = ([], [])
AWAY = "The vector index is away: answered from full text and what it had found before."
AWAY_FOR_VECTOR = "The vector index is away: of what is near the vector only what it had found before is here."
CATCHING_UP = "The vector index is catching up: full text was asked for what it does not hold yet."
COLD_FOR_VECTOR = "Some topics are cold: what only they hold can't be found by a vector."
CATCHING_UP_FOR_VECTOR = "The vector index is catching up: what it does not hold yet can't be found by a vector."


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


@dataclass(frozen=True, slots=True)
class Lacking:
    """What the index did not hold yet when the recall began."""

    cells: Sequence[FoundText] = ()
    """The latest cells that it had not seen, at most one more than ``RAW_LIMIT``."""
    unsure: bool = False
    """Whether more may be missing: after it was lost or restored, until it was compared."""
    cold: str | None = None
    """What stands for the cold topics; None when it lacks nothing because its topics are cold."""

    @property
    def any(self) -> bool:
        """Whether anything may be missing."""
        return self.unsure or bool(self.cells)


@dataclass(frozen=True, slots=True)
class Place:
    """The forest that is asked, and the bounds of the evidence."""

    tenant: TenantId
    forest: ForestRef
    bounds: Bounds
    degraded: tuple[str, ...] = ()
    """A sentence when the bounds could not be looked for as well as usual."""
    lacking: Lacking = Lacking()


@dataclass(slots=True)
class Gathered:
    """The candidates of one recall and their scores."""

    candidates: Candidates
    search: IndexSearch
    leaves: Browsed
    raw: RawHits
    """Cells that the index has not seen yet; they have no scores in ``search``."""
    cold: RawHits
    """Cells and facts that are out of the index because their topics are cold: the same of them."""
    degraded: list[str] = field(default_factory=list)
    near: Nearness = field(default_factory=dict)
    """What lies near a question about a series of statements; empty for most questions."""
    told: Mapping[UUID, str] = field(default_factory=dict)
    """The texts of the best cell and the best fact by words."""


@dataclass(frozen=True, slots=True)
class First:
    """What is read once the flat search is done."""

    raw: RawHits
    cold: RawHits
    people: People
    of_hits: OfHits
    told: Mapping[UUID, str]
    """The texts of the best of them by words."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """Finds candidates in one store and index; ``pointers`` says that facts only point to their turns."""

    store: RecallStore
    index: VectorIndex
    settings: RecallSettings
    weights: Weights
    pointers: bool
    embedder: Embedder
    kept: KeptTrees = field(default_factory=KeptTrees)

    def gather(
        self,
        place: Place,
        asked: Asked,
        dense: DenseVector | None,
        thought: Thought,
        clock: Clock,
        sure: frozenset[FactId] = frozenset(),
        failure: IndexUnavailable | None = None,
    ) -> Gathered:
        """Candidates with their scores: flat hits united with what the trees add and with ``sure``.

        With a ``failure`` of the index, which another forest's search met just before, the index is not asked again.
        """
        # Nothing is held while the index or a chat model is asked: either may take seconds.
        reading: Reading = partial(self.store.recalling, place.tenant)
        forest = place.forest
        search = self._index_search(place, asked, dense)
        search.failure = failure
        degraded: list[str] = []
        cold_text = NOTHING_COLD
        if place.lacking.cold is not None:
            # Before the index is searched: what becomes warm meanwhile is cold no more afterwards.
            with clock.stage("load"), reading() as rows:
                cold_text = rows.one(self._cold(rows, place, asked))
        with clock.stage("search"):
            hits = search.flat(self._limits(asked, place.bounds))
        with clock.stage("load"), reading() as rows:
            if search.failure is not None:
                limit = self.settings.flat_limit
                hits = full_text_hits(rows, forest.id, asked.question, search, limit, place.bounds.said_until)
            first = self._first(rows, place, asked, search, hits, cold_text)
            begun = self._begun(rows, place, asked, search, hits, first)
            ranked: list[UUID] = [root.id for root in begun[: self.settings.llm_trees]]
            trees = plan_trees(rows, ranked) if asked.mode is Mode.PLANNER else []
        raw, cold = first.raw, first.cold
        degraded += [*raw.degraded, *cold.degraded]
        questions = dict.fromkeys(ranked, asked.question.text)
        if asked.mode is Mode.PLANNER:
            with clock.stage("plan"):
                questions |= thought.plan(asked.question.text, trees)
        with clock.stage("series"):
            near = self._near(search, place, asked, first.people)
        with clock.stage("browse"):
            beam = self.settings.embedding_beam if asked.mode is Mode.EMBEDDING else self.settings.beam
            ranker = thought.ranker() if asked.mode.ranks else None
            leaves = browse(reading, search, begun, beam, self.weights, self.kept, ranker, questions)
        with clock.stage("load"), reading() as rows:
            cells = hits.cells | leaves.cells | raw.coverage.keys() | cold.coverage.keys()
            facts = hits.facts | leaves.facts | sure | near.keys() | {FactId(fact) for fact in cold.facts}
            always = {*raw.coverage, *cold.coverage, *cold.facts, *sure}
            shortlist = None if near or leaves.positions else self._shortlist(asked, place.bounds, search, always)
            reads = self._reads(asked, place.bounds)
            candidates = gather(rows, forest.id, cells, facts, reads, first.of_hits, shortlist)
        with clock.stage("search"):
            search.score(candidates.voters())
        if search.failure is not None:
            degraded.append(AWAY if asked.vector is None else AWAY_FOR_VECTOR)
        best = best_by_words(search)
        told = {id_: first.told[id_] for id_ in best if id_ in first.told}
        if len(told) < len(best):
            with clock.stage("load"), reading() as rows:
                told = rows.one(rows.texts(best, BEST_CHARS))
        return Gathered(candidates, search, leaves, raw, cold, degraded + leaves.degraded, near, told)

    def _index_search(self, place: Place, asked: Asked, dense: DenseVector | None) -> IndexSearch:
        """The searches of one question, limited to what the index knows of the bounds."""
        bounds = place.bounds
        scope = IndexFilter(place.tenant, place.forest.id, overlaps=_seconds(bounds.between))
        cells = scope
        if bounds.said_until is not None and scope.overlaps is None:
            cells = replace(cells, overlaps=_seconds((None, bounds.said_until)))
        if bounds.sessions is not None:
            cells = replace(cells, session_ids=tuple(SessionId(id_) for id_ in bounds.sessions))
        trees = tuple(sorted(kind.value for kind in asked.trees))
        words, related = expanded(asked.question, self.settings.wording_weight, self.settings.related_weight)
        return IndexSearch(self.index, scope, dense, words, cells, trees, related)

    def _reads(self, asked: Asked, bounds: Bounds) -> Reads:
        """Which reads this recall needs."""
        trees = asked.trees if asked.mode is not Mode.FLAT else frozenset()
        return Reads(
            sentences=not self.pointers,
            fact_times=bounds.between != ALWAYS or bounds.about != ALWAYS,
            session_paths=TreeKind.SESSION in trees,
            topics=trees - {TreeKind.SESSION} if self.weights.topic > 0 else frozenset(),
            chains=bool(trees) and self.weights.chain > 0 and asked.question.about_order,
            said_until=bounds.said_until,
            metadata=asked.metadata,
        )

    def _shortlist(
        self, asked: Asked, bounds: Bounds, search: IndexSearch, always: Collection[UUID]
    ) -> Shortlist | None:
        """What chooses the cells that are read; None for a question for which more may count than what is near it: an
        order, a time, the priority of topics, or turns that are left out afterwards."""
        others = bounds.limited or asked.filters_after or bounds.between != ALWAYS or bounds.about != ALWAYS
        if others or self.settings.priority_weight > 0 or order_of(asked.question.text).order is not Order.NONE:
            return None
        rerank = self.settings.rerank
        pieces = asked.k if rerank.model is None and rerank.path is None else max(asked.k, rerank.first)
        return Shortlist(self.settings.cells_per_piece * pieces, search.cells, search.facts, self.weights, always)

    def _cold(self, rows: RecallRows, place: Place, asked: Asked) -> Read[ColdText]:
        """The cells and facts of cold topics that hold words of the question."""
        words = () if asked.vector is not None else asked.question.words
        return rows.cold_text(place.forest.id, words, self.settings.flat_limit, place.bounds.said_until)

    def _first(
        self,
        rows: RecallRows,
        place: Place,
        asked: Asked,
        search: IndexSearch,
        hits: FlatHits,
        cold_text: ColdText,
    ) -> First:
        """What became cold, who is known, what is above the hits, where they were said and the best of their texts: one
        round trip, or two when a topic became cold or warm meanwhile."""
        forest, question = place.forest, asked.question
        placed: list[UUID] = []
        if asked.mode is not Mode.FLAT:
            # Trees of sessions hold cells, the others facts.
            placed += hits.cells if TreeKind.SESSION in asked.trees else ()
            placed += hits.facts if asked.trees - {TreeKind.SESSION} else ()
        now_cold, speakers, above, told, links = rows.together(
            rows.cold_topics(forest.owner),
            rows.speakers(forest.id),
            rows.lowest_above(placed, asked.trees),
            rows.texts(best_by_words(search), BEST_CHARS),
            rows.links_of_facts(list(hits.facts), OCCURRENCES_PER_FACT, place.bounds.said_until),
        )
        if asked.vector is not None:
            raw = RawHits({}, (CATCHING_UP_FOR_VECTOR,) if place.lacking.any else ())
            cold = RawHits({}, (COLD_FOR_VECTOR,) if place.lacking.cold or now_cold else ())
        else:
            raw = raw_hits(rows, forest.id, question, place.lacking)
            looks = [cold_text]
            if now_cold not in {None, place.lacking.cold}:
                looks.append(rows.one(self._cold(rows, place, asked)))
            cells, facts = (list(dict.fromkeys(text for each in looks for text in each[of])) for of in (0, 1))
            cold = RawHits(covering(question, cells), (), covering(question, facts))
        people = People(forest.owner, speakers, forest.display_name)
        return First(raw, cold, people, OfHits(above, hits.facts, links), told)

    def _begun(
        self, rows: RecallRows, place: Place, asked: Asked, search: IndexSearch, hits: FlatHits, first: First
    ) -> list[TreeRoot]:
        """The roots of the trees to browse: of named people, the best roots, and the trees that hold the hits."""
        forest = place.forest
        if asked.mode is Mode.FLAT or not asked.trees:
            return []
        most = self.settings.embedding_tree_limit if asked.mode is Mode.EMBEDDING else self.settings.tree_limit
        best = best_roots(search, hits.roots, self.settings.root_limit, self.weights)
        best = list(dict.fromkeys([*best, *trees_of_hits(first.of_hits.above, search, hits, self.weights)]))
        keys = named_keys(asked.question, first.people) if TreeKind.ENTITY in asked.trees else []
        # Of trees that browsing has never been in: what it reads first, or all of a small one.
        new = self.kept.lacking(place.tenant, best[:most])
        named, found, below = rows.together(
            rows.entity_roots(forest.id, keys), rows.tree_roots(best[:most]), rows.below(new, SMALL_TREE)
        )
        self.kept.keep(place.tenant, below)
        return list({root.id: root for root in (*named[: most // 2], *found)}.values())[:most]

    def _limits(self, asked: Asked, bounds: Bounds) -> Limits:
        """Flat hits per signal: at least as many as pieces wanted.

        It brings more when turns are left out afterwards, by what the index can't filter by.
        """
        settings = self.settings
        cells, facts = max(settings.flat_limit, asked.k), max(settings.fact_limit, asked.k)
        if asked.filters_after or (bounds.channels and bounds.sessions is None):
            cells, facts = FILTER_FACTOR * cells, FILTER_FACTOR * facts
        if bounds.said_until is not None:
            facts *= FILTER_FACTOR
        return Limits(
            cells,
            facts if bounds.sessions is None else 0,
            settings.root_limit if asked.mode is not Mode.FLAT and asked.trees else 0,
        )

    def _near(self, search: IndexSearch, place: Place, asked: Asked, people: People) -> Nearness:
        """What lies near a question about a series, where that counts."""
        if self.settings.series_weight <= 0:
            return {}

        def said(facts: Sequence[FactId]) -> Sequence[FactText]:
            with self.store.recalling(place.tenant) as rows:
                return rows.one(rows.facts(place.forest.id, facts, place.bounds.said_until))

        return near_facts(search, self.embedder, said, asked.question, people, self.settings.fact_limit)


def named_keys(question: Question, people: People) -> list[str]:
    """Under what the trees of the owner and of whom the question names are found."""
    named = [people.by_key(key) for key in question.name_keys()]
    named += [one.person for one in found_in(question.text, people)]
    known = [key for person in named if person is not None for key in sorted(person.keys)]
    return list(dict.fromkeys([people.owner.key, *known, *question.name_keys()]))


def expanded(question: Question, wording: float, related: float) -> tuple[SparseVector, SparseVector]:
    """The question's terms; with ``wording`` those in which the state it asks for is usually told; with ``related``
    times how near each is those that mean nearly the same. The last alone are the second vector."""
    asked = question.sparse()
    weights = dict(zip(asked.indices, asked.values, strict=True))
    told = answering_terms(question.terms, question.spoken) - question.terms if wording > 0 else frozenset()
    for term in told:
        weights.setdefault(term_index(term), wording)
    near = related_terms(question.text, question.terms) if related > 0 else {}
    added: dict[int, float] = {}
    for term, cosine in near.items():
        if (index := term_index(term)) not in weights:
            added.setdefault(index, related * cosine)
    return _sparse(weights | added), _sparse(added)


def _sparse(weights: Mapping[int, float]) -> SparseVector:
    ordered = sorted(weights.items())
    return SparseVector(tuple(index for index, _ in ordered), tuple(value for _, value in ordered))


def _seconds(between: Range) -> tuple[float, float] | None:
    first, last = between
    if first is None and last is None:
        return None
    return (
        first.timestamp() if first is not None else float("-inf"),
        last.timestamp() if last is not None else float("inf"),
    )


@dataclass(frozen=True, slots=True)
class RawHits:
    """Cells and facts that are not in the index, and how much of the question each holds, in (0, 1]."""

    coverage: Mapping[UUID, float]
    """Of cells."""
    degraded: tuple[str, ...] = ()
    """A sentence when more may be missing than were read."""
    facts: Mapping[UUID, float] = field(default_factory=dict)

    def join(self, cells: Scores, facts: Scores) -> None:
        """Give them scores on the scale of those that are indexed: full coverage equals the best hit.

        What the index has scored meanwhile keeps its scores.
        """
        for scores, shares in ((cells, self.coverage), (facts, self.facts)):
            known = scores.lexical.keys() | scores.dense.keys()
            for signal in (scores.lexical, scores.dense):
                best = max(signal.values(), default=1.0)
                signal.update({id_: share * best for id_, share in shares.items() if id_ not in known})


def raw_hits(rows: RecallRows, forest: ForestId, question: Question, lacking: Lacking) -> RawHits:
    """Search what has been accepted but not indexed yet, so that a turn is found at once. Of more such cells than are
    read, or when the index is unsure, the others are asked for by full text."""
    covered = covering(question, lacking.cells[:RAW_LIMIT])
    if len(lacking.cells) <= RAW_LIMIT and not lacking.unsure:
        return RawHits(covered)
    cells, _ = rows.full_text(forest, question.words, RAW_LIMIT)
    return RawHits(covering(question, cells) | covered, (CATCHING_UP,))


def full_text_hits(
    rows: RecallRows,
    forest: ForestId,
    question: Question,
    search: IndexSearch,
    limit: int,
    until: datetime | None = None,
) -> FlatHits:
    """What Postgres full text finds when the index is away; scores go where the index's would.

    Facts that are known by ``until`` to be wrong are not found.
    """
    cells, facts = rows.full_text(forest, question.words, limit, until)
    search.cells.lexical |= covering(question, cells)
    search.facts.lexical |= covering(question, facts)
    return FlatHits(frozenset(search.cells.lexical), frozenset(search.facts.lexical))


def covering(question: Question, found: Sequence[FoundText]) -> dict[UUID, float]:
    """How much of the question each text holds, in (0, 1]; those that hold none of it are left out."""
    shares = coverage(question.wanted, [question.held(terms(text.text)) for text in found])
    return {text.id: share for text, share in zip(found, shares, strict=True) if share > 0.0}


def best_roots(search: IndexSearch, roots: Collection[UUID], limit: int, weights: Weights) -> list[UUID]:
    """The best of the roots that the flat search found."""
    scores = fused(search.nodes, weights, roots)
    return sorted(scores, key=lambda root: (-scores[root], root))[:limit]


def trees_of_hits(above: Iterable[Above], search: IndexSearch, hits: FlatHits, weights: Weights) -> list[UUID]:
    """Roots of the trees where the hits live, those with the best hits first, by what is ``above`` the hits."""
    scores = fused(search.cells, weights, hits.cells) | fused(search.facts, weights, hits.facts)
    votes: dict[UUID, float] = defaultdict(float)
    for each in above:
        votes[each.root] += scores.get(each.payload, 0.0)
    return sorted(votes, key=lambda root: (-votes[root], root))
