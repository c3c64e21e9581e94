"""How many requests a key may send a minute, over all processes that serve."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from redis.asyncio import Redis
from redis.exceptions import RedisError

WINDOW_S = 60.0
TIMEOUT_S = 1.0
REST_S = 3.0
"""After a failure Redis is left alone for this long."""
MOST_KEYS = 10_000
"""Keys that a process counts by itself while Redis is unavailable."""


def open_redis(address: str) -> Redis:
    """A client for asyncio that fails within seconds; it connects on first use."""
    return Redis.from_url(
        address, decode_responses=True, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, protocol=2
    )


class Rates:
    """Counts requests in Redis by a sliding window: of the minute before counts the share that is still inside.

    While Redis is unavailable each process counts for itself, so that a key gets at most its limit from each.
    """

    def __init__(self, address: str | None, clock: Callable[[], float] = time.time) -> None:
        """``address`` is that of Redis; None: this process counts for itself."""
        self._redis = None if address is None else open_redis(address)
        self._resting_until = 0.0
        self._clock = clock
        self._own: dict[UUID, tuple[int, int, int]] = {}

    async def admit(self, key: UUID, per_minute: int) -> float:
        """Count a request; 0.0 when it may pass, else the seconds after which the next one may."""
        now = self._clock()
        window, into = divmod(now, WINDOW_S)
        before, current = await self._shared(key, int(window)) or self._alone(key, int(window))
        rate = before * (1.0 - into / WINDOW_S) + current
        if rate <= per_minute:
            return 0.0
        # The share of the window before shrinks evenly; what came in this one stays until it is over.
        if current > per_minute or before == 0:
            return WINDOW_S - into
        return min(WINDOW_S - into, (rate - per_minute) / before * WINDOW_S)

    async def close(self) -> None:
        """Close the connections."""
        if self._redis is not None:
            await self._redis.aclose()

    async def _shared(self, key: UUID, window: int) -> tuple[int, int] | None:
        """The requests of the minute before and of this one; None while Redis is unavailable."""
        if self._redis is None or self._clock() < self._resting_until:
            return None
        name = f"memforest:rate:{key}:"
        try:
            async with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.get(f"{name}{window - 1}")
                pipeline.incr(f"{name}{window}")
                pipeline.expire(f"{name}{window}", int(2 * WINDOW_S))
                before, current, _ = await pipeline.execute()
        except RedisError:
            self._resting_until = self._clock() + REST_S
            return None
        return int(before or 0), int(current)

    def _alone(self, key: UUID, window: int) -> tuple[int, int]:
        at, before, current = self._own.get(key, (window, 0, 0))
        if at != window:
            before, current = (current if at == window - 1 else 0), 0
        if len(self._own) >= MOST_KEYS:
            self._own.clear()
        self._own[key] = (window, before, current + 1)
        return before, current + 1
