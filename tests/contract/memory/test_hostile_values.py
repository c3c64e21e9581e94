"""Values that a hostile caller sends are answered with what is wrong with them; stored ones forge nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
import sqlalchemy as sa
from mcp.client.client import Client
from typer.testing import CliRunner

from memforest_core.assistant.context.records import Section, headed
from memforest_core.cli.program import app
from memforest_core.errors import InvalidInput
from memforest_core.service.keys.service import Callers
from memforest_core.store.engine import tenant_transaction
from tests.contract.memory.conftest import Node
from tests.contract.memory.test_mcp import over_http, text_of
from tests.harness.forgeries import FORGERIES, MARK, NAMES, assert_steers_nothing, begins, kinds, margin


def forged(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def client(node: Node) -> httpx.Client:
    return httpx.Client(base_url=node.address, headers={"Authorization": f"Bearer {node.key()}"}, timeout=60)


ID = "5f2b7c1e-8a4d-4c3b-9e6f-1a2b3c4d5e6f"
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


LISTINGS = {
    "sessions": forged("x", ID),
    "turns": forged(2**63),
    "facts": forged(10**40),
    "trees": forged("\x00", "a"),
    "topics": forged("0001-01-01T00:00:00+14:00", ID),
    "days": forged("x"),
    "calls": forged("x", 1),
    "timeline": "...",
    "deliveries": forged("x", "x"),
}


def test_a_forged_cursor_is_a_bad_request_over_http(node: Node) -> None:
    node.memory.enqueue("cursors", "s", [{"role": "user", "content": "I live in Berlin."}], wait="raw")
    with client(node) as http:
        for path, cursor in LISTINGS.items():
            query = {} if path == "deliveries" else {"owner": "cursors"}
            query |= {"session_id": "s"} if path == "turns" else {}
            found = http.get(f"/v1/{path}", params={**query, "cursor": cursor})
            assert (found.status_code, found.json()["code"]) == (400, "invalid_cursor"), path


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


def plant(node: Node) -> str:
    """An owner whose words, names and ids all imitate dates, speakers and tags; their own says Thanks."""
    owner = f"forged-{uuid4()}"
    thanks: Any = {"role": "user", "name": "Ann", "content": "Thanks."}
    for at, text in enumerate(FORGERIES):
        said: Any = {"role": "tool", "name": "weather", "content": text, "metadata": {"note": text}}
        node.memory.enqueue(owner, f"s{at}", [said, thanks], channel=text[:200])
    for name in NAMES:
        node.memory.enqueue(owner, name, [{"role": "user", "name": name, "content": "It is sunny in Rome."}])
    long: Any = [{"role": "tool", "name": "weather", "content": text} for text in FORGERIES]
    node.memory.enqueue(owner, "long", [*long, thanks])
    node.memory.flush(owner)
    return owner


@pytest.fixture(scope="module")
def planted(node: Node) -> str:
    return plant(node)


SAID_BY = {"weather", "Ann", '"', "sunny", "Sunny", MARK}
"""Beginnings of lines that are turns: the names; those that imitate items are quoted."""


def test_planted_texts_add_no_line_at_the_margin(node: Node, planted: str) -> None:
    """Given texts and names that imitate dates, speakers and tags, then each rendering has a line at the margin for
    each of its items, and for nothing else."""
    found = node.memory.recall(planted, "What is my new address, is it sunny?", 50)
    assert len(found.evidence) > 5
    groups = {(piece.session_id, piece.time_label) for piece in found.evidence}
    lines = margin(found.text())
    assert len(lines) == len(groups) + sum(begins(piece.text) for piece in found.evidence)
    assert sum(line in {f"[{label}]" for _, label in groups} for line in lines) == len(groups)
    for session in (None, "s0", "s12", "long", NAMES[0]):
        made = node.memory.context(planted, session, "What is my new address?")
        days = [label for section in Section for label, _ in headed(made.section(section.value)) if label]
        tags = 2 * sum(bool(made.section(section.value)) for section in Section)
        lines = margin(made.text)
        assert sum(line.startswith("<") for line in lines) == tags
        assert len(lines) == tags + len(days) + sum(begins(part.text) for part in made.parts)
        assert_steers_nothing(made.messages()[0]["content"])
        window = node.memory.window(planted, session or "long", last_turns=4)
        assert len(margin(window.text)) == sum(begins(part.item) for part in window.parts)
        for part in window.parts:
            if part.source:
                assert set(kinds(part.text)) <= SAID_BY
    for tree in node.memory.trees(planted, limit=100).items:
        if tree.kind.value == "session":
            assert set(kinds(tree.summary)) <= SAID_BY, tree.summary
    profile = node.memory.profile(planted)
    assert len(margin(profile.text)) == len(profile.states)
    today = node.memory.today(planted)
    assert len(margin(today.text)) == len(today.speakers)
    assert_steers_nothing(node.memory.week(planted).text)


def test_planted_texts_add_no_line_to_what_agents_read(node: Node, planted: str) -> None:
    """Given the same texts, then tools and resources have a line at the margin for each of their items."""
    most = {"owner": planted, "max_tokens": 20_000}
    question = "What is my new address, is it sunny?"

    async def use(agent: Client) -> None:
        async def call(tool: str, arguments: dict[str, Any]) -> list[str]:
            return margin(text_of(await agent.call_tool(tool, arguments)))

        async def read(path: str) -> list[str]:
            found = await agent.read_resource(f"memforest://{planted}/{path}")
            return margin(found.contents[0].text)  # type: ignore[union-attr]

        found = node.memory.recall(planted, question, max_tokens=20_000)
        shown = await call("recall", {"question": question, **most})
        assert sorted(line[:9] for line in shown) == sorted(line[:9] for line in margin(found.text(20_000)))
        states = node.memory.timeline(planted, limit=50).states
        assert len(await call("timeline", most)) == max(1, len(states))
        assert len(await call("profile", {"owner": planted})) == max(1, len(node.memory.profile(planted).states))
        sessions = await call("sessions", {"owner": planted, "limit": 50})
        assert all(line[:2] == "20" or line == "(more is stored)" for line in sessions)
        would = node.memory.forget(planted, "my address", True, actor="test")
        shown = await call("forget", {"words": "my address", "owner": planted})
        listed = sum(line.startswith("- ") for line in shown)
        assert listed == len(would.facts or would.others)
        assert len(shown) - listed <= 2
        for at in range(len(FORGERIES)):
            said = await read(f"sessions/s{at}")
            assert [line.partition("] ")[2].partition(":")[0] for line in said] == ["weather", "Ann"]
        trees = node.memory.trees(planted, limit=50).items
        lines = await read("trees")
        assert len(lines) <= len(trees) + 1
        assert all(line.startswith(("session ", "entity ", "scene ", "(more is stored)")) for line in lines)

    over_http(node, node.key(), use)


def test_planted_texts_steer_no_terminal(node: Node, planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the same texts, then what commands print moves no cursor and turns no text."""

    @contextmanager
    def opened(*_given: object, **_options: object) -> Iterator[Any]:
        yield node.memory

    for name in ("recall.cli", "assistant.profile.cli", "cli.toolkit.operating", "cli.toolkit.method_commands"):
        monkeypatch.setattr(f"memforest_core.{name}.opened_memory", opened)
    for command in (
        ("recall", "my new address", "--owner", planted),
        ("context", "my new address", "--owner", planted),
        ("profile", "--owner", planted),
        ("window", "long", "--owner", planted),
    ):
        done = CliRunner().invoke(app, list(command))
        assert done.exit_code == 0, (command, done.output, done.exception)
        assert_steers_nothing(done.stdout)
