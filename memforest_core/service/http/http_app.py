"""The app that answers requests: routes, health, tools of agents, and the middleware before them."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from mcp.server import MCPServer
from mcp.server.mcpserver import Context as Call
from mcp.server.transport_security import TransportSecuritySettings
from prometheus_client import CollectorRegistry, Histogram
from starlette.responses import HTMLResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest_core import __version__
from memforest_core.client.api import MemForest
from memforest_core.client.async_calls import Threads
from memforest_core.client.remote.records import KeyAnswer
from memforest_core.client.route_table import BUNDLE, FOLDERS, PREFIX
from memforest_core.models.limits.call_limits import client_address
from memforest_core.observe.prometheus import OTHER, STEP_BUCKETS_S
from memforest_core.service.explorer.explorer_app import Explorer
from memforest_core.service.explorer.login import HEADERS, Logins
from memforest_core.service.gateway import http as gateway
from memforest_core.service.http import endpoints, mem0, problems, streams
from memforest_core.service.http.api_reference import reference_page
from memforest_core.service.http.endpoints import Memories
from memforest_core.service.http.gate import CALLER, Gate, Limits, Rates
from memforest_core.service.keys.records import Caller
from memforest_core.service.keys.service import Callers
from memforest_core.service.mcp.tools import Asker, make_server
from memforest_core.store.schema import check_ready


class Counted:
    """ASGI middleware around everything, also around what the gate refuses."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        self._seconds = Histogram(
            "memforest_http_request_duration_seconds",
            "Time from a request's head to the end of its answer, waiting included.",
            ("operation", "status"),
            buckets=STEP_BUCKETS_S,
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note how it ended; 499 when the client closed before an answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 499

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            operation = getattr(scope.get("route"), "operation_id", None) or OTHER
            self._seconds.labels(operation, str(int(status))).observe(time.perf_counter() - started)


MCP_PATH = "/mcp"


def make_endpoint(memories: Memories) -> tuple[MCPServer[Any], list[BaseRoute]]:
    """The server, whose ``session_manager`` runs as long as the app, and its routes."""

    def asker_of(call: Call[Any, Any]) -> Asker:
        caller: Caller = call.request_context.request.scope[CALLER]  # type: ignore[union-attr]
        return Asker(memories.of(caller.tenant), caller, caller.only_owner or "")

    server = make_server(asker_of)
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        # No state between requests: any process answers any of them.
        stateless_http=True,
        json_response=True,
        # A request without a key never comes here, and browsers send none to foreign hosts.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    for route in app.routes:
        if isinstance(route, Route):
            route.app = _once_received(route.app)
    return server, list(app.routes)


def _once_received(app: ASGIApp) -> ASGIApp:
    """``app`` for requests whose body is complete: the library logs an error when a client closes before that."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        body: Message = {"type": "http.request", "body": await Request(scope, receive).body()}
        messages = iter([body])

        async def received() -> Message:
            return next(messages, None) or await receive()

        await app(scope, received, send)

    return answered


MEBIBYTE = 1 << 20
ABOUT = (
    "Long-term memory for LLM agents. Send a key as `Authorization: Bearer KEY`; the tenant comes from the key. "
    "Errors are problems (RFC 9457) with a stable `code`. A session that is sent again under its id changes nothing."
)
_HEAD: Mapping[str, Any] = {
    "title": "MemForest",
    "version": __version__,
    "description": ABOUT,
    "openapi_url": "/openapi.json",
    "docs_url": None,
    "redoc_url": None,
}


def make_app(memory: MemForest, registry: CollectorRegistry | None = None) -> FastAPI:
    """The service over a memory, which it does not close. Each tenant is reached with keys of its own.

    Requests are counted in the ``registry``, if there is one.
    """
    settings = memory.settings
    threads = Threads(settings.server.threads)
    memories = endpoints.Memories(memory, threads)
    tools, tool_routes = make_endpoint(memories)
    redis = client_address(settings.broker.url.get_secret_value())
    rates, logins = Rates(redis), Logins(redis)

    @asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        async with tools.session_manager.run():
            yield
        await rates.close()
        await logins.close()
        await threads.close(lambda: None)

    app = _with_operations(FastAPI(**_HEAD, lifespan=running), memories)
    problems.register(app)
    gateway.register(app, memories, settings.gateway)
    callers = Callers(memory.services.engine)
    own = settings.server
    others = {PREFIX + BUNDLE: own.max_bundle_mb * MEBIBYTE, PREFIX + streams.BULK.path: math.inf}
    limits = Limits(int(own.max_body_mb * MEBIBYTE), own.requests_per_minute, own.streams_per_key, others)
    app.add_middleware(
        Gate,
        callers=callers,
        rates=rates,
        limits=limits,
        threads=threads,
        guarded=lambda path: path.startswith((PREFIX + "/", *mem0.PREFIXES, problems.OPENAI)) or path == MCP_PATH,
    )
    if registry is not None:
        app.add_middleware(Counted, registry=registry)
    app.router.routes.extend(tool_routes)

    async def check() -> None:
        await threads.run(check_ready, memory.services.engine)

    _add_health(app, check)
    app.router.routes.extend(Explorer(memory, threads, callers, rates, logins, limits.requests_per_minute).routes)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    shown = cache(lambda: reference_page(app.openapi()))
    app.router.add_route("/docs", lambda _: HTMLResponse(shown(), headers=HEADERS), methods=["GET"])
    return app


def openapi() -> dict[str, Any]:
    """The OpenAPI document, as every server has it; needs no settings and opens nothing."""
    app = _with_operations(FastAPI(**_HEAD), endpoints.Memories(None, None))
    _add_health(app, _never)
    return _document(app)


async def _never() -> None:
    raise NotImplementedError


def _with_operations(app: FastAPI, memories: endpoints.Memories) -> FastAPI:
    """Everything below /v1."""
    router = APIRouter(prefix=PREFIX)
    streams.register_files(router, memories)
    streams.register(router, memories)

    @router.get("/key", operation_id="key", summary="What the key of the request is.", responses={**problems.RESPONSES})
    async def key(request: Request) -> KeyAnswer:
        caller = endpoints.caller_of(request)
        return KeyAnswer(caller.tenant, caller.name, caller.scope.value, caller.owners)

    app.include_router(router, tags=["operations"])
    for tag, routes in FOLDERS.items():
        router = APIRouter(prefix=PREFIX)
        for route in routes:
            endpoints.add(router, route, memories, tag)
        app.include_router(router)
    mem0.register(app, memories)  # after ours: what we serve is never taken for a path of mem0's
    return app


def _add_health(app: FastAPI, check: Callable[[], Awaitable[None]]) -> None:
    @app.get("/health", tags=["health"], operation_id="health", summary="Whether the process answers.")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @app.get(
        "/ready",
        tags=["health"],
        operation_id="ready",
        summary="Whether requests can be served.",
        responses={503: problems.RESPONSES[503]},
    )
    async def ready() -> dict[str, str]:
        """Postgres answers and has this version's schema."""
        await check()
        return {"status": "ok"}


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the keys that each operation needs."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = FastAPI.openapi(app)
    parts = document.setdefault("components", {})
    parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": "memforest keys create"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path.startswith(PREFIX + "/"):
                operation["security"] = [{"key": []}]
            for status, response in operation.get("responses", {}).items():
                # FastAPI lists a problem under application/json too.
                if int(status) >= HTTPStatus.BAD_REQUEST:
                    response.get("content", {}).pop(endpoints.JSON, None)
    app.openapi_schema = document
    return document
