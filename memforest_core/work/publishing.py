"""Publishing wake-ups: bounded in time, harmless when lost, ids only. Celery is imported by the first: a process that
only recalls has none."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import TenantId
from memforest_core.settings import BrokerSettings
from memforest_core.work.messages import TASK_NAMES, Queue

if TYPE_CHECKING:
    from celery import Celery
    from kombu.messaging import Producer

log = structlog.get_logger(__name__)

REST_S = 2.0
"""Seconds without another publish after one has failed; the reconciler sends the wake-ups later."""

ENOUGH = 4
"""Messages that may wait in a queue: each woken task works until nothing is left, so more would find no work."""


def producer_app(settings: BrokerSettings) -> Celery:
    """A Celery app that can only send."""
    from celery import Celery

    app = Celery("memforest-producer", set_as_current=False, fixups=())
    timeout = settings.publish_timeout_s
    app.conf.update(
        broker_url=settings.url.get_secret_value(),
        broker_transport_options={
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            # Kombu would sleep two seconds before it tries to connect again.
            "max_retries": 1,
            "interval_start": 0,
        },
        broker_connection_timeout=timeout,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_create_missing_queues=True,
        task_send_sent_event=False,
        task_publish_retry=False,
    )
    return app


@renewed_in_child
class CeleryWakeUps:
    """WakeUps over a producer app."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._app: Celery | None = None
        self._resting_until = 0.0
        self._lock = threading.Lock()

    def send(self, queue: str, tenant: TenantId, ref: UUID | str, count: int = 1) -> bool:
        from kombu.exceptions import OperationalError
        from redis.exceptions import RedisError

        with self._lock:
            if time.monotonic() < self._resting_until:
                return False
            app = self._app = self._app or producer_app(self._settings)
        try:
            with app.producer_or_acquire() as producer:
                for _ in range(min(count, max(count, ENOUGH) - _waiting(producer, queue))):
                    app.send_task(
                        TASK_NAMES[Queue(queue)],
                        kwargs={"tenant": tenant, "ref": str(ref)},
                        queue=str(queue),
                        producer=producer,
                        retry=False,
                        ignore_result=True,
                    )
        except (OperationalError, OSError, RedisError) as error:
            log.warning("wakeup_not_sent", queue=str(queue), error=type(error).__name__)
            with self._lock:
                self._resting_until = time.monotonic() + REST_S
            return False
        return True

    def close(self) -> None:
        """Release the broker connections."""
        if self._app is not None:
            self._app.close()


def _waiting(producer: Producer, queue: str) -> int:
    """How many messages wait in a queue. Only Redis says: there it costs a fraction of a publish."""
    channel = producer.channel
    if channel.connection.client.transport.driver_type != "redis":
        return 0
    # Declaring the queue, as the same question to any broker, would take ten commands. No message has a priority.
    with channel.conn_or_acquire() as client:
        return int(client.llen(queue))
