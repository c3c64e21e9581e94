"""One poll for all event streams of a process: each session or operation is read once a round, one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from memforest_core.errors import MemForestError

POLL_S = 0.5
REST = 3.0
"""A round is followed by a pause of so many times what it took: many streams do not slow down other requests."""


@dataclass(slots=True)
class Polled:
    """What one session or operation was at the last round."""

    read: Callable[[], Awaitable[Any]]
    latest: Any
    readers: int = 0
    error: MemForestError | None = None

    def now(self) -> Any:
        """The value. Raises what the last read raised."""
        if self.error is not None:
            raise self.error
        return self.latest


class SharedPoll:
    """Reads what streams wait for, as long as any waits."""

    def __init__(self) -> None:
        self._polled: dict[Hashable, Polled] = {}
        self._rounds: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, name: Hashable, read: Callable[[], Awaitable[Any]], first: Any) -> Iterator[Polled]:
        """What is read under this name; ``first`` is what it was just now."""
        found = self._polled.setdefault(name, Polled(read, first))
        found.readers += 1
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._run())
        try:
            yield found
        finally:
            found.readers -= 1
            if not found.readers:
                del self._polled[name]

    async def _run(self) -> None:
        loop, took = asyncio.get_running_loop(), 0.0
        while self._polled:
            await asyncio.sleep(max(POLL_S, REST * took))
            began = loop.time()
            for each in list(self._polled.values()):
                if each.readers:
                    try:
                        each.latest, each.error = await each.read(), None
                    except MemForestError as error:
                        each.error = error
            took = loop.time() - began
