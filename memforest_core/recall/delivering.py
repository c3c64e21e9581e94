"""The best candidates as evidence: different pieces, reranked where that is set up, within the caller's budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from zoneinfo import ZoneInfo

from memforest_core.domain.asked_series import lists_all
from memforest_core.domain.delivery import CHARS_PER_TOKEN, fitting
from memforest_core.domain.evidence import Evidence
from memforest_core.domain.scoring import Voted
from memforest_core.domain.series import SIGNAL
from memforest_core.models.calls import CallRecord, Reranker
from memforest_core.recall.asking import Asked
from memforest_core.recall.gathering import Clock
from memforest_core.recall.ordering import reranked
from memforest_core.recall.pooling import Part, Pool
from memforest_core.recall.resolving import SPARE, Resolver
from memforest_core.recall.rows.reading import RecallRows, RecallStore
from memforest_core.settings import RecallSettings


def widened(evidence: Sequence[Evidence], k: int, more: int) -> tuple[Evidence, ...]:
    """The first ``k`` pieces, and at most ``more`` behind them as long as each is of the kind that a list asks for."""
    behind = takewhile(lambda piece: SIGNAL in piece.signals, evidence[k : k + more])
    return (*evidence[:k], *behind)


@dataclass(frozen=True, slots=True)
class Delivering:
    """Makes evidence of what was voted for; ``reranker`` scores the best pieces again."""

    store: RecallStore
    settings: RecallSettings
    reranker: Reranker | None

    def evidence(
        self, pool: Pool, asked: Asked, voted: Sequence[Voted], zone: ZoneInfo, clock: Clock
    ) -> tuple[tuple[Evidence, ...], list[str], list[CallRecord]]:
        """At most ``k`` pieces of all forests and sources, with ``more`` of a list; what was away; and what a call to
        the cross-encoder cost.

        The days of sources are those of the ``zone``. A vector has no words that a cross-encoder could read.
        """
        degraded: list[str] = []
        calls: list[CallRecord] = []
        reranker = self.reranker if asked.vector is None else None
        first = 0 if reranker is None else self.settings.rerank.first
        with clock.stage("resolve"):
            more = asked.more if lists_all(asked.question.text) else 0
            evidence = self._resolved(pool, asked, voted, max(asked.k + more, first), zone)
        if reranker is not None:
            with clock.stage("rerank"):
                evidence, degraded, calls = reranked(reranker, asked.question.text, evidence, first)
        if asked.min_score is not None:
            evidence = tuple(piece for piece in evidence if piece.score >= asked.min_score)
        evidence = widened(evidence, asked.k, more)
        if asked.max_tokens is not None:
            several = len(pool.parts) + len(asked.sources) > 1
            evidence = tuple(fitting(evidence, asked.max_tokens * CHARS_PER_TOKEN, several=several))
        return evidence, degraded, calls

    def _resolved(
        self, pool: Pool, asked: Asked, voted: Sequence[Voted], wanted: int, zone: ZoneInfo
    ) -> tuple[Evidence, ...]:
        """The best ``wanted`` different pieces, the best first."""
        chosen = voted[: SPARE * wanted]
        pieces: list[tuple[Voted, Evidence]] = []
        for part, own in pool.shares(chosen):
            if own:
                pieces += self._of_part(part, own, wanted, asked)
        if pool.alone:
            return tuple(piece for _, piece in pieces)
        outside = pool.by_id
        pieces += [(one, outside[one.item.cell].evidence(one, zone)) for one in chosen if one.item.cell in outside]
        places = {one.item: at for at, one in enumerate(chosen)}
        pieces.sort(key=lambda pair: places[pair[0].item])
        return tuple(piece for _, piece in pieces[:wanted])

    def _of_part(self, part: Part, voted: Sequence[Voted], wanted: int, asked: Asked) -> list[tuple[Voted, Evidence]]:
        """The pieces of one forest, each with its candidate: no more than fit the budget, unless a cross-encoder puts
        them in another order."""
        budget = inf if asked.max_tokens is None or self.reranker else asked.max_tokens * CHARS_PER_TOKEN
        with self.store.recalling(part.place.tenant) as rows:
            return self._resolver(rows, part).resolve(voted, wanted, asked.neighbours, budget)

    def _resolver(self, rows: RecallRows, part: Part) -> Resolver:
        """What makes the pieces of one forest."""
        place = part.place
        return Resolver(
            rows,
            place.forest.id,
            part.gathered.candidates,
            ZoneInfo(place.forest.time_zone),
            same_words=self.settings.same_words,
            per_fact=self.settings.per_fact,
            said_until=place.bounds.said_until,
            excluded=place.bounds.excluded,
            channels=place.bounds.channels,
            owner=place.forest.owner,
        )
