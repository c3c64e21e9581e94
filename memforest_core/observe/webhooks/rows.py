"""Endpoints and deliveries of a tenant: what callers list and change, and the queue that workers take from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from memforest_core.domain.ids import LeaseToken, WorkerId
from memforest_core.observe.reading.rows import narrowed, paged
from memforest_core.observe.webhooks.records import Delivery, Endpoint, Event, Message, Outcome
from memforest_core.store import tables as m
from memforest_core.store.rows import TenantRows, record_of, seconds_from_now
from memforest_core.work.jobs import WorkState

_TENANT = sa.text("INSERT INTO memforest.tenant (tenant_id) VALUES (:t) ON CONFLICT DO NOTHING")

_ROTATE = sa.text("""
    UPDATE memforest.webhook_endpoint
       SET former_secret = secret, former_until = clock_timestamp() + make_interval(secs => :overlap), secret = :secret
     WHERE tenant_id = :t AND endpoint_id = :id RETURNING *
    """)

# Nothing is delivered of a session that is gone.
_DROP_ORPHANS = sa.text("""
    DELETE FROM memforest.webhook_delivery d
     WHERE d.tenant_id = :t AND d.delivery_id = ANY(CAST(:ids AS uuid[]))
       AND NOT EXISTS (SELECT 1 FROM memforest.session s
                        WHERE s.tenant_id = :t AND s.forest_id = d.forest_id
                          AND s.external_id = d.data ->> 'session_id')
    """)

_HELD = sa.text("""
    SELECT delivery_id FROM memforest.webhook_delivery
     WHERE tenant_id = :t AND state = 'held' AND available_at <= clock_timestamp()
     ORDER BY available_at LIMIT :n FOR NO KEY UPDATE SKIP LOCKED
    """)

# As ``SessionProgress.ready``: each cell is in the trees or dead, and no tree with something of the session is due. The
# longer it takes, the rarer it is checked.
_CHECK = sa.text("""
    UPDATE memforest.webhook_delivery d
       SET state = CASE WHEN now.ready THEN 'ready' ELSE 'held' END,
           delivery_id = CASE WHEN now.ready THEN gen_random_uuid() ELSE d.delivery_id END,
           created_at = CASE WHEN now.ready THEN clock_timestamp() ELSE d.created_at END,
           available_at = CASE WHEN now.ready THEN clock_timestamp()
                               ELSE clock_timestamp() + make_interval(secs => :recheck)
                                    + (clock_timestamp() - d.created_at) / :slower END
      FROM memforest.session s
     CROSS JOIN LATERAL (
           SELECT NOT EXISTS (SELECT 1 FROM memforest.cell c
                               WHERE c.tenant_id = :t AND c.session_id = s.session_id
                                 AND NOT (c.placed OR c.state = 'dead'))
              AND NOT EXISTS (SELECT 1 FROM memforest.node p
                                JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = p.tree_id
                               WHERE p.tenant_id = :t AND r.due_at IS NOT NULL AND p.payload_id IN (
                                     SELECT o.fact_id FROM memforest.cell c
                                       JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = c.cell_id
                                      WHERE c.tenant_id = :t AND c.session_id = s.session_id
                                     UNION ALL SELECT c.cell_id FROM memforest.cell c
                                      WHERE c.tenant_id = :t AND c.session_id = s.session_id)) AS ready) now
     WHERE d.tenant_id = :t AND d.delivery_id = ANY(CAST(:ids AS uuid[])) AND s.tenant_id = :t
       AND s.forest_id = d.forest_id AND s.external_id = d.data ->> 'session_id'
    RETURNING d.state
    """)

_CLAIM = sa.text("""
    WITH due AS MATERIALIZED (
        SELECT delivery_id FROM memforest.webhook_delivery
         WHERE tenant_id = :t AND state = 'ready' AND available_at <= clock_timestamp()
         ORDER BY available_at
         LIMIT greatest(0, :n - (SELECT count(*) FROM memforest.webhook_delivery
                                  WHERE tenant_id = :t AND state = 'running'))
           FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE memforest.webhook_delivery d
       SET state = 'running', attempts = least(d.attempts + 1, 1000), lease_token = :token, worker_id = :worker,
           lease_until = clock_timestamp() + make_interval(secs => :lease)
      FROM due, memforest.webhook_endpoint e
     WHERE d.tenant_id = :t AND d.delivery_id = due.delivery_id AND e.tenant_id = :t AND e.endpoint_id = d.endpoint_id
    RETURNING d.delivery_id AS id, d.endpoint_id, d.event, d.data, d.created_at, d.attempts, e.url, e.enabled,
              array_remove(ARRAY[e.secret, CASE WHEN e.former_until > clock_timestamp() THEN e.former_secret END], NULL)
              AS secrets
    """)

_REPLAY = sa.text("""
    UPDATE memforest.webhook_delivery
       SET state = 'ready', attempts = 0, lost_leases = 0, available_at = clock_timestamp(), finished_at = NULL
     WHERE tenant_id = :t AND delivery_id = :id AND state IN ('done', 'dead')
    """)

_DROP_PAST = sa.text("""
    DELETE FROM memforest.webhook_delivery WHERE tenant_id = :t AND delivery_id IN (
        SELECT delivery_id FROM memforest.webhook_delivery
         WHERE tenant_id = :t AND state IN ('done', 'dead') AND available_at <= clock_timestamp()
         LIMIT :n FOR UPDATE SKIP LOCKED)
    """)


class WebhookRows(TenantRows):
    def add(self, url: str, events: Sequence[Event], description: str, secret: str) -> Endpoint:
        self._run(_TENANT)
        values = {
            "tenant_id": self._tenant,
            "endpoint_id": uuid4(),
            "url": url,
            "events": [event.value for event in events],
            "description": description,
            "secret": secret,
        }
        made = sa.insert(m.WebhookEndpoint).values(values).returning(m.WebhookEndpoint.__table__)
        return _endpoint(self._db.execute(made).one())

    def endpoints(self) -> Sequence[Endpoint]:
        e = m.WebhookEndpoint
        wanted = self._select(e.__table__).order_by(e.created_at.desc(), e.endpoint_id)
        return [_endpoint(row) for row in self._db.execute(wanted)]

    def set_enabled(self, id_: UUID, enabled: bool) -> Endpoint | None:
        """Enable or disable an endpoint; None when the tenant has no such one."""
        own = self._update_rows(m.WebhookEndpoint).where(m.WebhookEndpoint.endpoint_id == id_).values(enabled=enabled)
        row = self._db.execute(own.returning(m.WebhookEndpoint.__table__)).first()
        return None if row is None else _endpoint(row)

    def rotate(self, id_: UUID, secret: str, overlap_s: float) -> Endpoint | None:
        """Give an endpoint another secret; the former one signs in addition to it for so many seconds."""
        row = self._run(_ROTATE, id=id_, secret=secret, overlap=overlap_s).first()
        return None if row is None else _endpoint(row)

    def drop(self, id_: UUID) -> bool:
        """Delete an endpoint with its deliveries; whether there was one."""
        return self._delete(m.WebhookEndpoint.endpoint_id, [id_]) == 1

    def deliveries(
        self, endpoint: UUID | None, state: WorkState | None, after: Sequence[object] | None, limit: int
    ) -> Sequence[Delivery]:
        """Deliveries, the newest first: at most ``limit``, those that come after a place in the list."""
        d = m.WebhookDelivery
        statement = narrowed(self._select(d.__table__), (endpoint, d.endpoint_id.__eq__), (state, d.state.__eq__))
        newest = paged(statement, [d.created_at, d.delivery_id], after, limit, newest=True)
        return [_delivery(row) for row in self._db.execute(newest)]

    def delivery(self, id_: UUID) -> Delivery | None:
        d = m.WebhookDelivery
        row = self._db.execute(self._select(d.__table__).where(d.delivery_id == id_)).first()
        return None if row is None else _delivery(row)

    def replay(self, id_: UUID) -> None:
        """Have what is over delivered once more; what is not stays as it is."""
        self._run(_REPLAY, id=id_)

    def check_held(self, limit: int, recheck_s: float, slower: float) -> int:
        """Release deliveries whose session is ready now, and drop those of sessions that are gone; how many changed.

        Those that wait on are re-checked after ``recheck_s`` seconds and a ``slower``th of their age.
        """
        held = self._run(_HELD, n=limit).scalars().all()
        if not held:
            return 0
        dropped = int(self._run(_DROP_ORPHANS, ids=held).rowcount)
        states = self._run(_CHECK, ids=held, recheck=recheck_s, slower=slower).scalars().all()
        return dropped + states.count(WorkState.READY)

    def claim(self, worker: WorkerId, most: int, lease_s: float) -> tuple[LeaseToken, Sequence[Message]]:
        """Take deliveries that are due, so many that at most ``most`` of the tenant are under way."""
        token = LeaseToken(uuid4())
        rows = self._run(_CLAIM, n=most, token=token, worker=worker, lease=lease_s)
        return token, [record_of(Message, row) for row in rows]

    def settle(self, token: LeaseToken, id_: UUID, state: WorkState, outcome: Outcome, wait_s: float) -> bool:
        """Store what a try came to; False when the lease was lost.

        ``wait_s`` are the seconds until the next try, or until what is over is deleted.
        """
        d = m.WebhookDelivery
        over = state is not WorkState.READY
        values = {
            "state": state,
            "status": outcome.status,
            "error_code": outcome.code,
            "error_text": outcome.text,
            "available_at": seconds_from_now(wait_s),
            "finished_at": sa.func.clock_timestamp() if over else None,
            "lease_token": None,
            "lease_until": None,
            "worker_id": None,
        }
        held = (d.delivery_id == id_, d.state == WorkState.RUNNING, d.lease_token == token)
        return self._db.execute(self._update_rows(d).where(*held).values(values)).rowcount == 1

    def drop_past(self, limit: int) -> int:
        """Delete deliveries that are over for long enough, at most ``limit``; how many."""
        return self._run(_DROP_PAST, n=limit).rowcount


def _endpoint(row: sa.Row[*tuple[Any, ...]]) -> Endpoint:
    return record_of(Endpoint, row, id=row.endpoint_id, events=tuple(map(Event, row.events)))


def _delivery(row: sa.Row[*tuple[Any, ...]]) -> Delivery:
    next_at = row.available_at.astimezone(UTC) if row.state in (WorkState.HELD, WorkState.READY) else None
    return record_of(Delivery, row, id=row.delivery_id, endpoint=row.endpoint_id, next_at=next_at)
