"""Matches appended turns: which topic each belongs to, embedded before and decided in the turn's own transaction."""

from __future__ import annotations

from dataclasses import dataclass, field

from memforest_core.assistant.topics.choice import PAUSE, Choice, choose, follows
from memforest_core.assistant.topics.cooling import warm
from memforest_core.assistant.topics.matching_rows import MatchingRows
from memforest_core.assistant.topics.records import Match, MatchedTopic
from memforest_core.assistant.topics.rows import TopicRows, shortened
from memforest_core.domain.ids import ForestId, SessionId, TenantId, TreeId
from memforest_core.domain.turns import Turn
from memforest_core.errors import ModelRejected, ModelUnavailable
from memforest_core.models.answers import in_words
from memforest_core.models.calls import Embedded, Embedder
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.rows import TenantRows

NO_MODEL = "The embedding model is unavailable: workers will find the topic."
REFUSED = "The embedding model could not be used ({}): workers will find the topic."
BUSY = "The topic is cold and its memory busy: it will be warm within minutes."


@dataclass(frozen=True, slots=True)
class TopicMatcher:
    """Compares turns with a bounded number of earlier ones. Thread-safe."""

    engine: Engine
    embedder: Embedder
    settings: Settings

    def begun(self, tenant: TenantId, role: str, text: str) -> Matching:
        """The matching of a turn that is about to be stored: one embedding, none for a short reply or an assistant's
        turn. A model that is unavailable is no error, and said in the answer."""
        made = Matching(self, tenant)
        try:
            made.dimension = self.embedder.dimension
            if not follows(role, text):
                made.embedded = self.embedder.embed([text])
        except ModelUnavailable:
            made.degraded = NO_MODEL
        except ModelRejected as error:
            made.degraded = REFUSED.format(in_words(error.code))
        return made


@dataclass(slots=True)
class Matching:
    """The matching of one turn, on its way."""

    matcher: TopicMatcher
    tenant: TenantId
    dimension: int = 0
    embedded: Embedded | None = None
    degraded: str = ""
    _topic: MatchedTopic | None = field(default=None, init=False)
    _cold: ForestId | None = field(default=None, init=False)
    """The forest of a topic that is cold."""

    def place(self, accepting: TenantRows, forest: ForestId, session: SessionId, turn: Turn) -> None:
        """Give the turn its topic, or begin one with it, in the transaction that stores it."""
        rows, own, model = accepting.as_rows(MatchingRows), self.matcher.settings, self.matcher.embedder.model
        running = rows.running(forest, session, turn.occurred_at - PAUSE)
        if running is not None and follows(turn.role, turn.content):
            choice = Choice(running)
        elif self.degraded:
            return
        else:
            vector = None if self.embedded is None else self.embedded.vectors[0]
            choice = choose(turn.content, vector, rows.compared(forest, model), running, own.topics.match)
        given = (turn, self.embedded, model)
        topic = None if choice.topic is None else TreeId(choice.topic)
        held = None if topic is None else rows.give(forest, session, topic, *given)
        if topic is None or held is None:
            if self.degraded:
                return
            topic = rows.begin(forest, own.tree.scene_k, self.dimension, turn.occurred_at)
            rows.give(forest, session, topic, *given)
            self._topic = MatchedTopic(topic, shortened(turn.content), None, begun=True)
            return
        title, cold = held
        self._topic = MatchedTopic(topic, title, choice.similarity, begun=False)
        self._cold = forest if cold else None
        if choice.similarity is not None or cold:
            accepting.as_rows(TopicRows).visit(forest, topic)

    def ended(self) -> Match:
        """What the turn's transaction has stored. A cold topic is warm now."""
        topic, forest = self._topic, self._cold
        if topic and forest and not warm(self.matcher.engine, self.tenant, forest, topic.id):
            self.degraded = BUSY
        return Match(topic, self.degraded)
