"""Gathering: from a question's searches and tree browsing to the pool of candidates."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from uuid import UUID

from memforest_core.domain.attributes import asked_attributes, telling_terms
from memforest_core.domain.evidence import Mode
from memforest_core.domain.ids import FactId, SessionId, TenantId
from memforest_core.domain.lexical import query_weights
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.scoring import Weights
from memforest_core.domain.text import normalize_name
from memforest_core.index.vector_index import DenseVector, IndexFilter, SparseVector, VectorIndex
from memforest_core.recall.asking import Asked, Range
from memforest_core.recall.browsing import Browsed, browse
from memforest_core.recall.candidates import ALWAYS, Bounds
from memforest_core.recall.clock import Clock
from memforest_core.recall.planning import plan_trees
from memforest_core.recall.pool import Pool, Reads, gather
from memforest_core.recall.probe import FlatHits, Limits, Probe
from memforest_core.recall.question import Question
from memforest_core.recall.recalling import best_roots, full_text_hits, raw_hits, trees_of_hits
from memforest_core.recall.records import RecallRows, RecallStore
from memforest_core.recall.thinking import Thought
from memforest_core.settings import RecallSettings
from memforest_core.store.owners import ForestRef

PICKY_FACTOR = 4
"""How many times more the flat search brings when turns are left out that no index can leave out."""
TREE_MODES = frozenset({Mode.EMBEDDING, Mode.LLM, Mode.PLANNER})
"""Modes that unite flat hits with what the trees add."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose memory is asked, and within which bounds."""

    tenant: TenantId
    forest: ForestRef
    bounds: Bounds


@dataclass(slots=True)
class Gathered:
    """The candidates of one recall and their scores."""

    pool: Pool
    probe: Probe
    leaves: Browsed
    degraded: list[str] = field(default_factory=list)


class Gathering:
    """Finds candidates in one store and index; ``pointers`` says that facts only point to their turns."""

    def __init__(
        self, store: RecallStore, index: VectorIndex, settings: RecallSettings, weights: Weights, *, pointers: bool
    ) -> None:
        self._store = store
        self._index = index
        self._settings = settings
        self._weights = weights
        self._pointers = pointers

    def gather(
        self,
        place: Place,
        asked: Asked,
        dense: DenseVector | None,
        thought: Thought,
        clock: Clock,
        sure: frozenset[FactId] = frozenset(),
    ) -> Gathered:
        """Candidates, with their scores in the probe: flat hits united with what the trees add and with ``sure``."""

        def reading() -> AbstractContextManager[RecallRows]:
            return self._store.recalling(place.tenant)

        forest = place.forest
        probe = self._probe(place, asked, dense)
        degraded: list[str] = []
        with clock.stage("search"):
            hits = probe.flat(self._limits(asked, place.bounds))
        with clock.stage("load"), reading() as rows:
            if probe.failure is not None:
                limit = self._settings.flat_limit
                hits = full_text_hits(rows, forest.id, asked.question, probe, limit, place.bounds.said_until)
            raw = raw_hits(rows, forest.id, asked.question)
            roots = self._roots(rows, forest, asked, probe, hits)
            ranked = roots[: self._settings.llm_trees]
            trees = plan_trees(rows, ranked) if asked.mode is Mode.PLANNER else []
        if raw.catching_up:
            degraded.append("The vector index is catching up: full text was asked for what it does not hold yet.")
        questions = dict.fromkeys(ranked, asked.question.text)
        if asked.mode is Mode.PLANNER:
            with clock.stage("plan"):
                questions |= thought.plan(asked.question.text, trees)
        with clock.stage("browse"):
            ranker = thought.ranker() if asked.mode in (Mode.LLM, Mode.PLANNER) else None
            leaves = browse(reading, probe, roots, self._settings.beam, self._weights, ranker, questions)
        with clock.stage("load"), reading() as rows:
            cells = hits.cells | leaves.cells | raw.coverage.keys()
            pool = gather(rows, forest.id, cells, hits.facts | leaves.facts | sure, self._reads(asked, place.bounds))
        with clock.stage("search"):
            probe.score(pool.voters())
        raw.join(probe.cells)
        if probe.failure is not None:
            degraded.append("The vector index is away: answered from full text and what it had found before.")
        return Gathered(pool, probe, leaves, degraded + leaves.degraded)

    def _probe(self, place: Place, asked: Asked, dense: DenseVector | None) -> Probe:
        """The searches of one question, limited to what the index knows of the bounds."""
        bounds = place.bounds
        scope = IndexFilter(place.tenant, place.forest.id, overlaps=_seconds(bounds.between))
        cells = scope
        if bounds.said_until is not None and scope.overlaps is None:
            cells = replace(cells, overlaps=_seconds((None, bounds.said_until)))
        if bounds.sessions is not None:
            cells = replace(cells, session_ids=tuple(SessionId(id_) for id_ in bounds.sessions))
        trees = tuple(sorted(kind.value for kind in asked.trees))
        words = expanded(asked.question, self._settings.wording_weight)
        return Probe(self._index, scope, dense, words, cells, trees)

    def _reads(self, asked: Asked, bounds: Bounds) -> Reads:
        """What this recall has to know of its candidates."""
        trees = asked.trees if asked.mode is not Mode.FLAT else frozenset()
        return Reads(
            sentences=not self._pointers,
            fact_times=bounds.between != ALWAYS or bounds.about != ALWAYS,
            session_paths=TreeKind.SESSION in trees,
            topics=trees - {TreeKind.SESSION} if self._weights.topic > 0 else frozenset(),
            chains=TreeKind.ENTITY in trees and self._weights.chain > 0 and asked.question.about_order,
            said_until=bounds.said_until,
            metadata=asked.metadata,
        )

    def _roots(self, rows: RecallRows, forest: ForestRef, asked: Asked, probe: Probe, hits: FlatHits) -> list[UUID]:
        """The trees to browse: of named people, the best roots, and where the hits live."""
        if asked.mode is Mode.FLAT or not asked.trees:
            return []
        best = best_roots(probe, hits.roots, self._settings.root_limit, self._weights)
        if asked.mode is Mode.ROOT:
            return best
        named = self._named_roots(rows, forest, asked.question) if TreeKind.ENTITY in asked.trees else []
        lived = trees_of_hits(rows, probe, hits, self._weights, asked.trees)
        return list(dict.fromkeys([*named, *best, *lived]))[: self._settings.tree_limit]

    def _limits(self, asked: Asked, bounds: Bounds) -> Limits:
        """Flat hits per signal: at least as many as pieces wanted; root mode asks for roots only.

        What the index can't leave out is left out afterwards: then it brings more.
        """
        settings = self._settings
        if asked.mode is Mode.ROOT:
            return Limits(0, 0, settings.root_limit)
        cells, facts = max(settings.flat_limit, asked.k), max(settings.fact_limit, asked.k)
        if asked.picky:
            cells, facts = PICKY_FACTOR * cells, PICKY_FACTOR * facts
        if bounds.said_until is not None:
            facts *= PICKY_FACTOR
        return Limits(
            cells,
            facts if bounds.sessions is None else 0,
            settings.root_limit if asked.mode in TREE_MODES and asked.trees else 0,
        )

    def _named_roots(self, rows: RecallRows, forest: ForestRef, question: Question) -> list[UUID]:
        """The entity trees of the owner and of whom the question names."""
        owner = normalize_name(forest.owner) or forest.owner
        keys = list(dict.fromkeys([owner, *question.name_keys()]))
        found: list[UUID] = [*rows.entity_roots(forest.id, keys)]
        return found[: self._settings.tree_limit // 2]


def expanded(question: Question, weight: float) -> SparseVector:
    """The question's terms, and with ``weight`` those in which the state it asks for is usually told."""
    asked = question.sparse()
    told = telling_terms(asked_attributes(question.terms)) - question.terms if weight > 0 else frozenset()
    if not told:
        return asked
    weights = dict(zip(asked.indices, asked.values, strict=True))
    for index in query_weights(told)[0]:
        weights.setdefault(index, weight)
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
