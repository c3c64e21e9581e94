"""The pages' routes: who visits, what they see, and how it is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import TypeAlias
from urllib.parse import parse_qsl

import structlog
from starlette.middleware import Middleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from memforest_core.client.api import MemForest
from memforest_core.client.async_calls import Threads
from memforest_core.errors import InvalidInput, MemForestError, place_of
from memforest_core.service.explorer import ask_page, facts_page, graph_page, owner_pages, states_page, tree_pages, work
from memforest_core.service.explorer import memory as pages
from memforest_core.service.explorer.login import (
    HEADERS,
    Logins,
    cookie_of,
    forget,
    host_of,
    next_page,
    own_form,
    remember,
)
from memforest_core.service.explorer.overview import overview
from memforest_core.service.explorer.page_requests import Moved, Page, Shown, Visit, href, rendered
from memforest_core.service.http.gate import Rates
from memforest_core.service.http.problems import Problem, Refused, problem_of
from memforest_core.service.keys.records import Caller
from memforest_core.service.keys.service import Callers, hashed

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

log = structlog.get_logger(__name__)

MAX_FORM_BYTES = 65_536
MAX_FIELDS = 100
MAX_SECRET_CHARS = 256
STATIC = {
    "drawings.js": "text/javascript; charset=utf-8",
    "explorer.css": "text/css; charset=utf-8",
    "drawings.css": "text/css; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "d3.min.js": "text/javascript; charset=utf-8",
    "pages.js": "text/javascript; charset=utf-8",
    "inter.woff2": "font/woff2",
    "icon.svg": "image/svg+xml",
}

PAGES: dict[str, Page] = {
    "/": overview,
    "/search": facts_page.search,
    "/owners": work.owners,
    "/owner": owner_pages.owner,
    "/states": states_page.states,
    "/facts": facts_page.facts,
    "/graph": graph_page.graph,
    "/topics": owner_pages.topics,
    "/days": pages.days,
    "/trees": tree_pages.trees,
    "/tree": tree_pages.tree,
    "/node": tree_pages.node,
    "/session": pages.session,
    "/fact": pages.fact,
    "/forget": pages.forget_page,
    "/ask": ask_page.ask,
    "/context": pages.context,
    "/operations": work.operations,
    "/operation": work.operation,
    "/audit": work.audit,
    "/policies": work.policies,
    "/dead": work.letters,
    "/costs": work.costs,
}
"""What is looked at."""
FORMS: dict[str, Page] = {
    "/forget": pages.forget,
    "/correct": pages.correct,
    "/pin": pages.pin,
    "/dead/retry": work.retry,
    "/dead/discard": work.discard,
    "/operation/cancel": work.cancel,
    "/policies": work.set_policy,
    "/policies/clear": work.clear,
}
"""What is done."""


@dataclass(frozen=True, slots=True)
class Explorer:
    """Answers the requests of browsers."""

    memory: MemForest
    threads: Threads
    callers: Callers
    rates: Rates
    logins: Logins
    requests_per_minute: int

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """All pages, forms and files."""
        found = [
            ("GET", "/static/{name}", _static),
            ("GET", "/login", _login_page),
            ("POST", "/login", self._log_in),
            ("POST", "/logout", self._log_out),
            *(("GET", path, self._page(page)) for path, page in PAGES.items()),
            *(("POST", path, self._page(page)) for path, page in FORMS.items()),
        ]
        caught = [Middleware(ServerErrorMiddleware, handler=_unexpected)]
        return [Route(path, _caught(called), methods=[verb], middleware=caught) for verb, path, called in found]

    def _page(self, page: Page) -> Endpoint:
        async def called(request: Request) -> Response:
            form = await _form(request) if request.method == "POST" else {}
            caller = request.state.caller = await self._caller(request)
            if caller is None:
                return _to_login(request)
            return await self.threads.run(self._made, caller, request, page, form)

        return called

    def _made(self, caller: Caller, request: Request, page: Page, form: dict[str, str]) -> Response:
        """A page for a valid key. Blocks. Raises Refused, MemForestError."""
        if any("\x00" in value for value in (*request.query_params.values(), *form.values())):
            raise InvalidInput("Remove the NUL characters.", code="nul_character")
        visit = Visit(caller, self.memory.for_tenant(caller.tenant), dict(request.query_params), form)
        outcome = page(visit)
        return _moved(outcome.to) if isinstance(outcome, Moved) else _shown(outcome, caller, visit)

    async def _caller(self, request: Request) -> Caller | None:
        """With whose key the browser is logged in; None without a valid one. Raises Refused, StoreUnavailable."""
        token = request.cookies.get(cookie_of(request), "")
        key_hash = await self.logins.key_hash(token, host_of(request)) if token else None
        caller = await self.threads.run(self.callers.find_hashed, key_hash) if key_hash else None
        if caller is None:
            return None
        wait_s = await self.rates.admit(caller.key_id, caller.requests_per_minute or self.requests_per_minute)
        if wait_s > 0:
            sentence = "This key has sent its requests of this minute: wait a moment."
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "rate_limited", sentence, retry_after=wait_s)
        return caller

    async def _log_in(self, request: Request) -> Response:
        form = await _form(request)
        secret, wanted = form.get("key", "").strip(), form.get("next", "/")
        found = await self.threads.run(self.callers.find, secret) if len(secret) <= MAX_SECRET_CHARS else None
        if found is None:
            return _login(wanted, "This key is not valid. Check for typing errors, or whether it was revoked.")
        token = await self.logins.begin(hashed(secret), host_of(request))
        response = _moved(next_page(wanted))
        remember(response, request, token)
        return response

    async def _log_out(self, request: Request) -> Response:
        await _form(request)
        await self.logins.end(request.cookies.get(cookie_of(request), ""))
        response = _moved("/login")
        forget(response, request)
        return response


def _caught(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose errors are pages."""

    async def called(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (Refused, MemForestError) as error:
            return _failed(problem_of(error), getattr(request.state, "caller", None))

    return called


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form that one of our own pages has sent. Raises Refused."""
    if not own_form(request):
        sentence = "This form was not sent by a page of this server: open the page here and try again."
        raise Refused(HTTPStatus.FORBIDDEN, "foreign_form", sentence)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM_BYTES:
            sentence = f"Send at most {MAX_FORM_BYTES:,} bytes in one form."
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_long", sentence)
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        sentence = "Send the fields of the form as its page does."
        raise Refused(HTTPStatus.BAD_REQUEST, "invalid_form", sentence) from None
    return dict(fields)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise Refused(HTTPStatus.NOT_FOUND, "not_found", "There is no such file.")
    body = (files("memforest_core.service.explorer") / "static" / name).read_bytes()
    return Response(body, media_type=STATIC[name], headers={**HEADERS, "Cache-Control": "public, max-age=86400"})


def _shown(shown: Shown, caller: Caller | None = None, visit: Visit | None = None) -> Response:
    values = {"caller": caller, "visit": visit, **shown.values}
    return Response(rendered(shown.template, values), shown.status, HEADERS, "text/html; charset=utf-8")


async def _login_page(request: Request) -> Response:
    return _login(request.query_params.get("next", "/"))


def _login(wanted: str, refused: str = "") -> Response:
    status = HTTPStatus.UNAUTHORIZED if refused else HTTPStatus.OK
    return _shown(Shown("login.html", {"next": next_page(wanted), "refused": refused}, status))


def _failed(problem: Problem, caller: Caller | None = None) -> Response:
    response = _shown(Shown("problem.html", {"problem": problem}, HTTPStatus(problem.status)), caller)
    if problem.retry_after is not None:
        response.headers["Retry-After"] = str(max(1, round(problem.retry_after)))
    return response


async def _unexpected(request: Request, error: Exception) -> Response:
    # The message may quote what was said: only the place is logged.
    log.error("page_failed", path=request.url.path, **place_of(error))
    sentence = "Something went wrong here; the server's log says where."
    return _failed(Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", sentence).problem)


def _to_login(request: Request) -> Response:
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    to = href("/login", next=wanted if request.method == "GET" and wanted != "/" else None)
    if "hx-request" in request.headers:
        # htmx would put the form into the middle of the page.
        return Response(headers={**HEADERS, "HX-Redirect": to})
    return _moved(to)


def _moved(to: str) -> Response:
    return RedirectResponse(to, HTTPStatus.SEE_OTHER, HEADERS)
