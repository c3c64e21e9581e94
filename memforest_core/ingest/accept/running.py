"""Sessions for apps that have no session ids of their own: one of an owner runs, and a gap begins the next one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import uuid4

from memforest_core.domain.ids import ForestId, SessionId, TenantId
from memforest_core.domain.ids import session_id as derived_id
from memforest_core.domain.turns import checked_name
from memforest_core.errors import ForestFrozen, NotFound
from memforest_core.ingest.accept.records import RunningSession
from memforest_core.ingest.accept.rows.accepting import AcceptRows
from memforest_core.ingest.accept.rows.flushing import FlushRows
from memforest_core.ingest.accept.rows.running import RunningRows
from memforest_core.settings import AcceptSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import NO_OWNER, ForestRef, known
from memforest_core.store.repeating import repeated
from memforest_core.work.messages import Queue
from memforest_core.work.wakeups import WakeUps


def open_forest(rows: AcceptRows, owner: str) -> ForestRef | None:
    """The owner's forest. Raises ForestFrozen while it takes no sessions."""
    forest = rows.find_forest(owner)
    if forest is not None and forest.frozen:
        raise ForestFrozen(f"Owner {owner!r:.80} is being merged into another: send it again in some seconds.")
    return forest


def generated_session(moment: datetime) -> str:
    """A new session id that says when the session began."""
    return f"{moment:%Y%m%dT%H%M%S}-{uuid4().hex[:8]}"


def session_for(rows: RunningRows, forest: ForestId, said_at: datetime, gap: timedelta) -> str:
    """The session that a turn without a session id belongs to, locked by this transaction."""
    name = rows.lock(forest, generated_session(said_at))
    _, last_at = rows.turns(forest, name)
    if last_at is not None and said_at - last_at > gap:
        name = generated_session(said_at)
        rows.begin(forest, name)
    return name


class RunningSessions:
    """Starts, switches and closes the session that runs."""

    def __init__(self, engine: Engine, wakeups: WakeUps, settings: AcceptSettings, now: Callable[[], datetime]) -> None:
        self._engine = engine
        self._wakeups = wakeups
        self._settings = settings
        self._now = now

    @repeated
    def start(self, tenant: TenantId, owner: str, session_id: str | None = None) -> RunningSession:
        """Begin a session, for apps that have no session ids of their own: ``append`` without one goes to it.

        The session that ran before is left: it can be gone back to. Without a ``session_id`` one is made, from the time
        and a random part. Raises InvalidInput, ForestFrozen, StoreUnavailable.
        """
        owner = checked_name(owner, "owner")
        name = generated_session(self._now()) if session_id is None else checked_name(session_id, "session_id")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = open_forest(rows, owner) or rows.ensure_forest(owner, ForestId(uuid4()), self._settings.time_zone)
            rows.running.begin(forest.id, name)
            return _session(rows.running, forest, name)

    @repeated
    def switch(self, tenant: TenantId, owner: str, session_id: str) -> RunningSession:
        """Go on with a session of before: ``append`` without a session id goes to it now.

        Raises NotFound for a session that the owner does not have, else as ``session_start``.
        """
        owner, name = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = known(open_forest(rows, owner), owner, NO_OWNER)
            if rows.running.name(forest.id) != name and not rows.running.turns(forest.id, name)[0]:
                raise NotFound(f"Owner {owner!r:.80} has no session {name!r:.80}.")
            rows.running.begin(forest.id, name)
            return _session(rows.running, forest, name)

    @repeated
    def close(
        self, tenant: TenantId, owner: str, session_id: str | None = None, *, summarize: bool = True
    ) -> RunningSession | None:
        """Close the session that runs, or the named one; None when none runs.

        The next turn without a session id begins a new one. With ``summarize`` the session's last cell is extracted at
        once instead of after the quiet period, and the refresh of its summaries is due; ``wait(owner, session_id,
        "summaries")`` waits for them. Raises NotFound for an owner or a session that does not exist, else as
        ``session_start``.
        """
        owner = checked_name(owner, "owner")
        named = None if session_id is None else checked_name(session_id, "session_id")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = known(open_forest(rows, owner), owner, NO_OWNER)
            name = named or rows.running.name(forest.id)
            if name is None:
                return None
            ran, closed = rows.running.end(forest.id, name), _session(rows.running, forest, name)
            if not ran and not closed.turns:
                raise NotFound(f"Owner {owner!r:.80} has no session {name!r:.80}.")
            id_ = derived_id(forest.id, name)
            ready = rows.running.release(id_) if summarize else 0
        if summarize:
            self._hurry(tenant, forest.id, id_, ready)
        return closed

    @repeated
    def summarize(self, tenant: TenantId, owner: str, session: str) -> None:
        """Extract a session's last cell and refresh its summaries at once; see ``MemForest.summarize``."""
        owner, name = checked_name(owner, "owner"), checked_name(session, "session_id")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = known(open_forest(rows, owner), owner, NO_OWNER)
            if not rows.running.turns(forest.id, name)[0]:
                raise NotFound(f"Owner {owner!r:.80} has no session {name!r:.80}.")
            id_ = derived_id(forest.id, name)
            ready = rows.running.release(id_)
        self._hurry(tenant, forest.id, id_, ready)

    def _hurry(self, tenant: TenantId, forest: ForestId, session: SessionId, ready: int) -> None:
        """Make what a session touches due, and wake those who do it; so many cells became ``ready``."""
        with FlushRows.opened(self._engine, tenant) as rows:
            rows.make_due(forest, session)
        self._wakeups.send(Queue.EXTRACT if ready else Queue.REFRESH, tenant, session)

    @repeated
    def current(self, tenant: TenantId, owner: str) -> RunningSession | None:
        """The session that runs; None when none does. Raises InvalidInput, StoreUnavailable."""
        owner = checked_name(owner, "owner")
        with AcceptRows.opened(self._engine, tenant) as rows:
            forest = rows.find_forest(owner)
            name = None if forest is None else rows.running.name(forest.id)
            return None if forest is None or name is None else _session(rows.running, forest, name)


def _session(rows: RunningRows, forest: ForestRef, name: str) -> RunningSession:
    turns, last_at = rows.turns(forest.id, name)
    return RunningSession(forest.owner, name, turns, last_at)
