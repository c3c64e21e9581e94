"""What a worker accepts from the broker: its own wake-ups, and nothing that could stop it.

A message that can't be read is dropped and counted: rows are the work, so a lost wake-up costs at most one round of the
reconciler, while an exception inside Celery's event loop would end the worker.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import structlog
from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.transport import redis
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from memforest_core.work.messages import TASK_NAMES, Queue

log = structlog.get_logger(__name__)

MAX_BODY_CHARS = 16_384
"""Of an encoded body; a wake-up has about 200."""

NAMES = frozenset(TASK_NAMES.values())
QUEUES = frozenset(queue.value for queue in Queue)

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What reading hostile JSON raises: kombu rebuilds dates, numbers and the like from it."""

Dropped = Callable[[str], None]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Delivery(_Loose):
    exchange: str = ""
    routing_key: str = ""


class _Properties(_Loose):
    delivery_tag: str = Field(max_length=255)
    delivery_info: _Delivery
    body_encoding: str | None = None


class _Headers(_Loose):
    task: str
    id: str = Field(max_length=255)
    compression: None = None
    eta: None = None
    expires: None = None


class _WakeUp(_Loose):
    """A message as a producer of this product writes it."""

    body: str = Field(max_length=MAX_BODY_CHARS)
    headers: _Headers
    properties: _Properties


class _Any(_Loose):
    """A message of Celery's own (remote control): what the transport itself relies on."""

    headers: dict[str, Any] | None = None
    properties: _Properties


class _Arguments(_Loose):
    tenant: str = Field(max_length=255)
    ref: str = Field(default="", max_length=255)


_Body = tuple[list[str], dict[str, str], object]
_BODY: TypeAdapter[_Body] = TypeAdapter(_Body)


def readable(message: object) -> dict[str, Any] | None:
    """A wake-up, rebuilt from the parts of a message that are ours; None when it is none.

    Headers and options that no producer of this product sends (callbacks, compression, an expiry) do not get through.
    """
    try:
        found = _WakeUp.model_validate(message)
        arguments = _arguments(found)
    except UNREADABLE:  # a ValidationError is a ValueError
        return None
    if found.headers.task not in NAMES:
        return None
    body = json.dumps([[], arguments.model_dump(), {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
    call = {"argsrepr": "()", "kwargsrepr": repr(arguments.model_dump())}
    return {
        "body": base64.b64encode(body.encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"lang": "py", "task": found.headers.task, "id": found.headers.id, "root_id": found.headers.id}
        | {"parent_id": None, "group": None, "retries": 0, "timelimit": [None, None], "eta": None, "expires": None}
        | call,
        "properties": {
            "correlation_id": found.headers.id,
            "delivery_tag": found.properties.delivery_tag,
            "delivery_info": found.properties.delivery_info.model_dump(),
            "delivery_mode": 2,
            "priority": 0,
            "body_encoding": "base64",
        },
    }


def _arguments(found: _WakeUp) -> _Arguments:
    """Raises what UNREADABLE names."""
    if found.properties.body_encoding != "base64":
        raise ValueError("The body is not in base64.")
    positional, named, _ = _BODY.validate_json(base64.b64decode(found.body, validate=True))
    return _Arguments.model_validate(dict(zip(("tenant", "ref"), positional, strict=False)) | named)


class _ReadingChannel:
    """Drops what is no JSON before it reaches Celery's event loop."""

    connection: Any

    def _brpop_read(self, **options: Any) -> Any:
        self.connection.delivering = False
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]
        except UNREADABLE:
            if self.connection.delivering:
                raise  # the message could be read: something else is wrong
            self.connection.drop("")
            return True


class _ReadingTransport:
    """Drops what is no wake-up before Celery sees it."""

    client: GuardedConnection
    delivering = False

    def _deliver(self, message: object, queue: str) -> None:
        delivered = readable(message) if queue in QUEUES else message
        try:
            _Any.model_validate(delivered)
        except UNREADABLE:
            self.drop(queue)
            return
        self.delivering = True
        super()._deliver(delivered, queue)  # type: ignore[misc]

    def drop(self, queue: str) -> None:
        log.warning("message_dropped", queue=queue)
        self.client.dropped(queue)


class _Channel(_ReadingChannel, redis.Channel):
    """Of a Redis server."""


class _Transport(_ReadingTransport, redis.Transport):  # type: ignore[misc]
    Channel = _Channel


class _SentinelChannel(_ReadingChannel, redis.SentinelChannel):
    """Of Redis servers that Sentinel watches."""


class _SentinelTransport(_ReadingTransport, redis.SentinelTransport):  # type: ignore[misc]
    Channel = _SentinelChannel


_GUARDED = {redis.Transport: _Transport, redis.SentinelTransport: _SentinelTransport}


class GuardedConnection(Connection):
    """A connection whose Redis transports deliver only what can be read."""

    dropped: Dropped = staticmethod(lambda queue: None)

    def get_transport_cls(self) -> Any:
        found = super().get_transport_cls()  # type: ignore[no-untyped-call]
        return _GUARDED.get(found, found)


def messaging(dropped: Dropped) -> type[AMQP]:
    """Celery's messaging over guarded connections; ``dropped`` gets the queue of each message that was dropped."""
    connection = type("GuardedConnection", (GuardedConnection,), {"dropped": staticmethod(dropped)})
    return type("GuardedMessaging", (AMQP,), {"Connection": connection})
