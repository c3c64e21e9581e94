"""The calls that take more than one request: those that wait, stream, or move files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from memforest_core.accept.records import Backlog, SessionProgress, Stage
from memforest_core.errors import InvalidInput
from memforest_core.remote.exchange import Ask, Exchange, Told, result_of
from memforest_core.remote.operations import LifecycleOperations, Operations
from memforest_core.remote.records import Stored
from memforest_core.remote.routes import PREFIX
from memforest_core.window.naming import ItemInput, named_items
from memforest_core.work.records import OperationTask
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S, WaitTimeout

if TYPE_CHECKING:
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.profile.records import Forgetting, Turns
    from memforest_core.store.engine import Connection
    from memforest_core.window.records import HeldItems
    from memforest_core.work.records import Numbers, TaskId

T = TypeVar("T")

SLICE_S = 20.0
"""One request waits so long at most: proxies cut longer ones."""
ROOM_TIMEOUT_S = 3_600.0
"""How long a bulk import waits for room in the queue, for one session."""
WAITS = ("none", *(stage.value for stage in Stage if stage is not Stage.ACCEPTED))
FORGET_SLICE_S = 250.0
"""A deletion by words is asked for and waited for in one request."""


class Calls(Operations):
    """All calls for one tenant."""

    def enqueue(
        self,
        owner: str,
        session_id: str,
        turns: Sequence[TurnInput],
        *,
        wait: str = "none",
        started_at: object | None = None,
        display_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        channel: str | None = None,
        backfill: bool = False,
        transaction: Connection | None = None,
        trace: str | None = None,
        room_timeout_s: float = 0.0,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Exchange[Stored]:
        """As ``MemForestClient.enqueue``."""
        _check_wait(wait)
        stored = yield from super().enqueue(
            owner,
            session_id,
            turns,
            started_at=started_at,
            display_name=display_name,
            metadata=metadata,
            channel=channel,
            backfill=backfill,
            transaction=transaction,
            trace=trace,
            room_timeout_s=min(room_timeout_s, DEFAULT_TIMEOUT_S),
            timeout_s=0.0,
        )
        yield from self._reached(stored, wait, timeout_s)
        return stored

    def append(
        self,
        owner: str,
        session_id: str | None,
        turn: TurnInput,
        *,
        wait: str = "none",
        display_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        channel: str | None = None,
        close: bool = False,
        transaction: Connection | None = None,
        trace: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Exchange[Stored]:
        """As ``MemForestClient.append``."""
        _check_wait(wait)
        stored = yield from super().append(
            owner,
            session_id,
            turn,
            display_name=display_name,
            metadata=metadata,
            channel=channel,
            close=close or wait in (Stage.FACTS, Stage.SUMMARIES),
            transaction=transaction,
            trace=trace,
            timeout_s=0.0,
        )
        yield from self._reached(stored, wait, timeout_s)
        return stored

    def remember(
        self,
        owner: str,
        text: str,
        about: str | None = None,
        *,
        at: object | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        wait: str = "none",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Exchange[Stored]:
        """As ``MemForestClient.remember``."""
        _check_wait(wait)
        stored = yield from super().remember(
            owner, text, about, at=at, session_id=session_id, metadata=metadata, timeout_s=0.0
        )
        yield from self._reached(stored, wait, timeout_s)
        return stored

    def enqueue_many(
        self,
        sessions: Iterable[tuple[str, str, Sequence[TurnInput]]],
        *,
        wait: str = "none",
        backfill: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        room_timeout_s: float = ROOM_TIMEOUT_S,
    ) -> Exchange[list[Stored]]:
        """As ``MemForestClient.enqueue_many``."""
        _check_wait(wait)
        stored = []
        for owner, session_id, turns in sessions:
            stored.append(
                (yield from self.enqueue(owner, session_id, turns, backfill=backfill, room_timeout_s=room_timeout_s))
            )
        for each in stored:
            yield from self._reached(each, wait, timeout_s)
        return stored

    def window_put(self, owner: str, session_id: str, items: Sequence[ItemInput]) -> Exchange[HeldItems]:
        """As ``WindowService.window_put``."""
        return (yield from super().window_put(owner, session_id, named_items(items)))

    def wait(
        self, owner: str, session_id: str, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Exchange[SessionProgress]:
        """As ``MemForestClient.wait``."""
        return (yield from _sliced(lambda s: super(Calls, self).wait(owner, session_id, stage, s), timeout_s))

    def flush(self, owner: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Exchange[Backlog]:
        """As ``MemForestClient.flush``."""
        return (yield from _sliced(lambda s: super(Calls, self).flush(owner, s), timeout_s))

    def forget(
        self,
        owner: str,
        words: str,
        dry_run: bool = False,
        *,
        turns: Turns = "alone",
        actor: str = "memory",
        wait: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Exchange[Forgetting]:
        """As ``MemForest.forget``."""
        most = min(timeout_s, FORGET_SLICE_S)
        return (yield from super().forget(owner, words, dry_run, turns=turns, actor=actor, wait=wait, timeout_s=most))

    def _reached(self, stored: Stored, wait: str, timeout_s: float) -> Exchange[None]:
        if wait != "none":
            yield from self.wait(stored.owner, stored.session_id, wait, timeout_s)


class LifecycleCalls(LifecycleOperations):
    """All calls about operations on stored memory."""

    def wait(
        self,
        operation: TaskId,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        watch: Callable[[OperationTask], None] = lambda *_: None,
    ) -> Exchange[OperationTask]:
        """As ``Lifecycle.wait``; ``watch`` is given the task at the end of each request."""
        ends = time.monotonic() + timeout_s
        while True:
            try:
                task = yield from super().wait(operation, _left(ends))
            except WaitTimeout:
                watch((yield from self.operation(operation)))
                if time.monotonic() >= ends:
                    raise
            else:
                watch(task)
                return task

    def ended(self, operation: TaskId, timeout_s: float = DEFAULT_TIMEOUT_S) -> Exchange[OperationTask]:
        """As ``Lifecycle.ended``."""
        return (yield from _sliced(lambda s: super(LifecycleCalls, self).ended(operation, s), timeout_s))

    def export(
        self,
        owner: str,
        path: str | Path,
        *,
        vectors: bool = True,
        summaries: bool = True,
        overwrite: bool = False,
        actor: str,
        dry_run: bool = False,
    ) -> Exchange[Numbers]:
        """As ``Lifecycle.export``: the server sends the file, which is kept under ``path`` when it is whole."""
        target = Path(path)
        if target.exists() and not overwrite and not dry_run:
            raise InvalidInput(f"{target} exists: name another file, or overwrite it.", code="file_exists")
        query = {
            "owner": owner,
            "vectors": str(vectors).lower(),
            "summaries": str(summaries).lower(),
            "actor": actor,
            "dry_run": str(dry_run).lower(),
        }
        told = yield Ask(
            "GET", f"{PREFIX}/bundle", query, None, {}, DEFAULT_TIMEOUT_S, keep=None if dry_run else target
        )
        return _numbers(told.status, told.body, told.headers)

    def import_(
        self,
        path: str | Path,
        owner: str | None = None,
        *,
        vectors: bool = True,
        actor: str,
        dry_run: bool = False,
    ) -> Exchange[Numbers]:
        """As ``Lifecycle.import_``: the file is sent, and the server reads it."""
        query = {"vectors": str(vectors).lower(), "actor": actor, "dry_run": str(dry_run).lower()}
        if owner is not None:
            query["owner"] = owner
        told = yield Ask("POST", f"{PREFIX}/bundle", query, None, {}, DEFAULT_TIMEOUT_S, send=Path(path))
        return _numbers(told.status, told.body, told.headers)


def _numbers(status: int, body: bytes, headers: Mapping[str, str]) -> Numbers:
    told = Told(status, body or b"", headers)
    if status >= 400:
        return cast("Numbers", result_of(told, dict))
    counts = headers.get("memforest-numbers")
    return cast("Numbers", result_of(Told(status, (counts or body.decode()).encode(), headers), dict[str, str | int]))


def _check_wait(wait: str) -> None:
    if wait not in WAITS:
        raise InvalidInput(f"Set wait to {', '.join(WAITS)}, not {wait!r:.40}.", code="invalid_wait")


def _left(ends: float) -> float:
    return max(0.0, min(SLICE_S, ends - time.monotonic()))


def _sliced(call: Callable[[float], Exchange[T]], timeout_s: float) -> Exchange[T]:
    """Wait by requests that are short enough for proxies. Raises WaitTimeout."""
    ends = time.monotonic() + timeout_s
    while True:
        try:
            return (yield from call(_left(ends)))
        except WaitTimeout:
            if time.monotonic() >= ends:
                raise
