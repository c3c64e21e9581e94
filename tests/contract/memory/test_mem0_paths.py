"""The paths of mem0's client as anybody can ask them: keys, tenants, scopes, owners. The client itself: make integrations."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from memforest_core.service.http import mem0
from tests.contract.memory.conftest import Node

REQUESTED: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "POST",
        "/v3/memories/add/",
        "write",
        {"json": {"messages": [{"role": "user", "content": "I sail."}], "user_id": "{owner}"}},
    ),
    ("POST", "/v3/memories/", "read", {"json": {"filters": {"user_id": "{owner}"}}}),
    ("POST", "/v3/memories/search/", "read", {"json": {"query": "What?", "filters": {"user_id": "{owner}"}}}),
    ("DELETE", "/v1/memories/", "write", {"params": {"user_id": "{owner}"}}),
    ("GET", "/v1/memories/{id}/", "read", {}),
    ("GET", "/v1/memories/{id}/history/", "read", {}),
    ("PUT", "/v1/memories/{id}/", "write", {"json": {"text": "I row."}}),
    ("DELETE", "/v1/memories/{id}/", "write", {}),
)
"""Each path, the scope that it needs, and a request."""


def filled(value: Any, **values: str) -> Any:
    """A request with an owner and a memory's id put in."""
    if isinstance(value, str):
        return value.format(**values)
    if isinstance(value, dict):
        return {name: filled(each, **values) for name, each in value.items()}
    return [filled(each, **values) for each in value] if isinstance(value, list) else value


def client(node: Node, **options: object) -> httpx.Client:
    return httpx.Client(
        base_url=node.address,
        headers={"Authorization": f"Token {node.key(**options)}"},
        timeout=60,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def stored(node: Node) -> dict[str, str]:
    """An owner with one memory."""
    owner = f"mem0-{uuid4()}"
    with client(node) as http:
        added = http.post(
            "/v3/memories/add/", json={"messages": [{"role": "user", "content": "I live in Lisbon."}], "user_id": owner}
        )
    return {"owner": owner, "id": added.json()["results"][0]["id"]}


def is_stored(node: Node, stored: dict[str, str]) -> bool:
    with client(node) as http:
        return "Lisbon" in http.get(f"/v1/memories/{stored['id']}/").text


@pytest.mark.parametrize("method,path,scope,request_", REQUESTED, ids=lambda value: str(value)[:40])
def test_a_key_that_does_not_reach_it(
    node: Node, stored: dict[str, str], method: str, path: str, scope: str, request_: dict[str, Any]
) -> None:
    """Given no key, one of another tenant, one of other owners or of too narrow a scope, then nothing is shown or done."""
    url, requested = filled(path, **stored), filled(request_, **stored)
    without = httpx.request(method, node.address + url, **requested)
    assert (without.status_code, without.json()["code"]) == (401, "unauthorized")
    with client(node, tenant=f"other-{uuid4()}") as http:
        theirs = http.request(method, url, **requested)
        assert "Lisbon" not in theirs.text
        assert theirs.status_code == (404 if "{id}" in path or method == "DELETE" else 200)
    with client(node, owners="somebody-*") as http:
        other = http.request(method, url, **requested)
        assert "Lisbon" not in other.text
        assert other.status_code == (404 if "{id}" in path else 403)
    if scope == "write":
        with client(node, scope="read") as http:
            narrow = http.request(method, url, **requested)
            assert (narrow.status_code, narrow.json()["code"]) == (403, "scope_too_narrow")
    assert is_stored(node, stored)


def test_the_ping_and_both_ways_to_send_a_key(node: Node) -> None:
    key = node.key()
    for kind in ("Token", "token", "Bearer"):
        reported = httpx.get(f"{node.address}/v1/ping/", headers={"Authorization": f"{kind} {key}"})
        assert (reported.status_code, reported.json()["org_id"]) == (200, node.memory.tenant)
    assert httpx.get(f"{node.address}/v1/ping/", headers={"Authorization": f"Basic {key}"}).status_code == 401


def test_what_has_no_meaning_here_is_refused(node: Node, stored: dict[str, str]) -> None:
    with client(node) as http:
        for method, path in (
            ("GET", "/v1/entities/"),
            ("PUT", "/v1/batch/"),
            ("POST", "/v2/memories/"),
            ("GET", "/v3/x"),
        ):
            reported = http.request(method, path)
            assert (reported.status_code, reported.json()["code"]) == (501, "unsupported_by_memforest"), path
        wrong = http.post("/v3/memories/search/", json={"query": "x", "top_k": 0, "filters": {"user_id": "x"}})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "unsupported_by_memforest")
        assert http.delete("/v1/memories/").status_code == 400, "everybody's at once is nobody's wish"
        assert http.delete("/v1/memories/", params={"user_id": stored["owner"], "agent_id": "x"}).status_code == 400
        assert (
            http.put(f"/v1/memories/{stored['id']}/", json={"text": "I live in Rome.", "metadata": {}}).status_code
            == 400
        )
        assert http.put(f"/v1/memories/{stored['id']}/", json={}).status_code == 400
    assert is_stored(node, stored)


def test_facts_that_take_long_are_pending(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mem0, "FACTS_S", 0.0)
    owner = f"mem0-{uuid4()}"
    with client(node) as http:
        reported = http.post(
            "/v3/memories/add/", json={"messages": [{"role": "user", "content": "I sail."}], "user_id": owner}
        ).json()

    assert (reported["status"], reported["results"]) == ("PENDING", [])
    assert node.memory.sessions(owner).items, "they are stored all the same"


def test_its_paths_are_no_part_of_our_document(node: Node) -> None:
    document = httpx.get(f"{node.address}/openapi.json").json()

    assert not [path for path in document["paths"] if "memories" in path or path.startswith(("/v2", "/v3"))]
    assert not [path for path in document["paths"] if f"{path}/".startswith(mem0.NOT_SERVED)], "ours is served"
