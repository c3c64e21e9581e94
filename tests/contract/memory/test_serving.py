"""Listening: what the socket is, and what a taken address says."""

from __future__ import annotations

import socket

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from memforest_core.errors import InvalidSettings
from memforest_core.service.http.serving import HttpServer, address_of, listen
from tests.contract.memory.conftest import Node


def test_small_answers_are_not_held_back() -> None:
    """asyncio switches Nagle's algorithm off on what it knows to be TCP: the protocol has to be named."""
    opened = listen("127.0.0.1", 0)
    try:
        assert opened.proto == socket.IPPROTO_TCP
        assert address_of(opened) == f"http://127.0.0.1:{opened.getsockname()[1]}"
        with pytest.raises(InvalidSettings, match="MEMFOREST_SERVER__PORT"):
            listen("127.0.0.1", opened.getsockname()[1])
    finally:
        opened.close()


def test_requests_are_counted_by_operation_and_status(node: Node) -> None:
    """Given a registry, when requests are answered and refused, then each is counted, without whose or what it was."""
    registry = CollectorRegistry()
    server = HttpServer(node.memory, listen("127.0.0.1", 0), registry)
    server.start()
    try:
        key = {"Authorization": f"Bearer {node.key()}"}
        for _ in range(2):
            httpx.get(f"{server.address}/v1/quota", headers=key)
        httpx.get(f"{server.address}/v1/quota")
        httpx.post(f"{server.address}/v1/recall", headers=key, json={"owner": "secret-owner", "question": "Who?"})
        httpx.get(f"{server.address}/nowhere/secret-path")
    finally:
        server.stop()

    def counted(operation: str, status: int) -> float | None:
        labels = {"operation": operation, "status": str(status)}
        return registry.get_sample_value("memforest_http_request_duration_seconds_count", labels)

    assert counted("quota", 200) == 2
    assert counted("recall", 404) == 1
    assert counted("other", 401) == counted("other", 404) == 1
    assert b"secret" not in generate_latest(registry)
