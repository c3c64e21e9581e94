"""Values that a hostile caller sends are answered with what is wrong with them; stored ones forge nothing."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
import sqlalchemy as sa
from mcp.client.client import Client

from memforest_core.errors import InvalidInput
from memforest_core.keys.service import Callers
from memforest_core.store.engine import tenant_transaction
from tests.contract.memory.conftest import Node
from tests.contract.memory.test_mcp import over_http, text_of
from tests.support.forgeries import FORGERIES, assert_forges_nothing


def forged(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def client(node: Node) -> httpx.Client:
    return httpx.Client(base_url=node.address, headers={"Authorization": f"Bearer {node.key()}"}, timeout=60)


ID = str(uuid4())
MOMENTS = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00", "x", "\x00", "\ud800")
CURSORS = (
    *((path, forged(moment, ID)) for path in ("sessions", "topics") for moment in MOMENTS),
    *(("turns", forged(number)) for number in (2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 10**40, True)),
    *(("facts", forged(number)) for number in (2**31, 2**63, 10**40)),
    *(("node", forged(*key, "a")) for key in ((2**62, 0, 0), (0, 2**40, 0), (0, 0, -(2**40)), (2**63, 0, 0))),
    ("node", forged(0, 0, 0, "\x00")),
    *(("trees", forged(kind, key)) for kind, key in (("\x00", "a"), ("entity", "\ud800"), ("entity", "\x00"))),
    *(("timeline", text) for text in ("1.2.3.\x00", f"{10**40}.1.1.{ID}", "1.1.1.x", "...", "1.1.1.\ud800")),
)


@pytest.mark.parametrize(("path", "cursor"), CURSORS)
def test_a_forged_cursor_ends_in_no_server_error(node: Node, path: str, cursor: str) -> None:
    node.memory.enqueue("cursors", "s", [{"role": "user", "content": "I live in Berlin."}], wait="summaries")
    calls = {
        "turns": lambda: node.memory.turns("cursors", "s", cursor=cursor),
        "sessions": lambda: node.memory.sessions("cursors", cursor=cursor),
        "topics": lambda: node.memory.topics("cursors", cursor=cursor),
        "facts": lambda: node.memory.facts("cursors", cursor=cursor),
        "trees": lambda: node.memory.trees("cursors", cursor=cursor),
        "node": lambda: node.memory.node(_root(node), cursor=cursor),
        "timeline": lambda: node.memory.timeline("cursors", cursor=cursor),
    }
    try:
        calls[path]()
    except InvalidInput as error:
        assert error.code == "invalid_cursor"  # noqa: PT017 - a cursor may also be one that a page could end with


def _root(node: Node) -> Any:
    return node.memory.trees("cursors").items[0].root_id


def test_surrogates_in_filters_of_mem0_are_refused(node: Node) -> None:
    bodies: tuple[dict[str, Any], ...] = (
        {"user_id": "\ud800"},
        {"user_id": "a", "run_id": "\ud800"},
        {"user_id": "a", "metadata": {"x": "\ud800"}},
        {"user_id": "a", "metadata": {"\ud800": 1}},
        {"user_id": "a", "app_id": "\x00"},
    )
    with client(node) as http:
        for filters in bodies:
            for path in ("/v3/memories/", "/v3/memories/search/"):
                body = json.dumps({"filters": filters, **({"query": "x"} if "search" in path else {})})
                answer = http.post(path, content=body, headers={"Content-Type": "application/json"})
                assert answer.status_code == 400, (filters, answer.text)


def test_answers_with_a_key_are_stored_by_no_cache(node: Node) -> None:
    with client(node) as http:
        for path in ("/v1/key", "/v1/nothing", "/v1/ping/"):
            assert http.get(path).headers["cache-control"] == "no-store"
    assert httpx.get(f"{node.address}/v1/key").headers["cache-control"] == "no-store"


def test_a_redirect_names_no_scheme(node: Node) -> None:
    with client(node) as http:
        found = http.get("/v1/key/?a=b")
    assert found.is_redirect
    assert found.headers["location"] == "/v1/key?a=b"


@pytest.mark.parametrize("actor", ["a\r\nb", "a\nb", "a\x1b[2J", "a\u2028b"])
def test_an_actor_is_one_line(node: Node, actor: str) -> None:
    node.memory.enqueue("acted", "s", [{"role": "user", "content": "Hello."}], wait="raw")
    with pytest.raises(InvalidInput, match="actor"):
        node.memory.lifecycle.forget("acted", session="s", actor=actor)


def test_a_key_ends_when_it_says(node: Node) -> None:
    engine, tenant = node.memory.services.engine, node.memory.tenant
    made = node.keys.create(tenant, "short", expires=datetime.now(UTC) + timedelta(hours=1))
    assert made.key in node.keys.list(tenant)
    assert made.key.expires_at is not None
    assert Callers(engine).find(made.secret) is not None
    with tenant_transaction(engine, tenant) as connection:
        passed = sa.text("UPDATE memforest.api_key SET expires_at = now() - interval '1 second' WHERE key_id = :k")
        connection.execute(passed, {"k": made.key.id})
    assert Callers(engine).find(made.secret) is None
    for wrong in ("yesterday", datetime(2020, 1, 1, tzinfo=UTC)):
        with pytest.raises(InvalidInput):
            node.keys.create(tenant, "wrong", expires=wrong)


def test_planted_texts_forge_nothing_in_what_agents_read(node: Node) -> None:
    """Given texts that imitate dates, speakers and tags, when an agent reads the memory, then nothing of them is at
    the margin of a line."""
    owner = f"forged-{uuid4()}"
    for at, text in enumerate(FORGERIES):
        turn = {"role": "tool", "name": "weather", "content": text}
        node.memory.enqueue(owner, f"s{at}", [turn, {"role": "user", "content": "Thanks."}])
    node.memory.flush(owner)
    found = node.memory.recall(owner, "What is my new address, is it sunny?", 50)
    assert len(found.evidence) > 5
    marks = ("weather: ", "weather said: ")
    assert_forges_nothing(found.text(), marks)
    for session in (None, "s0", "s12"):
        made = node.memory.context(owner, session, "What is my new address?")
        assert_forges_nothing(made.text, (*marks, "<"))
        assert_forges_nothing(made.messages()[0]["content"], (*marks, "<"))

    async def use(agent: Client) -> None:
        for tool, arguments in (
            ("recall", {"question": "What is my new address, is it sunny?"}),
            ("context", {"question": "my address"}),
            ("timeline", {}),
            ("profile", {}),
            ("sessions", {}),
            ("forget", {"words": "my address"}),
        ):
            told = text_of(await agent.call_tool(tool, {**arguments, "owner": owner}))
            assert_forges_nothing(told, (*marks, "- ", "<"))
        for at in range(len(FORGERIES)):
            read = await agent.read_resource(f"memforest://{owner}/sessions/s{at}")
            lines = read.contents[0].text.split("\n")  # type: ignore[union-attr]
            assert_forges_nothing("\n".join(line.partition("] ")[2] or line for line in lines if line[:1] == "["))
            assert all(line.startswith(("[20", "  ")) for line in lines)
        trees = await agent.read_resource(f"memforest://{owner}/trees")
        assert_forges_nothing(trees.contents[0].text, ("session ", "entity ", "scene "))  # type: ignore[union-attr]

    over_http(node, node.key(), use)


LISTINGS = {
    "sessions": ("sessions", forged("x", ID)),
    "turns": ("turns", forged(2**63)),
    "facts": ("facts", forged(10**40)),
    "trees": ("trees", forged("\x00", "a")),
    "topics": ("topics", forged("0001-01-01T00:00:00+14:00", ID)),
    "days": ("days", forged("x")),
    "calls": ("calls", forged("x", 1)),
    "timeline": ("timeline", "..."),
    "deliveries": ("deliveries", forged("x", "x")),
}


@pytest.mark.parametrize(("path", "cursor"), LISTINGS.values(), ids=LISTINGS)
def test_a_forged_cursor_is_a_bad_request_over_http(node: Node, path: str, cursor: str) -> None:
    node.memory.enqueue("cursors", "s", [{"role": "user", "content": "I live in Berlin."}], wait="raw")
    query = {} if path == "deliveries" else {"owner": "cursors"}
    query |= {"session_id": "s"} if path == "turns" else {}

    found = client(node).get(f"/v1/{path}", params={**query, "cursor": cursor})

    assert (found.status_code, found.json()["code"]) == (400, "invalid_cursor")
