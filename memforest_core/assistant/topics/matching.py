"""Which topic a turn belongs to: the one whose centroid is nearest, among those of the turn's nearest facts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memforest_core.assistant.topics.records import Match, MatchedTopic
from memforest_core.assistant.topics.rows import TopicRows, title_of
from memforest_core.domain.ids import FactId, ForestId, TenantId
from memforest_core.errors import IndexUnavailable, ModelRejected, ModelUnavailable, StoreUnavailable
from memforest_core.index.vector_index import IndexFilter, IndexQuery, PointKind, VectorIndex
from memforest_core.ingest.reduce.routing.scenes import Scene
from memforest_core.models.answers import in_words
from memforest_core.models.calls import Embedder, Vectors
from memforest_core.settings import TopicSettings
from memforest_core.store.engine import Engine

NEIGHBOURS = 24
"""Nearest facts whose topics a turn is compared with, however many topics there are."""
NO_INDEX = "The vector index is unavailable: no topic was looked for."
NO_MODEL = "The embedding model is unavailable: no topic was looked for."
REFUSED = "The embedding model could not be used ({}): no topic was looked for."
NO_STORE = "The store is unavailable: no topic was looked for."


@dataclass(frozen=True, slots=True)
class TopicMatcher:
    """Compares turns with a bounded number of topics. Thread-safe."""

    engine: Engine
    index: VectorIndex
    embedder: Embedder
    settings: TopicSettings

    def match(self, tenant: TenantId, forest: ForestId, text: str) -> Match:
        """The topic of a text; what is unavailable is no error, and said in the answer: the turn is stored already.

        One embedding, one search for the nearest facts, and one short transaction that reads the topics they are in.
        """
        try:
            embedded = self.embedder.embed([text])
        except ModelUnavailable:
            return Match(degraded=NO_MODEL)
        except ModelRejected as error:
            return Match(degraded=REFUSED.format(in_words(error.code)))
        vector: Vectors = embedded.vectors[0]
        where = IndexFilter(tenant, forest, kinds=(PointKind.FACT,))
        try:
            [hits] = self.index.search([IndexQuery(vector, where, NEIGHBOURS)])
        except IndexUnavailable:
            return Match(degraded=NO_INDEX)
        try:
            with TopicRows.opened(self.engine, tenant) as rows:
                scenes = rows.scopes.scenes_of(forest, [FactId(hit.id) for hit in hits], grown=True)
                best = nearest(vector, scenes, self.settings.match)
                rows.record_call(embedded.record, forest)
                if best is None:
                    return Match()
                scene, cosine = best
                return Match(MatchedTopic(scene.id, title_of(rows.roots([scene.id])[scene.id]), cosine))
        except StoreUnavailable:
            return Match(degraded=NO_STORE)


def nearest(vector: Vectors, scenes: list[Scene], least: float) -> tuple[Scene, float] | None:
    """The scene whose centroid has the highest cosine with a unit vector, if that is ``least`` or more."""
    cosines = [(float(scene.total @ vector) / float(np.linalg.norm(scene.total) or 1.0), scene) for scene in scenes]
    best = max(cosines, key=lambda pair: (pair[0], str(pair[1].id)), default=None)
    return None if best is None or best[0] < least else (best[1], best[0])
