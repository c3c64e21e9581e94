"""The async facade: the same core in threads, one method for one method."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Self, Unpack

from memforest_core.api import MemForest
from memforest_core.client import DEFAULT_TIMEOUT_S, ROOM_TIMEOUT_S, SessionHandle
from memforest_core.contexts.answering.answer import Answer
from memforest_core.contexts.query.asking import RecallOptions
from memforest_core.contexts.timeline.states import Timeline
from memforest_core.domain.evidence import RecallResult
from memforest_core.ports.accept import SessionProgress
from memforest_core.ports.flushing import Backlog
from memforest_core.settings import Settings


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
