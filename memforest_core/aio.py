"""The async facade: the same core in threads, one method for one method."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import ParamSpec, Self, TypeVar, Unpack

from memforest_core.api import MemForest
from memforest_core.client import DEFAULT_TIMEOUT_S, ROOM_TIMEOUT_S, SessionHandle
from memforest_core.contexts.answering.answer import Answer
from memforest_core.contexts.query.asking import RecallOptions
from memforest_core.contexts.timeline.states import Timeline
from memforest_core.domain.evidence import RecallResult
from memforest_core.lifecycle import Lifecycle
from memforest_core.ports.accept import SessionProgress
from memforest_core.ports.flushing import Backlog
from memforest_core.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(method: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """The same call, in a thread of the loop's executor."""

    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, *args, **kwargs)

    return called


class AsyncLifecycle:
    """``Lifecycle`` for asyncio programs: the same methods, each in a thread."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.sync = lifecycle
        self.forget = in_thread(lifecycle.forget)
        self.receipt = in_thread(lifecycle.receipt)
        self.correct = in_thread(lifecycle.correct)
        self.pin = in_thread(lifecycle.pin)
        self.unpin = in_thread(lifecycle.unpin)
        self.merge = in_thread(lifecycle.merge)
        self.merge_conflicts = in_thread(lifecycle.merge_conflicts)
        self.export = in_thread(lifecycle.export)
        self.import_ = in_thread(lifecycle.import_)
        self.rematerialize_plan = in_thread(lifecycle.rematerialize_plan)
        self.rematerialize = in_thread(lifecycle.rematerialize)
        self.rematerialize_abandon = in_thread(lifecycle.rematerialize_abandon)
        self.set_policy = in_thread(lifecycle.set_policy)
        self.clear_policy = in_thread(lifecycle.clear_policy)
        self.policies = in_thread(lifecycle.policies)
        self.apply_policy = in_thread(lifecycle.apply_policy)
        self.preview_policy = in_thread(lifecycle.preview_policy)
        self.operation = in_thread(lifecycle.operation)
        self.operations = in_thread(lifecycle.operations)
        self.cancel = in_thread(lifecycle.cancel)
        self.ended = in_thread(lifecycle.ended)
        self.wait = in_thread(lifecycle.wait)
        self.audit = in_thread(lifecycle.audit)


class AsyncMemForest:
    """``MemForest`` for asyncio programs; each call runs in a thread of the loop's executor."""

    def __init__(self, memory: MemForest) -> None:
        self.sync = memory

    @classmethod
    async def connect(cls, settings: Settings | None = None) -> Self:
        """As ``MemForest.connect``."""
        return cls(await asyncio.to_thread(MemForest.connect, settings))

    @classmethod
    async def embedded(cls, path: str | Path, settings: Settings | None = None) -> Self:
        """As ``MemForest.embedded``."""
        return cls(await asyncio.to_thread(MemForest.embedded, path, settings))

    async def ingest(
        self, owner: str, session_id: str, turns: Sequence[object], *, wait: str = "none"
    ) -> SessionHandle:
        """As ``MemForest.ingest``."""
        return await asyncio.to_thread(self.sync.ingest, owner, session_id, turns, wait=wait)

    async def append(self, owner: str, session_id: str, turn: object, *, wait: str = "none") -> SessionHandle:
        """As ``MemForest.append``."""
        return await asyncio.to_thread(self.sync.append, owner, session_id, turn, wait=wait)

    async def ingest_many(
        self, sessions: Iterable[tuple[str, str, Sequence[object]]], *, wait: str = "none"
    ) -> list[SessionHandle]:
        """As ``MemForest.ingest_many``."""
        return await asyncio.to_thread(self.sync.ingest_many, sessions, wait=wait)

    async def enqueue_stream(
        self,
        sessions: Iterable[tuple[str, str, Sequence[object]]],
        *,
        backfill: bool = True,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> AsyncIterator[SessionHandle]:
        """As ``MemForest.enqueue_stream``."""
        stream = self.sync.enqueue_stream(sessions, backfill=backfill, room_timeout_s=room_timeout_s)
        while (handle := await asyncio.to_thread(next, stream, None)) is not None:
            yield handle

    async def recall(
        self,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> RecallResult:
        """As ``MemForest.recall``."""
        return await asyncio.to_thread(self.sync.recall, owner, question, k, mode, **options)

    async def answer(
        self,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> Answer:
        """As ``MemForest.answer``."""
        return await asyncio.to_thread(self.sync.answer, owner, question, k, mode, **options)

    async def timeline(
        self,
        owner: str,
        *,
        entity: str | None = None,
        attribute: str | None = None,
        scene: str | None = None,
        as_of: object | None = None,
    ) -> Timeline:
        """As ``MemForest.timeline``."""
        return await asyncio.to_thread(
            self.sync.timeline, owner, entity=entity, attribute=attribute, scene=scene, as_of=as_of
        )

    @cached_property
    def lifecycle(self) -> AsyncLifecycle:
        """As ``MemForest.lifecycle``."""
        return AsyncLifecycle(self.sync.lifecycle)

    async def status(self, owner: str, session_id: str) -> SessionProgress:
        """As ``MemForest.status``."""
        return await asyncio.to_thread(self.sync.status, owner, session_id)

    async def flush(self, owner: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Backlog:
        """As ``MemForest.flush``."""
        return await asyncio.to_thread(self.sync.flush, owner, timeout_s)

    async def close(self) -> None:
        """As ``MemForest.close``."""
        await asyncio.to_thread(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
