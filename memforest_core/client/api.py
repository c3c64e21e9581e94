"""The library's object: accept sessions, recall evidence, wait, and close."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from memforest_core.assistant.calendar.service import CalendarService, Summarizing
from memforest_core.assistant.context.service import ContextService, ContextualAnswers
from memforest_core.assistant.conversation_window.service import WindowService
from memforest_core.assistant.profile.describing import Describer
from memforest_core.assistant.profile.forgetting import Forgetter
from memforest_core.assistant.profile.intents import Intents
from memforest_core.assistant.topics.records import Match
from memforest_core.assistant.topics.service import TopicService
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.client.producer import MemForestClient, served
from memforest_core.client.services.producer_services import Producer
from memforest_core.client.services.service import Services, open_services
from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.extras import needed
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.turns import checked_name
from memforest_core.errors import IndexUnavailable
from memforest_core.observe.inspection import InspectionService
from memforest_core.observe.reading.service import ReadingService
from memforest_core.recall.service import RecallService
from memforest_core.recall.timeline import TimelineService
from memforest_core.settings import Settings, load_settings
from memforest_core.work.waiting import waiting

if TYPE_CHECKING:
    from memforest_core.client.embedded.node import EmbeddedNode


class MemForest(MemForestClient):
    """Long-term memory of many owners, for one tenant. Thread-safe.

    ``MemForest.connect()`` uses running services; ``MemForest.embedded(path)`` brings everything along in a directory.
    """

    def __init__(self, services: Services, node: EmbeddedNode | None = None, *, tenant: TenantId | None = None) -> None:
        super().__init__(services.settings, producer=services.producer, tenant=tenant)
        self._services = services
        self._node = node

    @classmethod
    def connect(cls, settings: Settings | None = None) -> Self:
        """Connect to Postgres, the broker and the vector index that the ``settings`` name (the environment's unless
        given)."""
        services = open_services(settings or load_settings())
        # Workers prepare an index that is unavailable; recall answers from full text until then, and says so.
        with suppress(IndexUnavailable):
            services.index.prepare()
        return cls(services)

    @classmethod
    def embedded(cls, path: str | Path, settings: Settings | None = None, *, concurrency: int = 8) -> Self:
        """Everything in this process and one directory: Postgres, broker, vector engine, worker.

        ``path`` is the directory, made when missing; ``concurrency`` is how many tasks its worker runs at once. Needs
        ``pip install memforest[embedded]``. Raises DataDirectoryInUse when another process owns the directory.
        """
        with needed("memforest[embedded]"):
            from memforest_core.client.embedded.node import EmbeddedNode

        node = EmbeddedNode.start(Path(path), settings or load_settings(), concurrency)
        return cls(node.services, node)

    def for_tenant(self, tenant: str) -> MemForest:
        """The memory of another tenant over the same connections, which close with this object. Raises InvalidInput."""
        return MemForest(self._services, self._node, tenant=TenantId(checked_name(tenant, "tenant")))

    @property
    def services(self) -> Services:
        """The services behind, for tools that look inside."""
        return self._services

    @property
    def embedded_node(self) -> EmbeddedNode | None:
        """The node that this object owns, None with services that run elsewhere."""
        return self._node

    @property
    def client(self) -> MemForestClient:
        """This object, as what accepts sessions."""
        return self

    @property
    def _producer(self) -> Producer:
        return self._open.producer

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """Operations on stored memory: delete, correct, merge, export, rebuild, bound, audit."""
        return Lifecycle(self._open.lifecycle, self._tenant)

    recall = served(lambda own: own._open.recall, RecallService.recall)
    answer = served(lambda own: own._open.contextual_answers, ContextualAnswers.answer)
    timeline = served(lambda own: own._open.timeline, TimelineService.timeline)
    sessions = served(lambda own: own._open.reading, ReadingService.sessions)
    turns = served(lambda own: own._open.reading, ReadingService.turns)
    facts = served(lambda own: own._open.reading, ReadingService.facts)
    trees = served(lambda own: own._open.reading, ReadingService.trees)
    node = served(lambda own: own._open.reading, ReadingService.node)
    calls = served(lambda own: own._open.inspection, InspectionService.calls)
    window = served(lambda own: own._open.window, WindowService.window)
    window_put = served(lambda own: own._open.window, WindowService.window_put)
    profile = served(lambda own: own._open.describer, Describer.profile)
    intent = served(lambda own: own._open.intents, Intents.intent)
    context = served(lambda own: own._open.context, ContextService.context)

    forget = waiting(served(lambda own: own._open.forgetter, Forgetter.forget))
    today = served(lambda own: own._open.calendar, CalendarService.today)
    day = served(lambda own: own._open.calendar, CalendarService.day)
    week = served(lambda own: own._open.calendar, CalendarService.week)
    days = served(lambda own: own._open.calendar, CalendarService.days)
    period = served(lambda own: own._open.calendar, CalendarService.period)
    summarize = served(lambda own: own._open.summarizing, Summarizing.summarize)
    topics = served(lambda own: own._open.topics, TopicService.topics)
    topic_context = served(lambda own: own._open.topics, TopicService.topic_context)
    topic_history = served(lambda own: own._open.topics, TopicService.topic_history)
    topic_stats = served(lambda own: own._open.topics, TopicService.topic_stats)
    topic_tag = served(lambda own: own._open.topics, TopicService.topic_tag)
    topic_merge = served(lambda own: own._open.topics, TopicService.topic_merge)

    def recall_many(
        self, questions: Sequence[tuple[str, str]], k: int | None = None, mode: str | None = None
    ) -> list[RecallResult]:
        """Recall for many (owner, question), eight at once; results in their order. ``k`` and ``mode`` as in recall."""
        with ThreadPoolExecutor(min(8, max(1, len(questions)))) as pool:
            return list(pool.map(lambda pair: self.recall(pair[0], pair[1], k, mode), questions))

    def _match(self, forest: ForestId, content: str) -> Match:
        return self._services.topic_matcher.match(self._tenant, forest, content)

    def close(self) -> None:
        """Stop the embedded node, if there is one, and release connections."""
        if self._node is not None:
            self._node.close()
        else:
            self._services.close()

    @property
    def _open(self) -> Services:
        """The services, for a call. Raises UsedAfterFork."""
        if self._node is not None:
            self._node.check_process()
        return self._services
