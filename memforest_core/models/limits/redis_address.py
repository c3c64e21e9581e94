"""The address of the broker as the Redis client reads it."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

TIMEOUT_S = 0.5
"""Of connecting and of an answer, each: limits must not cost more than they save."""


def client_address(broker_url: str) -> str | None:
    """The client's URL for Celery's; None for sentinels, whose master's name no broker URL tells.

    Of several addresses (``a;b``) the first is taken.
    """
    url = broker_url.split(";")[0]
    parts = urlsplit(url)
    if parts.scheme == "sentinel":
        return None
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "redis+socket":
        database = query.get("virtual_host", query.get("db", "0"))
        return f"unix://{parts.netloc}{parts.path}?db={database}"
    if "ssl_cert_reqs" in query:
        query["ssl_cert_reqs"] = query["ssl_cert_reqs"].lower().removeprefix("cert_")
        return urlunsplit(parts._replace(query=urlencode(query)))
    return url


def open_redis(address: str) -> Redis:
    """A client that fails within a second; it connects on first use. Thread-safe."""
    return Redis.from_url(
        address,
        decode_responses=True,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        # A connection that the server has closed meanwhile is opened again; a timeout is not repeated.
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        protocol=2,
    )
