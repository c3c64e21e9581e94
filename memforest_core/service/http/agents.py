"""``/mcp``: the tools over streamable HTTP, for callers with a key."""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context as Call
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest_core.service.http.endpoints import Memories
from memforest_core.service.http.gate import CALLER
from memforest_core.service.keys.records import Caller
from memforest_core.service.mcp.tools import Asker, make_server

PATH = "/mcp"


def make_endpoint(memories: Memories) -> tuple[MCPServer[Any], list[BaseRoute]]:
    """The server, whose ``session_manager`` runs as long as the app, and its routes."""

    def asker_of(call: Call[Any, Any]) -> Asker:
        caller: Caller = call.request_context.request.scope[CALLER]  # type: ignore[union-attr]
        return Asker(memories.of(caller.tenant), caller, caller.only_owner or "")

    server = make_server(asker_of)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
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
