"""What an app server imports to hand over conversations: light, and safe inside its own transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from memforest_core.bootstrap.producer import Producer, open_producer
from memforest_core.contexts.accept.service import Accepted
from memforest_core.domain.ids import TenantId
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput
from memforest_core.ports.accept import Lane, SessionProgress, Stage
from memforest_core.ports.flushing import Backlog
from memforest_core.settings import Settings, load_settings

WAIT_STAGES = {"raw": Stage.RAW, "facts": Stage.FACTS, "summaries": Stage.SUMMARIES}
DEFAULT_TIMEOUT_S = 300.0


def stage_named(name: str) -> Stage | None:
    """The stage to wait for: "none" (no waiting), "raw", "facts" or "summaries". Raises InvalidInput."""
    if name == "none":
        return None
    try:
        return WAIT_STAGES[name]
    except KeyError:
        raise InvalidInput(
            f"Set wait to none, raw, facts or summaries, not {name!r:.40}.", code="invalid_wait"
        ) from None


@dataclass(frozen=True, slots=True)
class SessionHandle:
    """An accepted session: the same for the same session, however often it is sent."""

    owner: str
    session_id: str
    accepted: Accepted = field(compare=False)
    _client: MemForestClient = field(compare=False, repr=False)

    def status(self) -> SessionProgress:
        """How far the session has come."""
        return self._client.status(self.owner, self.session_id)

    def wait(self, stage: str = "facts", timeout_s: float = DEFAULT_TIMEOUT_S) -> SessionProgress:
        """Wait until its raw cells, facts or summaries can be asked for. Raises WaitTimeout."""
        return self._client.wait(self.owner, self.session_id, stage, timeout_s)


class MemForestClient:
    """Accepts sessions for one tenant. Thread-safe; opens connections on first use."""

    def __init__(self, settings: Settings | None = None, *, producer: Producer | None = None) -> None:
        self.settings = settings or load_settings()
        self._tenant = TenantId(checked_name(self.settings.tenant, "tenant"))
        self._producer = producer or open_producer(self.settings)

    @property
    def tenant(self) -> TenantId:
        """The tenant that everything here belongs to."""
        return self._tenant

    def enqueue(
        self,
        owner: str,
        session_id: str,
        turns: Sequence[object],
        *,
        started_at: object | None = None,
        backfill: bool = False,
        transaction: object | None = None,
    ) -> SessionHandle:
        """Store a session and wake the workers; returns as soon as it is durable.

        ``turns`` are objects with role and content, and optionally id, timestamp (ISO 8601 or unix), speaker_id, name
        and metadata. ``backfill`` puts it behind live sessions. ``transaction`` is an open SQLAlchemy connection or
        session whose commit then stores the session together with the app's own data.

        Raises InvalidInput, SessionConflict, StoreUnavailable; nothing is stored then.
        """
        accepted = self._producer.acceptance.enqueue(
            self._tenant,
            owner,
            session_id,
            turns,
            started_at=started_at,
            lane=Lane.BACKFILL if backfill else Lane.LIVE,
            joined=transaction,
        )
        return SessionHandle(owner, session_id, accepted, self)

    def append(self, owner: str, session_id: str, turn: object, *, transaction: object | None = None) -> SessionHandle:
        """Add one turn to a running session. Raises as ``enqueue``."""
        accepted = self._producer.acceptance.append(self._tenant, owner, session_id, turn, joined=transaction)
        return SessionHandle(owner, session_id, accepted, self)

    def enqueue_many(
        self, sessions: Iterable[tuple[str, str, Sequence[object]]], *, backfill: bool = True
    ) -> list[SessionHandle]:
        """Enqueue (owner, session id, turns) one after the other, as a backfill unless told otherwise."""
        return [self.enqueue(owner, session_id, turns, backfill=backfill) for owner, session_id, turns in sessions]

    def status(self, owner: str, session_id: str) -> SessionProgress:
        """How far a session has come. Raises NotFound."""
        return self._producer.acceptance.progress(self._tenant, owner, session_id)

    def wait(self, owner: str, session_id: str, stage: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> SessionProgress:
        """Wait until a session has reached a stage. Raises WaitTimeout, NotFound."""
        wanted = stage_named(stage)
        if wanted is None:
            return self.status(owner, session_id)
        return self._producer.flushing.wait_session(
            self._tenant, owner, lambda: self.status(owner, session_id), wanted, timeout_s
        )

    def flush(self, owner: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Backlog:
        """Wait until all that was accepted for the owner is placed, refreshed and indexed."""
        return self._producer.flushing.flush(self._tenant, owner, timeout_s)

    def close(self) -> None:
        """Release connections."""
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
