"""Counts what a process sends to its stores, and kills or stops the process at a chosen one of these events."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import sqlalchemy as sa

from memforest_core.index.vector_index import Point, PointKey, VectorIndex

COMMITTED = "committed"
"""The event after a commit; every other one happens before what it names."""
LABEL_CHARS = 160


class Tape:
    """The events so far: a statement or a commit about to be sent, a commit done, a write of the index before and
    after it."""

    def __init__(self, kill_at: int | None = None, with_signal: signal.Signals = signal.SIGKILL) -> None:
        """``kill_at``: the number of the event, from 1, at which this process gets the signal; None for never.

        Only what the thread does that makes the tape counts: the others keep the process alive.
        """
        self.events: list[str] = []
        self._kill_at = kill_at
        self._signal = with_signal
        self._running = False
        self._thread = threading.get_ident()

    def tick(self, what: str) -> None:
        """The next event, if this is recorded."""
        if not self._running or threading.get_ident() != self._thread:
            return
        self.events.append(what)
        if len(self.events) == self._kill_at:
            os.kill(os.getpid(), self._signal)

    @contextmanager
    def recording(self, on: bool = True) -> Iterator[None]:
        """Whether what happens inside counts; nothing does before the first block."""
        before, self._running = self._running, on
        try:
            yield
        finally:
            self._running = before


def record_engine(engine: sa.Engine, tape: Tape) -> None:
    """Put the statements and commits of an engine on tape."""

    def sent(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        tape.tick(" ".join(statement.split())[:LABEL_CHARS])

    sa.event.listen(engine, "before_cursor_execute", sent)
    commit: Callable[[Any], None] = engine.dialect.do_commit

    def recorded(connection: Any) -> None:
        tape.tick("COMMIT")
        commit(connection)
        tape.tick(COMMITTED)

    # No event is fired after a commit: the dialect's own method is the one place where it can be seen.
    engine.dialect.do_commit = recorded  # type: ignore[method-assign, assignment]


class _RecordedIndex:
    """An index whose writes are on tape; everything else is passed on."""

    def __init__(self, index: VectorIndex, tape: Tape) -> None:
        self._index = index
        self._tape = tape

    def upsert(self, points: Sequence[Point]) -> None:
        self._tape.tick(f"index: upsert {len(points)}")
        self._index.upsert(points)
        self._tape.tick(f"index: upserted {len(points)}")

    def delete(self, keys: Sequence[PointKey]) -> None:
        self._tape.tick(f"index: delete {len(keys)}")
        self._index.delete(keys)
        self._tape.tick(f"index: deleted {len(keys)}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


def recorded_index(index: VectorIndex, tape: Tape) -> VectorIndex:
    """The same index, its writes on tape."""
    return cast(VectorIndex, _RecordedIndex(index, tape))
