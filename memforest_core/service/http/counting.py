"""Requests as Prometheus metrics: how long, by operation and status; never by address, tenant or owner."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest_core.observe.prometheus import OTHER, STEP_BUCKETS_S


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
