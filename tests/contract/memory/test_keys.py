"""What keys separate: tenants, owners, scopes and rates; and what the server refuses by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from memforest_core.client.remote.remote_memory import RemoteMemForest
from memforest_core.client.route_table import PREFIX, ROUTES
from memforest_core.domain.routes import Route, Scope, Verb
from memforest_core.errors import InvalidInput, InvalidSettings, NotFound, QuotaExceeded, RetryableError
from memforest_core.service.keys.service import Keys
from tests.contract.memory.conftest import Node

TURN = {"role": "user", "name": "Bob", "content": "I moved from Boston to Davis.", "timestamp": "2023-05-01T09:00:00Z"}


@pytest.fixture(scope="module")
def theirs(node: Node) -> dict[str, str]:
    """Ids of what another tenant has stored, by the names of arguments."""
    other = node.memory.for_tenant("other")
    hook = other.webhooks.create("https://nowhere.invalid/hook", ["operation.finished"])
    other.enqueue("eve", "secret-session", [TURN], wait="summaries")
    fact = other.facts("eve").items[0]
    tree = other.trees("eve").items[0]
    operation = other.lifecycle.forget("eve", fact=fact.id, actor="test", dry_run=True)
    operation.wait()
    return {
        "owner": "eve",
        "owners": "eve",
        "session_id": "secret-session",
        "session": "secret-session",
        "node_id": str(tree.root_id),
        "topic": str(tree.id),
        "a": str(tree.id),
        "b": str(uuid4()),
        "fact": str(fact.id),
        "operation": str(operation.id),
        "id_": operation.id.hex[:12],
        "into": "eve",
        "endpoint": str(hook.endpoint.id),
        "delivery": str(other.webhooks.deliveries().items[0].id),
    }


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[httpx.Client]:
    """A client with an admin key of the node's own tenant."""
    with httpx.Client(base_url=node.address, headers={"Authorization": f"Bearer {node.key()}"}, timeout=60) as made:
        yield made


def call(client: httpx.Client, route: Route, arguments: dict[str, object]) -> httpx.Response:
    path = PREFIX + route.path
    for name in [name for name in arguments if f"{{{name}}}" in path]:
        path = path.replace(f"{{{name}}}", str(arguments.pop(name)))
    if route.verb is Verb.GET:
        return client.get(path, params=arguments)  # type: ignore[arg-type]
    return client.request(route.verb.value, path, json=arguments)


NAMES_NOTHING = {
    *("intent", "quota", "set_limits", "lifecycle.policies", "lifecycle.operations"),
    *("lifecycle.audit_head", "lifecycle.audit_verify"),
    *("webhooks.create", "webhooks.list", "dead.retry", "dead.discard"),
}
"""Routes of the key's own tenant, of a text alone, or of ids that change nothing when they are not there."""
MAKES = {
    *("append", "enqueue", "remember", "session_start", "session_switch"),
    *("lifecycle.set_policy", "lifecycle.clear_policy", "lifecycle.merge"),
}
"""Routes that take an unknown owner: one of the same name is another in each tenant."""
SAYS_NOTHING = {
    "session_current",
    "recall_many",
    "lifecycle.audit",
    "answer",
    "dead.list",
    "dead.retry_all",
    "webhooks.deliveries",
}
"""Routes that answer an empty list or null for whom they don't know, or need a chat model."""


def reported(one: object) -> bool:
    """Whether one element of an answer contains anything."""
    return isinstance(one, dict) and bool(one.get("evidence", True))


@pytest.mark.parametrize(
    "route", [each for each in ROUTES.values() if each.name not in NAMES_NOTHING | MAKES], ids=lambda r: r.id
)
def test_ids_of_another_tenant_are_not_found(client: httpx.Client, theirs: dict[str, str], route: Route) -> None:
    """Given another tenant's ids, when a request names them, then the answer is 404 or contains nothing of them."""
    arguments: dict[str, object] = dict(route.example)
    for name, value in theirs.items():
        if name in arguments or f"{{{name}}}" in route.path:
            arguments[name] = [value] if name in ("owners", "sources") else value
    for name in ("fact", "a", "b"):
        if route.name in ("lifecycle.correct", "topic_merge") and (name == "fact") == (
            route.name == "lifecycle.correct"
        ):
            arguments[name] = theirs[name]
    if route.name == "lifecycle.correct":
        arguments["text"] = "Eve lives in Rome."
    if route.name == "topic_tag":
        arguments["tags"] = ["x"]
    if route.name == "topic_rate":
        arguments["importance"] = 0.5
    if route.name == "recall_many":
        arguments["questions"] = [["eve", "Where does Bob live?"]]
    if "owner" in route.owners and "owner" not in arguments:
        arguments["owner"] = "eve"

    answer = call(client, route, arguments)

    assert "Davis" not in answer.text
    if route.name in SAYS_NOTHING:
        assert answer.status_code in (404, 501) or not any(map(reported, answer.json() or []))
    else:
        assert answer.status_code == 404, answer.text


def test_a_key_is_needed_for_everything(node: Node) -> None:
    """Given no key, a made-up one or a revoked one, when any route is called, then it answers 401 before it reads."""
    secret = node.keys.create(node.memory.tenant, "gone").secret
    gone = next(key for key in node.keys.list(node.memory.tenant) if key.name == "gone")
    node.keys.revoke(node.memory.tenant, gone.id)
    with httpx.Client(base_url=node.address) as client:
        for headers in ({}, {"Authorization": "Bearer mf_guess"}, {"Authorization": f"Bearer {secret}"}):
            for route in ROUTES.values():
                answer = client.request(route.verb.value, PREFIX + route.path, headers=headers, content=b"{")
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert answer.json()["code"] == "unauthorized"


def test_a_revoked_key_is_refused_within_seconds(node: Node) -> None:
    made = node.keys.create(node.memory.tenant, "short-lived")
    with RemoteMemForest(node.address, made.secret) as remote:
        assert remote.tenant == node.memory.tenant
        node.keys.revoke(node.memory.tenant, made.key.id)
        time.sleep(2.1)
        with pytest.raises(InvalidSettings, match="revoked"):
            remote.quota()
    listed = next(key for key in node.keys.list(node.memory.tenant) if key.id == made.key.id)
    assert listed.revoked_at is not None
    assert listed.last_used_at is not None


def test_secrets_are_stored_as_hashes(node: Node) -> None:
    made = node.keys.create(node.memory.tenant, "hashed")
    with node.memory.services.engine.connect() as connection:
        connection.exec_driver_sql("SELECT set_config('memforest.tenant', %s, false)", (str(node.memory.tenant),))
        row = connection.exec_driver_sql(
            "SELECT to_jsonb(k)::text FROM memforest.api_key k WHERE key_id = %s", (made.key.id,)
        ).scalar_one()
    assert made.secret not in row
    assert made.secret.removeprefix("mf_") not in row


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: route.id)
def test_a_scope_that_is_too_narrow_is_refused(node: Node, route: Route) -> None:
    """Given a key of each narrower scope, when a route is called with a good request, then it answers 403."""
    for scope in Scope:
        if scope.allows(route.scope):
            continue
        with httpx.Client(
            base_url=node.address, headers={"Authorization": f"Bearer {node.key(scope=scope)}"}
        ) as client:
            arguments = dict(route.example) | {
                name: str(uuid4())
                for name in ("operation", "id_", "topic", "node_id", "endpoint", "delivery")
                if f"{{{name}}}" in route.path
            }
            arguments |= {
                "lifecycle.correct": {"owner": "a", "fact": str(uuid4())},
                "topic_tag": {"owner": "a", "tags": ["x"]},
                "topic_rate": {"owner": "a", "importance": 0.5},
                "topic_merge": {"owner": "a", "a": str(uuid4()), "b": str(uuid4())},
            }.get(route.name, {})
            answer = call(client, route, arguments)
            assert (answer.status_code, answer.json()["code"]) == (403, "scope_too_narrow"), answer.text


def test_a_key_for_some_owners_reaches_no_other(node: Node) -> None:
    """Given a key for owners user-*, when others or nobody is named, then it is refused; when one of them, served."""
    key = node.key(scope="admin", owners="user-*")
    with RemoteMemForest(node.address, key) as remote:
        remote.enqueue("user-1", "s", [TURN])  # type: ignore[list-item]
        assert remote.status("user-1", "s").turns == 1
        assert remote.recall("user-1", "Where?").owner_known
        for refused in (
            lambda: remote.recall("admin", "Where?"),
            lambda: remote.recall("user-1", "Where?", owners=["admin"]),
            lambda: remote.recall_many([("user-1", "Where?"), ("admin", "Where?")]),
            lambda: remote.facts("admin"),
            lambda: remote.calls(),
            lambda: remote.lifecycle.operations(),
            lambda: remote.lifecycle.merge(["user-1"], "admin", actor="x"),
            lambda: remote.lifecycle.audit(),
            lambda: remote.node(uuid4()),
        ):
            with pytest.raises(InvalidSettings, match="user-"):
                refused()


def test_a_key_has_its_rate(node: Node) -> None:
    key = node.key(requests_per_minute=5)
    with RemoteMemForest(node.address, key) as remote:
        for _ in range(5):
            remote.quota()
        with pytest.raises(QuotaExceeded) as raised:
            remote.recall_many([])
    assert 0 < raised.value.retry_after <= 60


def test_a_body_that_is_too_long_is_not_read(node: Node, client: httpx.Client) -> None:
    most = int(node.memory.settings.server.max_body_mb * (1 << 20))
    announced = client.post(f"{PREFIX}/sessions", content=b" " * (most + 1))
    streamed = client.post(f"{PREFIX}/sessions", content=(b" " * 65_536 for _ in range(most // 65_536 + 1)))

    assert (announced.status_code, streamed.status_code) == (413, 413)
    assert announced.json()["code"] == "body_too_long"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b'{"owner": "a"}', 422),
        (b'{"owner": "a\\u0000b", "question": "x"}', 400),
        (b"\xff", 400),
    ],
)
def test_what_is_no_request_gets_a_problem(client: httpx.Client, body: bytes, status: int) -> None:
    answer = client.post(f"{PREFIX}/recall", content=body, headers={"Content-Type": "application/json"})

    if body == b'{"owner": "a"}':
        assert answer.status_code == 400  # no question
    else:
        assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


def test_an_unknown_path_and_method_are_problems(client: httpx.Client) -> None:
    assert client.get(f"{PREFIX}/nothing").json()["status"] == 404
    assert client.put(f"{PREFIX}/recall").json()["status"] == 405


def test_an_error_says_that_the_server_is_unavailable(node: Node) -> None:
    remote = RemoteMemForest("http://127.0.0.1:9", node.key())
    with pytest.raises(RetryableError) as raised:
        remote.quota()
    remote.close()
    assert raised.value.code == "server_unavailable"


def test_health_and_readiness_need_no_key(node: Node) -> None:
    assert httpx.get(f"{node.address}/health").json()["status"] == "ok"
    assert httpx.get(f"{node.address}/ready").json() == {"status": "ok"}


def test_a_labelled_key_shows_a_proxy_which_servers_it_belongs_to(node: Node) -> None:
    """Given servers whose database has a label, when they make a key, then it begins with it and is a key as any."""
    secret = Keys(node.memory.services.engine, "eu1").create(node.memory.tenant, "labelled", scope="read").secret
    assert secret.startswith("mf_eu1_")
    reported = httpx.get(f"{node.address}/v1/key", headers={"Authorization": f"Bearer {secret}"}).json()
    assert reported["name"] == "labelled"


def test_keys_are_made_of_good_input(node: Node) -> None:
    with pytest.raises(InvalidInput, match="scope"):
        node.keys.create(node.memory.tenant, "x", scope="root")
    with pytest.raises(InvalidInput, match="name"):
        node.keys.create(node.memory.tenant, "")
    with pytest.raises(NotFound):
        node.keys.revoke(node.memory.tenant, uuid4())
    with pytest.raises(NotFound):
        node.keys.revoke(node.memory.for_tenant("other").tenant, node.keys.list(node.memory.tenant)[0].id)
