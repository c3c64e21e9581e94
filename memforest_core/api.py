"""The library's object: accept sessions, recall evidence, wait, and close."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from memforest_core.accept.records import Backlog, SessionProgress, Stage
from memforest_core.bootstrap.service import Services, open_services
from memforest_core.client import DEFAULT_TIMEOUT_S, ROOM_TIMEOUT_S, MemForestClient, SessionHandle, stage_named
from memforest_core.domain.evidence import RecallResult
from memforest_core.errors import IndexUnavailable
from memforest_core.lifecycle import Lifecycle
from memforest_core.recall.answering.answer import Answer
from memforest_core.recall.answering.service import MAX_TOKENS
from memforest_core.recall.asking import RecallOptions
from memforest_core.recall.timeline.states import Timeline
from memforest_core.settings import Settings, load_settings
from memforest_core.work.dead import DeadLetters
from memforest_core.work.waiting import Steps, waited

if TYPE_CHECKING:
    from memforest_core.embedded.node import EmbeddedNode


class MemForest:
    """Long-term memory of many owners, for one tenant. Thread-safe.

    ``MemForest.connect()`` uses running services; ``MemForest.embedded(path)`` brings everything along in a directory.
    """

    def __init__(self, services: Services, node: EmbeddedNode | None = None) -> None:
        self._services = services
        self._node = node
        self._client = MemForestClient(services.settings, producer=services.producer)

    @classmethod
    def connect(cls, settings: Settings | None = None) -> Self:
        """Connect to Postgres, the broker and the vector index that the settings name."""
        services = open_services(settings or load_settings())
        # An index that is away is prepared by the workers; recall answers from full text until then, and says so.
        with suppress(IndexUnavailable):
            services.index.prepare()
        return cls(services)

    @classmethod
    def embedded(cls, path: str | Path, settings: Settings | None = None, *, concurrency: int = 8) -> Self:
        """Everything in this process and one directory: Postgres, broker, vector engine, worker.

        Needs ``pip install memforest[embedded]``. Raises DataDirectoryInUse when another process owns the directory.
        """
        from memforest_core.embedded.node import EmbeddedNode

        node = EmbeddedNode.start(Path(path), settings or load_settings(), concurrency)
        return cls(node.services, node)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._services.settings

    @property
    def services(self) -> Services:
        """The services behind, for tools that look inside."""
        return self._services

    @property
    def client(self) -> MemForestClient:
        """The accepting side alone."""
        return self._client

    @property
    def dead(self) -> DeadLetters:
        """Work that was given up: list it, look at it, try it again or let it go."""
        return self._client.dead

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """What can be done to stored memory: delete, correct, merge, export, build anew, bound, audit."""
        self._check()
        return Lifecycle(self._services.lifecycle, self._client.tenant)

    def ingest(
        self,
        owner: str,
        session_id: str,
        turns: Sequence[object],
        *,
        wait: str = "none",
        started_at: object | None = None,
        display_name: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> SessionHandle:
        """Store a session; ``wait`` is "none", "raw", "facts" or "summaries".

        ``display_name`` is what an owner is called whose id is no name; it stays until another is given.

        Raises InvalidInput, SessionConflict, StoreUnavailable, and QuotaExceeded with ``retry_after`` in seconds;
        nothing is stored then. Raises WaitTimeout when the stage is not reached in time; the session is stored.
        """
        return waited(
            self.ingest_steps(
                owner,
                session_id,
                turns,
                wait=wait,
                started_at=started_at,
                display_name=display_name,
                timeout_s=timeout_s,
            )
        )

    enqueue = ingest

    def ingest_steps(
        self,
        owner: str,
        session_id: str,
        turns: Sequence[object],
        *,
        wait: str = "none",
        started_at: object | None = None,
        display_name: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Steps[SessionHandle]:
        """``ingest`` in short steps, for callers that sleep in their own way."""
        self._check()
        stage_named(wait)
        handle = self._client.enqueue(owner, session_id, turns, started_at=started_at, display_name=display_name)
        yield from self._waiting(handle, wait, timeout_s)
        return handle

    def append(
        self,
        owner: str,
        session_id: str,
        turn: object,
        *,
        display_name: str | None = None,
        wait: str = "none",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> SessionHandle:
        """Add one turn to a running session.

        It waits up to ``accept.quiet_s`` for the second turn of its cell, and is searchable meanwhile. With ``wait``
        "facts" or "summaries" the cell is closed instead, so that the call takes no longer than extraction does; the
        next turn begins a new cell. ``display_name`` as in ``ingest``. Raises as ``ingest``.
        """
        return waited(
            self.append_steps(owner, session_id, turn, display_name=display_name, wait=wait, timeout_s=timeout_s)
        )

    def append_steps(
        self,
        owner: str,
        session_id: str,
        turn: object,
        *,
        display_name: str | None = None,
        wait: str = "none",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Steps[SessionHandle]:
        """``append`` in short steps."""
        self._check()
        closes = stage_named(wait) in (Stage.FACTS, Stage.SUMMARIES)
        handle = self._client.append(owner, session_id, turn, display_name=display_name, close=closes)
        yield from self._waiting(handle, wait, timeout_s)
        return handle

    def ingest_many(
        self,
        sessions: Iterable[tuple[str, str, Sequence[object]]],
        *,
        wait: str = "none",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> list[SessionHandle]:
        """Store many (owner, session id, turns), behind live sessions; then wait for all.

        Sessions are taken one by one. A full queue is waited for, at most ``room_timeout_s`` for one session.
        """
        return waited(self.ingest_many_steps(sessions, wait=wait, timeout_s=timeout_s, room_timeout_s=room_timeout_s))

    def ingest_many_steps(
        self,
        sessions: Iterable[tuple[str, str, Sequence[object]]],
        *,
        wait: str = "none",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> Steps[list[SessionHandle]]:
        """``ingest_many`` in short steps."""
        self._check()
        stage_named(wait)
        handles = []
        for owner, session_id, turns in sessions:
            handle = yield from self._client.enqueue_steps(
                owner, session_id, turns, backfill=True, room_timeout_s=room_timeout_s
            )
            handles.append(handle)
        for handle in handles:
            yield from self._waiting(handle, wait, timeout_s)
        return handles

    def _waiting(self, handle: SessionHandle, wait: str, timeout_s: float) -> Steps[None]:
        if wait != "none":
            yield from self._client.wait_steps(handle.owner, handle.session_id, wait, timeout_s)

    def enqueue_stream(
        self,
        sessions: Iterable[tuple[str, str, Sequence[object]]],
        *,
        backfill: bool = True,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> Iterator[SessionHandle]:
        """Store (owner, session id, turns) as they come, in the memory of one; a handle for each.

        A full queue is waited for, at most ``room_timeout_s`` for one session; then raises QuotaExceeded.
        """
        self._check()
        return self._client.enqueue_stream(sessions, backfill=backfill, room_timeout_s=room_timeout_s)

    def recall(
        self,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> RecallResult:
        """The ``k`` best pieces of evidence for a question, best first.

        ``mode`` is "auto", "flat", "root", "embedding", "llm" or "planner". Options: ``since``, ``until``, ``between``
        and ``as_of`` bound the time, ``asked_at`` says when it is asked, ``max_tokens`` and ``budget_ms`` what
        may be spent, ``neighbours`` adds that many pieces before and after each, ``session_id`` names the running
        session, ``sessions``, ``exclude_sessions``, ``speakers``, ``roles``, ``metadata`` and ``trees`` say where to
        look, and ``min_score`` leaves out what scores less (RecallOptions tells more). An owner without a memory yet
        gets an empty result whose ``owner_known`` is False. Raises InvalidInput, StoreUnavailable.
        """
        self._check()
        return self._services.recall.recall(self._client.tenant, owner, question, k, mode, **options)

    def answer(
        self,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> Answer:
        """What a chat model answers from the evidence, citing it, or that it is not in memory; options as in recall.

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
            self._client.tenant,
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

        Without ``entity`` they are the owner's own; "*" is everybody. An owner without a memory yet has none, and
        ``owner_known`` is False. Raises InvalidInput (naming what is known), StoreUnavailable.
        """
        self._check()
        return self._services.timeline.timeline(
            self._client.tenant,
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

    def recall_many(
        self, questions: Sequence[tuple[str, str]], k: int | None = None, mode: str | None = None
    ) -> list[RecallResult]:
        """Recall for many (owner, question), side by side; results in the order of the questions."""
        with ThreadPoolExecutor(min(8, max(1, len(questions)))) as pool:
            return list(pool.map(lambda pair: self.recall(pair[0], pair[1], k, mode), questions))

    def status(self, owner: str, session_id: str) -> SessionProgress:
        """How far a session has come, and why no further (``last_error``). Raises NotFound."""
        self._check()
        return self._client.status(owner, session_id)

    def wait(
        self, owner: str, session_id: str, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> SessionProgress:
        """Wait until a session's raw cells, facts or summaries can be asked for.

        Raises NotFound, and WaitTimeout whose ``last_error`` says why it goes no further.
        """
        return waited(self.wait_steps(owner, session_id, stage, timeout_s))

    def wait_steps(
        self, owner: str, session_id: str, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Steps[SessionProgress]:
        """``wait`` in short steps."""
        self._check()
        return self._client.wait_steps(owner, session_id, stage, timeout_s)

    def flush(self, owner: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Backlog:
        """Wait until all that was accepted for the owner is durable, placed, refreshed and indexed."""
        return waited(self.flush_steps(owner, timeout_s))

    def flush_steps(self, owner: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Steps[Backlog]:
        """``flush`` in short steps."""
        self._check()
        return self._client.flush_steps(owner, timeout_s)

    def close(self) -> None:
        """Stop the embedded node, if there is one, and release connections."""
        if self._node is not None:
            self._node.close()
        else:
            self._services.close()

    def _check(self) -> None:
        if self._node is not None:
            self._node.check_process()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
