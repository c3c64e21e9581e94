"""The library's object: accept sessions, recall evidence, wait, and close."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack
from uuid import UUID

from memforest_core.bootstrap.producer import Producer
from memforest_core.bootstrap.service import Services, open_services
from memforest_core.client import MemForestClient
from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.pages import Page
from memforest_core.domain.turns import Turn
from memforest_core.errors import IndexUnavailable
from memforest_core.lifecycle import Lifecycle
from memforest_core.reading.records import StoredFact, StoredNode, StoredSession, StoredTree
from memforest_core.recall.answering.answer import Answer
from memforest_core.recall.answering.service import MAX_TOKENS
from memforest_core.recall.asking import RecallOptions
from memforest_core.recall.timeline.states import Timeline
from memforest_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from memforest_core.embedded.node import EmbeddedNode


class MemForest(MemForestClient):
    """Long-term memory of many owners, for one tenant. Thread-safe.

    ``MemForest.connect()`` uses running services; ``MemForest.embedded(path)`` brings everything along in a directory.
    """

    def __init__(self, services: Services, node: EmbeddedNode | None = None) -> None:
        super().__init__(services.settings, producer=services.producer)
        self._services = services
        self._node = node

    @classmethod
    def connect(cls, settings: Settings | None = None) -> Self:
        """Connect to Postgres, the broker and the vector index that the ``settings`` name (the environment's unless
        given)."""
        services = open_services(settings or load_settings())
        # An index that is away is prepared by the workers; recall answers from full text until then, and says so.
        with suppress(IndexUnavailable):
            services.index.prepare()
        return cls(services)

    @classmethod
    def embedded(cls, path: str | Path, settings: Settings | None = None, *, concurrency: int = 8) -> Self:
        """Everything in this process and one directory: Postgres, broker, vector engine, worker.

        ``path`` is the directory, made when missing; ``concurrency`` is how many tasks its worker runs at once. Needs
        ``pip install memforest[embedded]``. Raises DataDirectoryInUse when another process owns the directory.
        """
        from memforest_core.embedded.node import EmbeddedNode

        node = EmbeddedNode.start(Path(path), settings or load_settings(), concurrency)
        return cls(node.services, node)

    @property
    def services(self) -> Services:
        """The services behind, for tools that look inside."""
        return self._services

    @property
    def client(self) -> MemForestClient:
        """This object, as what accepts sessions."""
        return self

    @property
    def _producer(self) -> Producer:
        self._check()
        return self._opened

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """Operations on stored memory: delete, correct, merge, export, rebuild, bound, audit."""
        self._check()
        return Lifecycle(self._services.lifecycle, self._tenant)

    def recall(
        self,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> RecallResult:
        """The ``k`` best pieces of evidence (1 to 1,000; the setting recall.k unless given) for a question, best first.

        ``question`` has at most 8,192 characters. ``mode`` is "auto", "flat", "root", "embedding", "llm" or "planner".
        Options: ``since``, ``until``, ``between`` and ``as_of`` bound the time, ``asked_at`` says when it is asked
        (ISO 8601, unix seconds or datetimes), ``max_tokens`` and ``budget_ms`` (milliseconds) what may be spent,
        ``neighbours`` adds that many pieces before and after each, ``session_id`` names the running session,
        ``sessions``, ``exclude_sessions``, ``speakers``, ``roles``, ``metadata`` and ``trees`` say where to look, and
        ``min_score`` leaves out what scores less (RecallOptions tells more). An owner without a memory yet gets an
        empty result whose ``owner_known`` is False. Raises InvalidInput, StoreUnavailable.
        """
        self._check()
        return self._services.recall.recall(self._tenant, owner, question, k, mode, **options)

    def answer(
        self,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> Answer:
        """What a chat model answers from the evidence, citing it, or that it is not in memory; arguments as in recall.

        One call to the model of ``llm.answer``; without any evidence none. Raises as recall does, InvalidSettings
        without a chat model, and ModelAuthFailed or ModelRejected when no call can succeed. A model that is away is no
        error: the evidence comes back, and ``degraded`` says so.
        """
        self._check()
        answering = self._services.answering
        found = self.recall(owner, question, k, mode, **options)
        asked_at = options.get("asked_at")
        budget = options.get("max_tokens") or MAX_TOKENS
        return answering.answer(
            self._tenant,
            owner,
            question,
            found,
            options.get("as_of") if asked_at is None else asked_at,
            budget,
        )

    def timeline(
        self,
        owner: str,
        *,
        entity: str | None = None,
        attribute: str | None = None,
        scene: str | None = None,
        as_of: object | None = None,
        since: object | None = None,
        until: object | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Timeline:
        """The states of an entity, an attribute or a scene in the order of time, each with the turns that say so.

        ``entity`` is a name; without it the states are the owner's own, "*" is everybody. ``attribute`` is what is
        stated ("residence"), ``scene`` a scene's label or id; of several of these, the states that all of them name.
        ``as_of`` leaves out what was said later; ``since`` and ``until`` keep the states that happened or were
        mentioned in that time, both ends included (ISO 8601, unix seconds or datetimes, naive ones in the owner's
        zone). ``limit`` is the most states at once, 1 to 1,000; ``cursor`` is that of the page before. An owner without
        a memory yet has none, and ``owner_known`` is False. Raises InvalidInput (naming what is known),
        StoreUnavailable.
        """
        self._check()
        return self._services.timeline.timeline(
            self._tenant,
            owner,
            entity=entity,
            attribute=attribute,
            scene=scene,
            as_of=as_of,
            since=since,
            until=until,
            limit=limit,
            cursor=cursor,
        )

    def sessions(self, owner: str, *, limit: int = 100, cursor: str | None = None) -> Page[StoredSession]:
        """An owner's sessions, the newest first.

        ``limit`` is the most items of one page, 1 to 1,000; ``cursor`` is that of the page before. An owner without a
        memory yet has none, and ``owner_known`` is False. Raises InvalidInput, StoreUnavailable.
        """
        self._check()
        return self._services.reading.sessions(self._tenant, owner, limit=limit, cursor=cursor)

    def turns(
        self,
        owner: str,
        session_id: str,
        *,
        last: int | None = None,
        before: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Turn]:
        """A session's turns in order, page by page from the first one; or its ``last`` so many turns.

        ``before`` is a turn's id: only those before it. ``limit`` and ``cursor`` as in ``sessions``. Raises NotFound
        for a session or a turn that the owner does not have, InvalidInput, StoreUnavailable.
        """
        self._check()
        return self._services.reading.turns(
            self._tenant, owner, session_id, last=last, before=before, limit=limit, cursor=cursor
        )

    def facts(
        self,
        owner: str,
        *,
        session_id: str | None = None,
        about: str | None = None,
        attribute: str | None = None,
        since: object | None = None,
        until: object | None = None,
        pinned: bool | None = None,
        superseded: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[StoredFact]:
        """An owner's facts with the turns that say them, the one that was learned last first.

        ``session_id`` keeps what was said in one session, ``about`` (a name or a speaker's id) what is about somebody,
        ``attribute`` one state ("residence"), ``since`` and ``until`` what happened or, without a date, was mentioned
        from that time to before that time (ISO 8601, unix seconds or datetimes), ``pinned`` and ``superseded`` what is
        (True) or is not (False). ``limit`` and ``cursor`` as in ``sessions``. Raises NotFound for a session that the
        owner does not have, InvalidInput, StoreUnavailable.
        """
        self._check()
        return self._services.reading.facts(
            self._tenant,
            owner,
            session_id=session_id,
            about=about,
            attribute=attribute,
            since=since,
            until=until,
            pinned=pinned,
            superseded=superseded,
            limit=limit,
            cursor=cursor,
        )

    def trees(
        self, owner: str, *, kind: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[StoredTree]:
        """An owner's trees with the summaries of their roots, in the order of ``kind`` ("session", "entity" or
        "scene"; all unless given) and scope. ``limit`` and ``cursor`` as in ``sessions``. Raises InvalidInput,
        StoreUnavailable."""
        self._check()
        return self._services.reading.trees(self._tenant, owner, kind=kind, limit=limit, cursor=cursor)

    def node(self, node_id: UUID | str, *, limit: int = 100, cursor: str | None = None) -> StoredNode:
        """A node of a tree, its parent, the nodes before and after it on its level, and a page of its children.

        ``limit`` and ``cursor`` are those of the children. Raises NotFound, InvalidInput, StoreUnavailable.
        """
        self._check()
        return self._services.reading.node(self._tenant, node_id, limit=limit, cursor=cursor)

    def recall_many(
        self, questions: Sequence[tuple[str, str]], k: int | None = None, mode: str | None = None
    ) -> list[RecallResult]:
        """Recall for many (owner, question), eight at once; results in their order. ``k`` and ``mode`` as in recall."""
        with ThreadPoolExecutor(min(8, max(1, len(questions)))) as pool:
            return list(pool.map(lambda pair: self.recall(pair[0], pair[1], k, mode), questions))

    def close(self) -> None:
        """Stop the embedded node, if there is one, and release connections."""
        if self._node is not None:
            self._node.close()
        else:
            self._services.close()

    def _check(self) -> None:
        if self._node is not None:
            self._node.check_process()
