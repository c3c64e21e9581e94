"""Listening: what the socket is, and what a taken address says."""

from __future__ import annotations

import html
import re
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


@pytest.mark.parametrize(
    "verb,path,given,sentence",
    [
        (
            "POST",
            "/v1/sessions",
            {"owner": "a", "session_id": "s", "turnss": []},
            "field `turnss` is unknown: did you mean `turns`?",
        ),
        ("POST", "/v1/recall", {"ownr": "a", "question": "Where?"}, "field `ownr` is unknown: did you mean `owner`?"),
        ("GET", "/v1/dead", {"limitt": 3}, "field `limitt` is unknown: did you mean `limit`?"),
        ("POST", "/v1/context", {"owner": "a", "zzz": 1}, "field `zzz` is unknown: known are owner, session,"),
        ("PUT", "/v1/quota", {"limits": {"max_waitin": 1}}, "field `limits.max_waitin` is unknown."),
        ("POST", "/v1/recall", {"owner": "a", "k": "x"}, "k: Input should be a valid integer"),
        ("POST", "/v1/turns", {"owner": "a", "session_id": "s"}, "field `turn` is missing."),
        (
            "POST",
            "/v1/sessions/stream",
            {"owner": "a", "sesion_id": "s"},
            "field `sesion_id` is unknown: did you mean `session_id`?",
        ),
    ],
)
def test_a_wrong_field_names_the_right_one(
    node: Node, verb: str, path: str, given: dict[str, object], sentence: str
) -> None:
    headers, sent = {"Authorization": f"Bearer {node.key()}"}, {"params" if verb == "GET" else "json": given}
    answered = httpx.request(verb, node.address + path, headers=headers, **sent).json()  # type: ignore[arg-type]
    assert answered.get("problem", answered)["detail"].startswith(f"Fix the request: {sentence}")


def test_the_reference_is_a_page_of_this_server_alone(node: Node) -> None:
    """Given no key or any, then all operations of the document are shown, by no script and no file from elsewhere."""
    document = httpx.get(f"{node.address}/openapi.json").json()
    for headers in ({}, {"Authorization": f"Bearer {node.key()}"}):
        answered = httpx.get(f"{node.address}/docs", headers=headers)
        page = answered.text
        named = {each["operationId"] for path in document["paths"].values() for each in path.values()}
        assert {name for name in named if f'<details id="{name}">' not in page} == set()
        assert "script-src 'self'" in answered.headers["content-security-policy"]
        linked = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert all(each[0] in "/#" for each in linked)
        assert {httpx.get(node.address + each).status_code for each in linked if each.startswith("/static")} == {200}
    assert "An owner&#39;s forest as a file" in page and '"question": "Where does Alice live?"' in html.unescape(page)
