"""Recall: a question in, evidence out; every part that is away is done without and named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.contexts.query.browsing import browse
from memforest_core.contexts.query.candidates import Range, items
from memforest_core.contexts.query.pool import Pool, Reads, gather
from memforest_core.contexts.query.probe import FlatHits, Limits, Probe
from memforest_core.contexts.query.question import Question, parse_question
from memforest_core.contexts.query.recalling import (
    best_roots,
    full_text_hits,
    raw_hits,
    trees_of_hits,
)
from memforest_core.contexts.query.resolving import Resolver
from memforest_core.domain.evidence import Mode, RecallResult
from memforest_core.domain.ids import TenantId
from memforest_core.domain.scoring import Weights, vote
from memforest_core.domain.text import normalize_name
from memforest_core.domain.turns import checked_name, parse_timestamp
from memforest_core.errors import InvalidInput, ModelRejected, ModelUnavailable, NotFound
from memforest_core.ports.accept import ForestRef
from memforest_core.ports.index import DenseVector, IndexFilter, VectorIndex
from memforest_core.ports.models import Embedder
from memforest_core.ports.recall import RecallRows, RecallStore
from memforest_core.settings import RecallSettings

MAX_K = 1_000
MAX_NEIGHBOURS = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked request."""

    question: Question
    k: int
    mode: Mode
    neighbours: int


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


class RecallService:
    """Answers questions from one store, index and embedder. Thread-safe: a recall keeps its state to itself.

    ``pointers`` says that facts were extracted without a model, so that the turn is what is worth delivering.
    """

    def __init__(
        self,
        store: RecallStore,
        index: VectorIndex,
        embedder: Embedder,
        settings: RecallSettings,
        *,
        pointers: bool = True,
    ) -> None:
        self._store = store
        self._index = index
        self._embedder = embedder
        self._settings = settings
        self._pointers = pointers
        self._weights = Weights(
            lexical=settings.lexical_weight,
            dense=settings.dense_weight,
            cell=settings.cell_weight,
            fact=settings.fact_weight,
            interval=settings.interval_weight,
            root=settings.root_weight,
            topic=settings.topic_weight,
            chain=settings.chain_weight,
            neighbour=settings.neighbour_weight,
            speaker=settings.speaker_weight,
        )

    def recall(
        self,
        tenant: TenantId,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        *,
        neighbours: int = 0,
        since: object | None = None,
        until: object | None = None,
    ) -> RecallResult:
        """The ``k`` best pieces of evidence for a question.

        ``since`` and ``until`` (ISO 8601, unix seconds or datetimes; the forest's zone when naive) keep what was said,
        or happened, in that time. ``neighbours`` adds that many pieces before and after each.

        Raises InvalidInput, NotFound for an owner without a forest, StoreUnavailable. An index or embedder that is
        away is no error: ``degraded`` says what was done without.
        """
        asked = self._check(question, k, mode, neighbours)
        owner = checked_name(owner, "owner")
        clock = Clock()
        with self._store.recalling(tenant) as rows:
            forest = rows.forest(owner)
        if forest is None:
            raise NotFound(f"Owner {owner!r:.80} has no memory yet: enqueue a session first.")
        between = _between(forest, since, until)
        degraded: list[str] = []
        with clock.stage("embed"):
            dense = self._embed(asked.question, degraded)
        scope = IndexFilter(tenant, forest.id, overlaps=_seconds(between))
        probe = Probe(self._index, scope, dense, asked.question.sparse())
        pool = self._gathered(tenant, forest, asked, probe, self._reads(asked, between), clock, degraded)
        if probe.failure is not None:
            degraded.append("The vector index is away: answered from full text and what it had found before.")
        with clock.stage("score"):
            found = items(pool, asked.question, owner, between)
            voted = vote(found, probe.cells, probe.facts, probe.nodes, self._weights)
        with clock.stage("resolve"), self._store.recalling(tenant) as rows:
            resolver = Resolver(rows, forest.id, pool, ZoneInfo(forest.time_zone))
            evidence = resolver.resolve(voted, asked.k, asked.neighbours)
        return RecallResult(
            question=asked.question.text,
            mode=asked.mode,
            evidence=evidence,
            timings_ms=clock.total(),
            degraded=tuple(degraded),
            round_trips=probe.round_trips,
        )

    def _gathered(
        self,
        tenant: TenantId,
        forest: ForestRef,
        asked: Asked,
        probe: Probe,
        reads: Reads,
        clock: Clock,
        degraded: list[str],
    ) -> Pool:
        """Candidates, with their scores in the probe: flat hits united with what the trees add."""

        def reading() -> AbstractContextManager[RecallRows]:
            return self._store.recalling(tenant)

        with clock.stage("search"):
            hits = probe.flat(self._limits(asked))
        with clock.stage("load"), reading() as rows:
            if probe.failure is not None:
                limit = self._settings.flat_limit
                hits = full_text_hits(rows, forest.id, asked.question, probe, limit)
            raw = raw_hits(rows, forest.id, asked.question)
            roots = self._roots(rows, forest, asked, probe, hits)
        if raw.catching_up:
            degraded.append("The vector index is catching up: full text was asked for what it does not hold yet.")
        with clock.stage("browse"):
            leaves = browse(reading, probe, roots, self._settings.beam, self._weights)
        with clock.stage("load"), reading() as rows:
            cells = hits.cells | leaves.cells | raw.coverage.keys()
            pool = gather(rows, forest.id, cells, hits.facts | leaves.facts, reads)
        with clock.stage("search"):
            probe.score(pool.voters())
        raw.join(probe.cells)
        return pool

    def _reads(self, asked: Asked, between: Range) -> Reads:
        """What this recall has to know of its candidates."""
        trees = asked.mode is not Mode.FLAT
        return Reads(
            sentences=not self._pointers,
            fact_times=between != (None, None),
            session_paths=trees,
            topics=trees and self._weights.topic > 0,
            chains=trees and self._weights.chain > 0 and asked.question.about_order,
        )

    def _roots(self, rows: RecallRows, forest: ForestRef, asked: Asked, probe: Probe, hits: FlatHits) -> list[UUID]:
        """The trees to browse: of named people, the best roots, and where the hits live."""
        if asked.mode is Mode.FLAT:
            return []
        best = best_roots(probe, hits.roots, self._settings.root_limit, self._weights)
        if asked.mode is Mode.ROOT:
            return best
        named = self._named_roots(rows, forest, asked.question)
        lived = trees_of_hits(rows, probe, hits, self._weights)
        return list(dict.fromkeys([*named, *best, *lived]))[: self._settings.tree_limit]

    def _limits(self, asked: Asked) -> Limits:
        """Flat hits per signal: at least as many as pieces wanted; root mode asks for roots only."""
        settings = self._settings
        if asked.mode is Mode.ROOT:
            return Limits(0, 0, settings.root_limit)
        return Limits(
            max(settings.flat_limit, asked.k),
            max(settings.fact_limit, asked.k),
            settings.root_limit if asked.mode is Mode.EMBEDDING else 0,
        )

    def _named_roots(self, rows: RecallRows, forest: ForestRef, question: Question) -> list[UUID]:
        """The entity trees of the owner and of whom the question names."""
        owner = normalize_name(forest.owner) or forest.owner
        keys = list(dict.fromkeys([owner, *question.name_keys()]))
        found: list[UUID] = [*rows.entity_roots(forest.id, keys)]
        return found[: self._settings.tree_limit // 2]

    def _embed(self, question: Question, degraded: list[str]) -> DenseVector | None:
        try:
            vector: DenseVector = self._embedder.embed_query([question.text]).vectors[0]
        except (ModelUnavailable, ModelRejected):
            degraded.append("The embedding model is away: answered by words alone.")
            return None
        return vector

    def _check(self, question: object, k: object, mode: object, neighbours: object) -> Asked:
        settings = self._settings
        k = settings.k if k is None else k
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_K:
            raise InvalidInput(f"Set k to a whole number from 1 to {MAX_K}.", code="invalid_k")
        try:
            chosen = Mode(str(settings.mode if mode is None else mode))
        except ValueError:
            known = ", ".join(mode.value for mode in Mode)
            raise InvalidInput(f"Set mode to one of {known}.", code="invalid_mode") from None
        if not isinstance(neighbours, int) or isinstance(neighbours, bool) or not 0 <= neighbours <= MAX_NEIGHBOURS:
            raise InvalidInput(
                f"Set neighbours to a whole number from 0 to {MAX_NEIGHBOURS}.",
                code="invalid_neighbours",
            )
        return Asked(parse_question(question), k, chosen, neighbours)


def _between(forest: ForestRef, since: object | None, until: object | None) -> Range:
    zone = ZoneInfo(forest.time_zone)
    first = None if since is None else parse_timestamp(since, zone, "since")
    last = None if until is None else parse_timestamp(until, zone, "until")
    if first is not None and last is not None and last < first:
        raise InvalidInput("Set until to a time that is not before since.", code="invalid_range")
    return first, last


def _seconds(between: Range) -> tuple[float, float] | None:
    first, last = between
    if first is None and last is None:
        return None
    low: datetime | None = first
    return (
        low.timestamp() if low is not None else float("-inf"),
        last.timestamp() if last is not None else float("inf"),
    )
