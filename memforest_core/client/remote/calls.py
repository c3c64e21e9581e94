"""The calls that no signature tells all of: files that are moved, many sessions, and items that are named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memforest_core.assistant.conversation_window.naming import ItemInput, named_items
from memforest_core.client.remote.exchange import Ask, Exchange, Told, result_of
from memforest_core.client.remote.operations import LifecycleOperations, Operations
from memforest_core.client.remote.records import Stored
from memforest_core.client.remote.routes import BUNDLE, COUNTS, MAX_WAIT_S, PREFIX
from memforest_core.errors import InvalidInput
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from memforest_core.assistant.conversation_window.records import HeldItems
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.work.records import Numbers

ROOM_TIMEOUT_S = 3_600.0
"""How long a bulk import waits for room in the queue, for one session."""


class Calls(Operations):
    """All calls for one tenant."""

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
        stored: list[Stored] = []
        for owner, session_id, turns in sessions:
            one = yield from self.enqueue(owner, session_id, turns, backfill=backfill, room_timeout_s=room_timeout_s)
            stored.append(one)
        for one in stored if wait != "none" else ():
            yield from self.wait(one.owner, one.session_id, wait, timeout_s)
        return stored

    def window_put(self, owner: str, session_id: str, items: Sequence[ItemInput]) -> Exchange[HeldItems]:
        """As ``WindowService.window_put``."""
        return super().window_put(owner, session_id, named_items(items))


class LifecycleCalls(LifecycleOperations):
    """All calls about operations on stored memory."""

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
        query = {"owner": owner, "vectors": vectors, "summaries": summaries, "actor": actor, "dry_run": dry_run}
        kept = None if dry_run else target
        return _counts((yield Ask("GET", PREFIX + BUNDLE, query, waits_s=MAX_WAIT_S, keep=kept)))

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
        query: dict[str, Any] = {"vectors": vectors, "actor": actor, "dry_run": dry_run}
        if owner is not None:
            query["owner"] = owner
        return _counts((yield Ask("POST", PREFIX + BUNDLE, query, waits_s=MAX_WAIT_S, send=Path(path))))


def _counts(told: Told) -> Numbers:
    """The counts of a bundle: in a header beside a file, else the answer itself."""
    header = told.headers.get(COUNTS.lower())
    found: Numbers = result_of(told if header is None else Told(told.status, header.encode(), {}), dict[str, str | int])
    return found
