"""Which stored facts are near a batch's candidates: looked up, and judged, before the forest is locked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.vector_index import IndexFilter, IndexQuery, PointKind, VectorIndex
from memforest_core.models.calls import CallRecord
from memforest_core.reduce.identity import identify, mergeable
from memforest_core.reduce.judging import MOST_PAIRS, Judge
from memforest_core.reduce.records import ReduceBatch
from memforest_core.reduce.rows import ReduceRows
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.work.telemetry import Telemetry

NEAR_LIMIT = 8
"""Nearest facts of a candidate that are compared with it."""


Close = tuple[float, Statement, FactId]
"""A candidate's statement and a fact that is no near duplicate and not far from one, with their cosine."""


@dataclass(frozen=True, slots=True)
class Near:
    """Stored facts near a batch's candidates: those that may be the ``same``, and those whose scenes it may join."""

    same: tuple[FactId, ...] = ()
    neighbours: tuple[FactId, ...] = ()
    judged: Mapping[FactId, FactId] = field(default_factory=dict)
    """For candidates' exact ids the fact that a model says is the same."""
    unjudged: int = 0


@dataclass(frozen=True, slots=True)
class Nearness:
    """Looks up what is near."""

    engine: Engine
    index: VectorIndex
    model: str
    """The embedding model."""
    telemetry: Telemetry
    judge: Judge | None = None

    def near(self, tenant: TenantId, batch: ReduceBatch, settings: Settings) -> Near | None:
        """Facts close to the batch's candidates, looked up before the lock; None when the index is away."""
        where = IndexFilter(tenant, batch.forest_id, kinds=(PointKind.FACT,))
        rules = settings.reduce
        most = max(NEAR_LIMIT, rules.scene_neighbours)
        asked = [item for cell in batch.cells for item in cell.candidates if item.vector is not None]
        queries = [IndexQuery(item.vector, where, most) for item in asked if item.vector is not None]
        if not queries:
            return Near()
        try:
            found = self.index.search(queries)
        except IndexUnavailable:
            return None
        likely = [hit.id for hits in found for hit in islice(hits, NEAR_LIMIT) if hit.score >= rules.near_duplicate]
        beside_it = [row for hits in found for row in hits.ids[: rules.scene_neighbours]]
        same, beside = (tuple(dict.fromkeys(map(FactId, ids))) for ids in (likely, beside_it))
        near = Near(same, beside)
        if not rules.judge_duplicates or self.judge is None:
            return near
        close = [
            (hit.score, item.candidate.statement, FactId(hit.id))
            for item, hits in zip(asked, found, strict=True)
            for hit in islice(hits, NEAR_LIMIT)
            if hit.score >= rules.near_ask
        ]
        return self._judged(tenant, batch.forest_id, near, sorted(close, key=_closest), self.judge) if close else near

    def _judged(self, tenant: TenantId, forest: ForestId, near: Near, close: Sequence[Close], judge: Judge) -> Near:
        """With what a model says of the closest pairs that may be the same, before anything is locked."""
        calls: list[CallRecord] = []
        exact = {id(said): identify(forest, said)[0] for _, said, _ in close}
        with ReduceRows.opened(self.engine, tenant) as rows:
            stored = rows.canon.stored_facts(list(exact.values()))
            facts = rows.canon.known_facts(list(dict.fromkeys(fact for *_, fact in close)), self.model)
        known = {fact.id: fact.statement for fact in facts}
        pairs: dict[Hashable, tuple[str, str]] = {}
        for _, said, fact in close:
            key = (exact[id(said)], fact)
            if fact not in known or key[0] in stored or mergeable(known[fact], said):
                continue
            if mergeable(known[fact], said, judged=True) and len(pairs) < MOST_PAIRS:
                pairs.setdefault(key, (said.text, known[fact].text))
        if not pairs:
            return near
        answers = judge.facts(forest, pairs, calls)
        self.telemetry.called(tenant, calls)
        with ReduceRows.opened(self.engine, tenant) as rows:
            rows.record(calls, forest)
        # The pairs are in the order of their cosines: of several facts the closest one is kept.
        judged: dict[FactId, FactId] = {}
        for _, said, fact in close:
            if answers.get((exact[id(said)], fact)):
                judged.setdefault(exact[id(said)], fact)
        same = tuple(dict.fromkeys((*near.same, *judged.values())))
        return replace(near, same=same, judged=judged, unjudged=len(pairs) - len(answers))


def _closest(pair: Close) -> float:
    return -pair[0]
