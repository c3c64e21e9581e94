"""A worker that is configured by ``memforest_workers.celeryconfig`` carries ids as JSON on four known queues, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery
from kombu.exceptions import ContentDisallowed, EncodeError
from kombu.serialization import dumps, loads

from memforest_core.work.messages import Queue


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("test", set_as_current=False) as configured:
        configured.config_from_object("memforest_workers.celeryconfig")
        yield configured


def test_a_worker_knows_the_four_queues_and_no_other(app: Celery) -> None:
    """Given a misspelt queue, when a worker is to consume it, then it fails instead of waiting for ever."""
    assert set(app.amqp.queues) == {queue.value for queue in Queue}
    with pytest.raises(KeyError):
        app.amqp.queues.select(["extrakt"])


def test_messages_are_json(app: Celery) -> None:
    """Given a message, then it is written as JSON, and no other kind is read."""
    with pytest.raises(EncodeError):
        dumps(object(), serializer=app.conf.task_serializer)  # type: ignore[no-untyped-call]
    with pytest.raises(ContentDisallowed):
        loads(b"", "application/x-python-serialize", "binary", accept=app.conf.accept_content)  # type: ignore[no-untyped-call]


def test_a_message_is_done_when_it_was_seen(app: Celery) -> None:
    """Rows are the work: no result is stored, nothing is redelivered, and workers hoard no messages."""
    assert app.conf.result_backend is None
    assert app.conf.task_ignore_result is True
    assert app.conf.task_acks_late is False
    assert app.conf.worker_prefetch_multiplier == 1


def test_a_worker_waits_for_an_unavailable_broker(app: Celery) -> None:
    """Given no broker, at the start or later, then a worker tries to connect without end."""
    assert app.conf.broker_connection_retry_on_startup is True
    assert app.conf.broker_connection_max_retries is None
