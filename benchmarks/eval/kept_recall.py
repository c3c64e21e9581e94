"""A recall over answers that are kept: of what two variants do alike, candidates and pieces are made once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from benchmarks.eval.keeping import Kept, KeptEmbedder, KeptIndex, KeptStore
from memforest_core.domain.evidence import Evidence
from memforest_core.domain.ids import FactId
from memforest_core.domain.scoring import Item, Voted
from memforest_core.errors import IndexUnavailable
from memforest_core.index.vector_index import DenseVector
from memforest_core.recall.asking import Asked
from memforest_core.recall.delivering import Delivering
from memforest_core.recall.gathering import Clock, Gathered, Gathering, Place
from memforest_core.recall.pooling import Part, Pool
from memforest_core.recall.question import Question
from memforest_core.recall.records import FactText
from memforest_core.recall.resolving import Resolver
from memforest_core.recall.rows.reading import RecallRows
from memforest_core.recall.service import RecallService
from memforest_core.recall.thinking import Thought
from memforest_core.settings import RecallSettings

VOTING = ("cell", "fact", "unread", "interval", "root", "neighbour", "answer", "speaker", "time", "ranked")
"""Weights that count when candidates are voted on, and not before."""
LIFTING = ("tokens", "order", "current", "exact", "priority")
"""Weights that count after that."""


def kept_service(service: RecallService, engine: sa.Engine, kept: Kept, *, alike: bool = True) -> RecallService:
    """The same recall over answers that are kept. It writes no visits: they are no part of what is measured.

    ``alike`` says that another variant gathers the same candidates, so that they are worth keeping.
    """
    given: dict[str, Any] = {each.name: getattr(service, each.name) for each in fields(service)}
    given |= {
        "store": KeptStore(engine, kept),
        "index": KeptIndex(service.index, kept),
        "embedder": KeptEmbedder(service.embedder, kept),
        "visits": None,
    }
    return KeptRecall(**given, kept=kept, alike=alike)


def gathering(settings: RecallSettings) -> str:
    """What candidates depend on of the settings; all but the weights that count afterwards."""
    return settings.model_dump_json(exclude={f"{name}_weight" for name in (*VOTING, *LIFTING)})


@dataclass(frozen=True)
class KeptRecall(RecallService):
    """A recall that gathers the same candidates once, and keeps the pieces of the same ones in the same order."""

    kept: Kept = field(kw_only=True)
    alike: bool = field(kw_only=True)

    @cached_property
    def _gathering(self) -> Gathering:
        given = (self.store, self.index, self.settings, self._weights, self.pointers, self.embedder)
        if not self.alike:
            return Gathering(*given)
        return KeptGathering(*given, answers=self.kept.gathered, depends=gathering(self.settings))

    def _pool(self, *given: Any) -> Pool:
        pool = super()._pool(*given)
        return KeptPool(pool.parts, pool.pieces, pool.bounds, self.kept)

    @cached_property
    def _delivering(self) -> Delivering:
        return KeptDelivering(self.store, self.settings, self.reranker, self.kept)


@dataclass(frozen=True)
class KeptGathering(Gathering):
    """Gathers candidates once for a question, a place, the facts that are sure and the settings they depend on."""

    answers: dict[Hashable, Gathered] = field(kw_only=True)
    depends: str = field(kw_only=True)

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
        """As without keeping; a forest whose index failed is asked anew."""
        vector = None if dense is None else dense.tobytes()
        key = (self.depends, place, asked, vector, sure)
        if failure is not None or key not in self.answers:
            found = super().gather(place, asked, dense, thought, clock, sure, failure)
            if found.search.failure is not None or thought.calls:
                return found
            self.answers[key] = found
        return self.answers[key]


@dataclass(frozen=True)
class KeptPool(Pool):
    """Makes the pieces of the same candidates once; scores are not theirs."""

    kept: Kept = field(default_factory=Kept)

    def items(self, part: Part, question: Question) -> list[Item]:
        """As without keeping."""
        # What is kept holds the candidates too, so that no others can get their identity.
        candidates = part.gathered.candidates
        known = self.kept.items.get(id(candidates))
        if known is None:
            known = self.kept.items[id(candidates)] = (candidates, super().items(part, question))
        return known[1]


@dataclass(frozen=True)
class KeptDelivering(Delivering):
    """Makes pieces of candidates once for each order of them. Scores are those of the variant that came first."""

    kept: Kept

    def _of_part(self, part: Part, voted: Sequence[Voted], wanted: int, asked: Asked) -> list[tuple[Voted, Evidence]]:
        limits = (self.settings.same_words, self.settings.per_fact, wanted, asked.neighbours, asked.max_tokens)
        key = (part.place.tenant, part.place.forest.id, part.place.bounds, limits, tuple(one.item for one in voted))
        if key not in self.kept.evidence:
            self.kept.evidence[key] = super()._of_part(part, voted, wanted, asked)
        return self.kept.evidence[key]

    def _resolver(self, rows: RecallRows, part: Part) -> Resolver:
        own = super()._resolver(rows, part)
        given: dict[str, Any] = {each.name: getattr(own, each.name) for each in fields(own)}
        return KeptResolver(**given, kept=self.kept)


@dataclass(frozen=True)
class KeptResolver(Resolver):
    """Makes each piece once. Pieces have no ways down and no metadata: nothing measured depends on them."""

    kept: Kept = field(kw_only=True)

    def _evidence(self, one: Voted, content: str, facts: Mapping[UUID, FactText]) -> Evidence | None:
        key = (self.forest, self.said_until, self.candidates.sentences, one.item)
        if key not in self.kept.pieces:
            self.kept.pieces[key] = super()._evidence(one, content, facts)
        return self.kept.pieces[key]

    def _with_paths(self, kept: Sequence[tuple[Voted, Evidence]], neighbours: int) -> list[tuple[Voted, Evidence]]:
        return list(kept)

    def _words(self, text: str) -> frozenset[str]:
        if text not in self.kept.words:
            self.kept.words[text] = super()._words(text)
        return self.kept.words[text]
