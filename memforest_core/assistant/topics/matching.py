"""Matches appended turns: which topic each belongs to, compared outside of and stored in the turn's own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from memforest_core.assistant.topics.cooling import access
from memforest_core.assistant.topics.matching_rows import MatchingRows
from memforest_core.assistant.topics.records import Match, MatchedTopic
from memforest_core.assistant.topics.rows import TopicRows, shortened
from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, TenantId, TreeId
from memforest_core.domain.topic_choice import Choice, choose, compares
from memforest_core.domain.turns import Turn, checked_name
from memforest_core.errors import IndexUnavailable, ModelRejected, ModelUnavailable
from memforest_core.index.vector_index import Hit, IndexFilter, IndexQuery, PointKind, VectorIndex
from memforest_core.models.answers import in_words
from memforest_core.models.calls import Embedded, Embedder, Vectors
from memforest_core.recall.rows.recall_rows import RecallRows
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.rows import TenantRows

NEIGHBOURS = 24
"""Nearest cells and facts with whose turns a turn is compared, however many there are."""
NO_INDEX = "The vector index is unavailable: only the newest turns were compared."
NO_MODEL = "The embedding model is unavailable: workers will find the topic."
REFUSED = "The embedding model could not be used ({}): workers will find the topic."
BUSY = "The topic is cold and its memory busy: it will be warm within minutes."


@dataclass(frozen=True, slots=True)
class TopicMatcher:
    """Compares turns with a bounded number of earlier ones. Thread-safe."""

    engine: Engine
    index: VectorIndex
    embedder: Embedder
    settings: Settings

    def begun(self, tenant: TenantId, owner: str, role: str, text: str) -> Matching:
        """The matching of a turn that is about to be stored: one embedding, and one search for the nearest cells and
        facts. What is unavailable is no error, and said in the answer."""
        owner, made = checked_name(owner, "owner"), Matching(self, tenant)
        try:
            made.embedded = self.embedder.embed([text])
        except ModelUnavailable:
            made.degraded = NO_MODEL
        except ModelRejected as error:
            made.degraded = REFUSED.format(in_words(error.code))
        if made.embedded is not None and compares(role, text):
            made.hits = self._nearest(tenant, owner, made)
        return made

    def _nearest(self, tenant: TenantId, owner: str, made: Matching) -> Sequence[Hit]:
        rows = RecallRows(self.engine, tenant)
        forest = rows.one(rows.forest(owner))
        if forest is None or made.embedded is None:
            return ()
        where = IndexFilter(tenant, forest.id, kinds=(PointKind.CELL, PointKind.FACT))
        try:
            [hits] = self.index.search([IndexQuery(made.embedded.vectors[0], where, NEIGHBOURS)])
        except IndexUnavailable:
            made.degraded = NO_INDEX
            return ()
        return list(hits)


@dataclass(slots=True)
class Matching:
    """The matching of one turn, on its way."""

    matcher: TopicMatcher
    tenant: TenantId
    embedded: Embedded | None = None
    hits: Sequence[Hit] = ()
    degraded: str = ""
    _topic: MatchedTopic | None = field(default=None, init=False)
    _cold: ForestId | None = field(default=None, init=False)
    """The forest of a topic that is cold."""

    def place(self, accepting: TenantRows, forest: ForestId, session: SessionId, turn: Turn) -> None:
        """Give the turn its topic, or begin one with it, in the transaction that stores it."""
        rows, own = accepting.as_rows(MatchingRows), self.matcher.settings
        compared = compares(turn.role, turn.content)
        if compared and self.embedded is None:
            return
        cosines = self._cosines(rows, forest, self.embedded.vectors[0]) if compared and self.embedded else []
        before = rows.before(forest, session)
        choice = choose(turn.role, turn.content, turn.occurred_at, before, cosines, own.topics.match)
        held = rows.hold(choice.topic) if choice.topic is not None else None
        if held is None or choice.topic is None:
            if self.embedded is None:
                return
            choice, held = Choice(None), (shortened(turn.content), False)
            topic = rows.begin(forest, own.tree.scene_k, self.matcher.embedder.dimension, turn.occurred_at)
        else:
            topic = TreeId(choice.topic)
        rows.give(forest, session, turn, topic, self.embedded, self.matcher.embedder.model)
        title, cold = held
        self._topic = MatchedTopic(topic, title, choice.similarity, begun=choice.topic is None)
        self._cold = forest if cold else None
        if choice.similarity is not None and not cold:
            accepting.as_rows(TopicRows).visit(forest, topic)

    def _cosines(self, rows: MatchingRows, forest: ForestId, vector: Vectors) -> list[tuple[UUID, float]]:
        """The cosines with turns by their topics. A turn without a vector has that of its cell, if that is near."""
        near = {hit.id: hit.score for hit in self.hits}
        cells = [CellId(hit.id) for hit in self.hits if hit.kind is PointKind.CELL]
        facts = [FactId(hit.id) for hit in self.hits if hit.kind is PointKind.FACT]
        cosines: list[tuple[UUID, float]] = []
        for topic, other, cell in rows.compared(forest, cells, facts, self.matcher.embedder.model):
            if other is not None and other.shape == vector.shape:
                cosines.append((topic, float(other @ vector)))
            elif cell is not None:
                cosines.append((topic, near[cell]))
        return cosines

    def ended(self) -> Match:
        """What the turn's transaction has stored. A cold topic is warm now."""
        topic, forest = self._topic, self._cold
        if topic and forest and not access(self.matcher.engine, self.tenant, forest, topic.id, cold=True):
            self.degraded = BUSY
        return Match(topic, self.degraded)
