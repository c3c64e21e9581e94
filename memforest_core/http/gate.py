"""What each request passes before anything of it is read: its key, its rate, and the size of its body."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit, urlunsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest_core.async_calls import Threads
from memforest_core.errors import MemForestError
from memforest_core.http.problems import Refused, answer, problem_of
from memforest_core.http.rates import Rates
from memforest_core.keys.records import Caller
from memforest_core.keys.service import Callers

CALLER = "memforest.caller"
"""Where a request's scope has the caller."""
KINDS = ("bearer", "token")
"""What a key is sent as; clients of mem0 send ``Token``."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may be."""

    body_bytes: int
    requests_per_minute: int


class Gate:
    """ASGI middleware over what needs a key."""

    def __init__(
        self,
        app: ASGIApp,
        callers: Callers,
        rates: Rates,
        limits: Limits,
        threads: Threads,
        guarded: Callable[[str], bool],
        unbounded: frozenset[str],
    ) -> None:
        """``guarded`` says of a path whether it needs a key; bodies of ``unbounded`` paths may have any length."""
        self._app = app
        self._callers = callers
        self._rates = rates
        self._limits = limits
        self._threads = threads
        self._guarded = guarded
        self._unbounded = unbounded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guarded = self._guarded(scope["path"])
        send = _headed(send, private=guarded)
        if not guarded:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            caller = await self._admitted(headers)
            body = None if scope["path"] in self._unbounded else _Body(receive, send, headers, self._limits.body_bytes)
        except Refused as error:
            await answer(error.problem)(scope, receive, send)
            return
        except MemForestError as error:
            await answer(problem_of(error))(scope, receive, send)
            return
        scope[CALLER] = caller
        with suppress(ClientDisconnect):  # no error: nobody reads the answer
            if body is None:
                await self._app(scope, receive, send)
            else:
                await self._app(scope, body.receive, body.send)

    async def _admitted(self, headers: Headers) -> Caller:
        """Who sends a request with these headers. Raises Refused, StoreUnavailable."""
        kind, _, secret = headers.get("authorization", "").partition(" ")
        secret = secret.strip() if kind.lower() in KINDS else ""
        caller = self._callers.known(secret)
        if caller is None and secret:
            caller = await self._threads.run(self._callers.find, secret)
        if caller is None:
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                "Send a key that is not revoked as Authorization: Bearer KEY; memforest keys create makes one.",
            )
        wait_s = await self._rates.admit(caller.key_id, caller.requests_per_minute or self._limits.requests_per_minute)
        if wait_s > 0:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "rate_limited",
                "This key has sent its requests of this minute.",
                retry_after=wait_s,
            )
        return caller


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
    """The body of one request, of at most ``most`` bytes; a longer one is answered, whatever reads it makes of that."""

    def __init__(self, receive: Receive, send: Send, headers: Headers, most: int) -> None:
        """Raises Refused at once for a length that is announced."""
        announced = headers.get("content-length", "0")
        if not announced.isdigit() or int(announced) > most:
            raise _too_long(most)
        self._receive = receive
        self._send = send
        self._most = most
        self._got = 0
        self._answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._got += len(message.get("body", b""))
        if self._got > self._most:
            raise _too_long(self._most)
        return message

    async def send(self, message: Message) -> None:
        if self._got <= self._most:
            await self._send(message)
        elif not self._answered:
            self._answered = True
            await answer(_too_long(self._most).problem)({"type": "http"}, self._receive, self._send)


def _too_long(most: int) -> Refused:
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body_too_long",
        f"Send at most {most:,} bytes in one request, or split it.",
    )
