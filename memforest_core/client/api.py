"""The library's object: accept sessions, recall evidence, wait, and close."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from memforest_core.client.lifecycle import Lifecycle
from memforest_core.client.producer import MemForestClient, completed
from memforest_core.client.services.producer_services import Producer
from memforest_core.client.services.service import Services, open_services
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.extras import needed
from memforest_core.domain.ids import TenantId
from memforest_core.domain.turns import checked_messages, checked_name
from memforest_core.errors import IndexUnavailable
from memforest_core.models.model_opening import BUILT_IN_EMBEDDINGS
from memforest_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from memforest_core.assistant.topics.matching import Matching
    from memforest_core.client.embedded.node import EmbeddedNode


@completed(Services, "")
class MemForest(MemForestClient):
    """Long-term memory of many owners, for one tenant. Thread-safe.

    ``MemForest.connect()`` uses running services; ``MemForest.embedded(path)`` brings everything along in a
    directory.
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
        return self._parts.producer

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """Operations on stored memory: delete, correct, merge, export, rebuild, bound, audit."""
        return Lifecycle(self._parts.lifecycle, self._tenant)

    def recall_many(
        self, questions: Sequence[tuple[str, str]], k: int | None = None, mode: str | None = None
    ) -> list[RecallResult]:
        """Recall for many (owner, question), eight at once; results in their order. ``k`` and ``mode`` as in recall."""
        with ThreadPoolExecutor(min(8, max(1, len(questions)))) as pool:
            return list(pool.map(lambda pair: self.recall(pair[0], pair[1], k, mode), questions))

    def _matching(self, turn: TurnInput) -> Matching | None:
        own, said = self._services.settings, checked_messages([turn])
        wanted = own.topics.match_on_append
        if not (own.embedding.model in BUILT_IN_EMBEDDINGS if wanted is None else wanted) or len(said) != 1:
            return None
        role, content = (str(said[0].get(name, "")) for name in ("role", "content"))
        content, _ = self._producer.acceptance.redactor.masked(content)
        return self._services.topic_matcher.begun(self._tenant, role, content)

    def _release(self) -> None:
        if self._node is not None:
            self._node.close()
        else:
            self._services.close()

    @property
    def _parts(self) -> Services:
        """The services, for a call. Raises UsedAfterFork."""
        if self._node is not None:
            self._node.check_process()
        return self._services
