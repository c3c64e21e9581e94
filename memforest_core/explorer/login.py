"""Logging in with a key, and what stands between the pages and everybody else.

The cookie of a logged-in browser holds the key itself. So it works over any number of server processes and survives
their restarts, no second kind of credential has to be stored, and a key that is revoked ends within two seconds
wherever it is used. No script can read the cookie (HttpOnly), no other site's request carries it (SameSite=Strict), it
goes over TLS only where the pages came over TLS (Secure), and it ends after twelve hours; the key is never part of a
page or an address. What a stolen browser profile gives away is then the key, which is why people who only look should
log in with a key of the scope "read".
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

COOKIE = "memforest_key"
LASTS_S = 12 * 3_600
"""A browser forgets the key after so many seconds."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Forms of our own pages name their origin only with a referrer.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every page: no script and no style but our own files, no frame around it, nothing kept."""


def remember(response: Response, request: Request, secret: str) -> None:
    """Keep a key in the browser."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=LASTS_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def forget(response: Response) -> None:
    """Take the key from the browser."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


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
