"""Logging in with a key, and what is between the pages and everybody else.

A logged-in browser has the random name of a login, and Redis has of it the hash of the key and the host of the pages:
any server process finds it there, nobody reads a key from a browser or from Redis, and no other host takes the cookie.
A key that is revoked ends its logins. No script can read the cookie (HttpOnly), no other site's request carries it
(SameSite=Strict), and over TLS it is a ``__Host-`` cookie: no other host sets it, and it never goes without TLS.
"""

from __future__ import annotations

import hashlib
import secrets
from urllib.parse import urlsplit

from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from memforest_core.errors import BrokerUnavailable
from memforest_core.service.http.gate import open_redis

LASTS_S = 12 * 3_600
"""A login ends after so many seconds."""
MOST_OWN = 10_000
"""Logins that a process holds in memory where the broker is no single Redis."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; font-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Forms of our own pages name their origin only with a referrer.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every page: no script and no style but our own files, no frame around it, nothing cached."""


class Logins:
    """Logins of browsers in Redis, or in memory of this process where the broker is behind sentinels."""

    def __init__(self, address: str | None) -> None:
        """``address`` is that of Redis."""
        self._redis = None if address is None else open_redis(address)
        self._own: dict[str, str] = {}

    async def begin(self, key_hash: bytes, host: str) -> str:
        """The name of a new login with a key at a host. Raises BrokerUnavailable."""
        token = secrets.token_urlsafe(32)
        name, value = _name(token), f"{key_hash.hex()} {host}"
        if self._redis is None:
            if len(self._own) >= MOST_OWN:
                self._own.clear()
            self._own[name] = value
        else:
            try:
                await self._redis.set(name, value, ex=LASTS_S)
            except RedisError:
                raise _unavailable() from None
        return token

    async def key_hash(self, token: str, host: str) -> bytes | None:
        """The hash of the key of a login at this host; None for none that is valid. Raises BrokerUnavailable."""
        try:
            name = _name(token)
            found = self._own.get(name) if self._redis is None else await self._redis.get(name)
        except RedisError:
            raise _unavailable() from None
        key_hash, _, own = str(found or "").partition(" ")
        return bytes.fromhex(key_hash) if key_hash and own == host else None

    async def end(self, token: str) -> None:
        """End a login. Raises BrokerUnavailable."""
        self._own.pop(_name(token), None)
        try:
            if self._redis is not None:
                await self._redis.delete(_name(token))
        except RedisError:
            raise _unavailable() from None

    async def close(self) -> None:
        """Close the connections."""
        if self._redis is not None:
            await self._redis.aclose()


def _name(token: str) -> str:
    return f"memforest:login:{hashlib.sha256(token.encode()).hexdigest()}"


def _unavailable() -> BrokerUnavailable:
    return BrokerUnavailable("Redis, which has the logins, does not answer: try again when it does.")


def host_of(request: Request) -> str:
    """The host and port at which a browser has the pages."""
    return request.headers.get("host", "")


def cookie_of(request: Request) -> str:
    """The cookie's name. Cookies go to all ports of a host: a server at another port has another name."""
    name = f"memforest_{hashlib.sha256(host_of(request).encode()).hexdigest()[:8]}"
    return f"__Host-{name}" if request.url.scheme == "https" else name


def remember(response: Response, request: Request, token: str) -> None:
    """Store a login in the browser."""
    secure = request.url.scheme == "https"
    response.set_cookie(
        cookie_of(request), token, max_age=LASTS_S, path="/", httponly=True, samesite="strict", secure=secure
    )


def forget(response: Response, request: Request) -> None:
    """Take the login from the browser."""
    secure = request.url.scheme == "https"
    response.delete_cookie(cookie_of(request), path="/", httponly=True, samesite="strict", secure=secure)


def own_form(request: Request) -> bool:
    """Whether a form was sent by a page of this server: browsers say where a request comes from."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")


def next_page(wanted: str) -> str:
    """Where to go after logging in: an address of this server, or else the first page."""
    safe = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if safe else "/"
