"""What each request passes before anything of it is read: its key, its rate, the size and the pace of its body."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest_core.client.async_calls import Threads
from memforest_core.errors import MemForestError
from memforest_core.service.http.problems import Problem, Refused, answer, problem_of
from memforest_core.service.keys.records import Caller
from memforest_core.service.keys.service import Callers

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


CALLER = "memforest.caller"
"""Where a request's scope has the caller."""
KINDS = ("bearer", "token")
"""What a key is sent as; clients of mem0 send ``Token``."""


T = TypeVar("T")

ADMISSION = "memforest.admission"
"""Where a request's scope has the admission of its key."""
CHECK_S = 0.5
"""What runs on for a key is ended so long after this process knows of its revocation."""
SLACK_S = 20.0
"""A body may fall so far behind its pace while the app waits for it."""
BYTES_A_SECOND = 1_024
"""The pace of a body."""
STREAM_SLACK_S = 60.0
"""A stream of sessions may be silent for so long; it has no pace."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What requests may be."""

    body_bytes: int
    requests_per_minute: int
    streams_per_key: int
    others: Mapping[str, float]
    """Bytes of bodies of paths that have a limit of their own; infinite for streams."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The key of one request, for as long as the request takes."""

    secret: str = field(repr=False)
    callers: Callers
    rates: Rates
    limits: Limits
    threads: Threads

    async def caller(self) -> Caller:
        """Whose key it is. Raises Refused for a key that is not valid (any more), StoreUnavailable."""
        caller = self.callers.known(self.secret)
        if caller is None and self.secret:
            caller = await self.threads.run(self.callers.find, self.secret)
        if caller is None:
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                "Send a key that is not revoked as Authorization: Bearer KEY; memforest keys create makes one.",
            )
        return caller

    async def count(self) -> Caller:
        """Count one request of the key. Raises Refused when it has used up its rate, and as ``caller`` does."""
        caller = await self.caller()
        wait_s = await self.rates.admit(caller.key_id, caller.requests_per_minute or self.limits.requests_per_minute)
        if wait_s > 0:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "rate_limited",
                "This key has sent its requests of this minute.",
                retry_after=wait_s,
            )
        return caller

    async def during(self, awaited: Awaitable[T]) -> T:
        """A result that may take long. Cancels it and raises Refused when the key is revoked meanwhile."""
        task = asyncio.ensure_future(awaited)
        try:
            while not (await asyncio.wait({task}, timeout=CHECK_S))[0]:
                await self.caller()
            await self.caller()
            return await task
        finally:
            task.cancel()


@dataclass(frozen=True, slots=True)
class Gate:
    """ASGI middleware over all requests; those of guarded paths need a key."""

    app: ASGIApp
    callers: Callers
    rates: Rates
    limits: Limits
    threads: Threads
    guarded: Callable[[str], bool]
    """Whether a path needs a key."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer with a problem."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, admission = Headers(scope=scope), None
        guarded = self.guarded(scope["path"])
        send = _headed(send, private=guarded)
        try:
            if guarded:
                kind, _, secret = headers.get("authorization", "").partition(" ")
                admission = Admission(
                    secret.strip() if kind.lower() in KINDS else "", self.callers, self.rates, self.limits, self.threads
                )
                scope[CALLER] = await admission.count()
                scope[ADMISSION] = admission
            most = self.limits.others.get(scope["path"], self.limits.body_bytes)
            body = _Body(receive, send, headers, most, admission, scope["path"])
        except (Refused, MemForestError) as error:
            await answer(problem_of(error), scope["path"])(scope, receive, send)
            return
        with suppress(ClientDisconnect):  # no error: nobody reads the answer
            await self.app(scope, body.receive, body.send)


def _headed(send: Send, *, private: bool) -> Send:
    """``send`` for answers that no cache stores, if they are ``private``, and whose redirects name no scheme and host:
    behind a proxy these are not what the client knows."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            if private:
                headers["Cache-Control"] = "no-store"
            if (to := urlsplit(headers.get("location", ""))).netloc:
                headers["Location"] = urlunsplit(("", "", to.path, to.query, ""))
        await send(message)

    return sent


class _Body:
    """The body of one request: its bytes and its pace are bounded, and it ends with its key.

    A body that breaks a bound is answered, whatever reads it makes of that.
    """

    def __init__(
        self, receive: Receive, send: Send, headers: Headers, most: float, admission: Admission | None, path: str
    ) -> None:
        """Raises Refused at once for a length that is announced."""
        announced = headers.get("content-length", "0")
        if not announced.isdigit() or int(announced) > most:
            raise _too_long(most)
        self._receive = receive
        self._send = send
        self._most = most
        self._admission = admission
        self._path = path
        self._got = 0
        self._whole = False
        self._slack_s = self._most_slack_s = STREAM_SLACK_S if most == math.inf else SLACK_S
        self._pace = 1 if most == math.inf else BYTES_A_SECOND
        self._refused: Problem | None = None
        self._started = False

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            return await self._next()
        except (Refused, MemForestError) as error:
            self._refused = problem_of(error)
            raise

    async def _next(self) -> Message:
        loop = asyncio.get_running_loop()
        began = loop.time()
        coming = self._receive()
        try:
            async with asyncio.timeout(self._slack_s):
                message = await (coming if self._admission is None else self._admission.during(coming))
        except TimeoutError:
            raise Refused(
                HTTPStatus.REQUEST_TIMEOUT,
                "request_too_slow",
                f"Send at least {self._pace:,} bytes a second, and pause for less than {self._most_slack_s:.0f} s.",
            ) from None
        got = len(message.get("body", b""))
        self._got += got
        self._slack_s = min(self._most_slack_s, self._slack_s - (loop.time() - began) + got / self._pace)
        self._whole = not message.get("more_body", False)
        if self._got > self._most:
            raise _too_long(self._most)
        return message

    async def send(self, message: Message) -> None:
        if self._refused is None or self._started:
            self._started = True
            await self._send(message)
        elif message["type"] == "http.response.start":
            await answer(self._refused, self._path)({"type": "http"}, self._receive, self._send)


def _too_long(most: float) -> Refused:
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body_too_long",
        f"Send at most {most:,.0f} bytes in one request, or split it.",
    )
