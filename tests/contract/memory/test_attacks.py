"""Clients that never end what they begin: what each may take of a server, and that it gives it back."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest

from memforest_core.client.api import MemForest
from memforest_core.client.embedded.node import addresses
from memforest_core.lifecycle.bundle.records import APPLICATION_ID
from memforest_core.service.http import gate
from memforest_core.service.http import serving as http_serving
from memforest_core.service.http.serving import MAX_HEAD_BYTES, HttpServer, listen
from memforest_core.service.http.streams import LINE_BYTES, _lines, _Reads
from memforest_core.settings import load_settings
from tests.contract.memory.conftest import Node

BEGINNING = b"SQLite format 3\x00" + b"\x00" * 52 + APPLICATION_ID.to_bytes(4, "big")
"""Of a bundle."""
TURN = {"role": "user", "name": "Bob", "content": "I moved from Boston to Davis.", "timestamp": "2023-05-01T09:00:00Z"}


@contextmanager
def serving(node: Node, **changed: object) -> Iterator[str]:
    """Another server over the same stores, with settings of its own."""
    settings = load_settings(**addresses(node.memory.settings))
    own = settings.model_copy(update={"server": settings.server.model_copy(update=changed)})
    with MemForest.connect(own) as memory:
        server = HttpServer(memory, listen("127.0.0.1", 0))
        server.start()
        try:
            yield server.address
        finally:
            server.stop()


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def answered(client: socket.socket) -> bytes:
    """What the server says until it closes; nothing for a connection that it resets."""
    found = b""
    with suppress(ConnectionError):
        while chunk := client.recv(65_536):
            found += chunk
    return found


def flood(client: socket.socket, begin: bytes, part: bytes) -> int:
    """Send until the server closes, at most 8 MB; the bytes that were sent."""
    sent = client.send(begin)
    with suppress(ConnectionError):
        while sent < 8 << 20:
            sent += client.send(part)
    return sent


@pytest.mark.parametrize(
    "begin",
    [
        b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: ",
        b"GET /",
        b"GET /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ",
    ],
    ids=["header", "address", "trailer"],
)
def test_a_head_that_never_ends_is_refused(node: Node, begin: bytes) -> None:
    with closing(connected(node.address)) as client:
        sent = flood(client, begin, b"x" * 65_536)

    assert sent < 8 << 20


def test_a_head_just_too_long_gets_status_431(node: Node) -> None:
    with closing(connected(node.address)) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nX-Long: " + b"x" * (MAX_HEAD_BYTES + 1))
        assert answered(client).startswith(b"HTTP/1.1 431 ")


def test_a_head_that_is_not_complete_in_time_closes_its_connection(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given connections that send nothing, or half a head, when the time of a head is over, then all are closed."""
    monkeypatch.setattr(http_serving, "HEAD_S", 0.2)
    with ExitStack() as opened:
        clients = [opened.enter_context(closing(connected(node.address))) for _ in range(20)]
        for client in clients[10:]:
            client.sendall(b"GET /health HTTP/1.1\r\n")
        assert {answered(client)[:13] for client in clients} == {b"HTTP/1.1 408 "}


def test_the_rest_of_a_body_that_was_answered_is_not_read_for_ever(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_serving, "LINGER_S", 0.2)
    with closing(connected(node.address)) as client:
        client.sendall(b"POST /v1/recall HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert answered(client).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("path", ["/v1/recall", "/v1/sessions/stream", "/v1/bundle", "/login"])
def test_a_body_that_stops_coming_ends_the_request(node: Node, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(gate, "SLACK_S", 0.2)
    monkeypatch.setattr(gate, "STREAM_SLACK_S", 0.2)
    monkeypatch.setattr(http_serving, "LINGER_S", 0.2)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {node.key()}\r\nSec-Fetch-Site: same-origin\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\nS"
    )
    with closing(connected(node.address)) as client:
        client.sendall(head.encode())
        received = answered(client)

    assert b"Send at least" in received
    assert received.startswith(b"HTTP/1.1 200 " if path.endswith("stream") else b"HTTP/1.1 408 ")


def test_when_connections_run_out_those_that_wait_longest_for_their_head_are_closed(node: Node) -> None:
    """Connections of one moment have waited equally long: any of them is closed first."""
    with serving(node, max_connections=6) as address, ExitStack() as opened:
        idle = [opened.enter_context(closing(connected(address))) for _ in range(5)]
        assert httpx.get(f"{address}/health").status_code == 200
        closed, _, _ = select.select(idle, [], [], 5)
        assert closed
        assert {answered(client)[:13] for client in closed} == {b"HTTP/1.1 503 "}


def test_behind_a_proxy_one_address_may_have_all_connections(node: Node) -> None:
    with serving(node, max_connections=6, proxy="127.0.0.1") as address, ExitStack() as opened:
        for _ in range(4):
            opened.enter_context(closing(connected(address))).sendall(b"GET / HTTP/1.1\r\n")
        assert httpx.get(f"{address}/health").status_code == 200
        idle = opened.enter_context(closing(connected(address)))
        idle.settimeout(0.2)
        with pytest.raises(TimeoutError):
            idle.recv(1)


def test_a_line_that_never_ends_is_copied_once(node: Node) -> None:
    """Given a line of 16 MB in small chunks, then reading it allocates a few times its size and no more."""

    class Sent:
        async def stream(self) -> AsyncIterator[bytes]:
            for _ in range(257):
                yield b"x" * 65_536

    async def read() -> list[int]:
        return [len(line) async for line in _lines(Sent())]  # type: ignore[arg-type]

    tracemalloc.start()
    try:
        assert asyncio.run(read()) == [257 * 65_536]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * LINE_BYTES


def lines_of(answer: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_stream_counts_each_session_against_the_rate(node: Node) -> None:
    key = {"Authorization": f"Bearer {node.key(requests_per_minute=4)}"}
    owner = f"rate-{uuid4()}"
    sent = [json.dumps({"owner": owner, "session_id": f"s{n}", "turns": [TURN]}) for n in range(10)]
    received = lines_of(
        httpx.post(f"{node.address}/v1/sessions/stream", content="\n".join(sent), headers=key, timeout=60)
    )

    assert len(received) <= 5
    assert received[-1]["problem"]["code"] == "rate_limited"
    assert len(node.memory.sessions(owner).items) == len(received) - 1


@contextmanager
def revocable(node: Node) -> Iterator[tuple[str, Callable[[], None]]]:
    made = node.keys.create(node.memory.tenant, "gone", scope="admin")

    def revoke() -> None:
        node.keys.revoke(node.memory.tenant, made.key.id)

    yield made.secret, revoke


@pytest.mark.parametrize("path", ["/v1/sessions/stream", "/v1/bundle", "/v1/recall"])
def test_a_revoked_key_ends_its_uploads(node: Node, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an upload that goes on for as long as it is let, when its key is revoked, then it is refused."""
    monkeypatch.setattr(http_serving, "LINGER_S", 0.2)
    began, stop = threading.Event(), threading.Event()

    def body() -> Iterator[bytes]:
        yield BEGINNING if path.endswith("bundle") else b" "
        while not stop.wait(0.05):
            began.set()
            yield b" " * 64

    with revocable(node) as (secret, revoke), ThreadPoolExecutor(1) as pool:
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        sent = pool.submit(httpx.post, node.address + path, content=body(), headers=headers, timeout=60)
        try:
            assert began.wait(60)
            revoke()
            received = sent.result(60)
        finally:
            stop.set()
    problem = lines_of(received)[-1]["problem"] if path.endswith("stream") else received.json()
    assert problem["code"] == "unauthorized"


def test_a_revoked_key_ends_its_events(node: Node) -> None:
    owner = f"held-{uuid4()}"
    node.memory.append(owner, "s", {"role": "user", "content": "Held back."})
    with revocable(node) as (secret, revoke):
        address = f"{node.address}/v1/sessions/events?owner={owner}&session_id=s"
        with httpx.stream("GET", address, headers={"Authorization": f"Bearer {secret}"}, timeout=60) as received:
            blocks = received.iter_text()
            assert next(blocks).startswith("event: progress")
            revoke()
            rest = "".join(blocks)
    assert "event: problem" in rest
    assert "unauthorized" in rest


def test_a_key_has_so_many_streams_open(node: Node) -> None:
    owner = f"held-{uuid4()}"
    node.memory.append(owner, "s", {"role": "user", "content": "Held back."})
    with serving(node, streams_per_key=2) as address, ExitStack() as opened:
        url = f"{address}/v1/sessions/events?owner={owner}&session_id=s"
        mine, others = ({"Authorization": f"Bearer {node.key()}"} for _ in range(2))
        received = [opened.enter_context(httpx.stream("GET", url, headers=mine, timeout=60)) for _ in range(3)]
        other = opened.enter_context(httpx.stream("GET", url, headers=others, timeout=60))
        assert [each.status_code for each in (*received, other)] == [200, 200, 429, 200]
        received[2].read()
        assert received[2].json()["code"] == "too_many_streams"
        received[0].close()
        repeated = 429
        while repeated == 429:
            with httpx.stream("GET", url, headers=mine, timeout=60) as tried:
                repeated = tried.status_code
    assert repeated == 200


def test_of_many_streams_one_reads_at_a_time() -> None:
    under_way, most = 0, 0

    async def read() -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return 1

    async def run() -> list[int]:
        turn = asyncio.Lock()
        return await asyncio.gather(*(_Reads(read, bool, turn).next() for _ in range(50)))

    assert asyncio.run(run()) == [1] * 50
    assert most == 1


@pytest.mark.parametrize(
    "beginning", [b"{" * 200, b"SQLite format 3\x00" + b"\x00" * 200], ids=["text", "other-sqlite"]
)
def test_what_is_no_bundle_is_refused_by_its_first_bytes(node: Node, beginning: bytes) -> None:
    """Given an upload that never ends, when its first bytes are no bundle's, then it is refused at once."""
    head = (
        f"POST /v1/bundle?owner=x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {node.key()}\r\nContent-Length: 9999\r\n"
    )
    with closing(connected(node.address)) as client:
        client.sendall(head.encode() + b"\r\n" + beginning)
        received = client.recv(65_536)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"not_a_bundle" in received


@pytest.mark.parametrize("announced", [True, False])
def test_a_bundle_has_a_greatest_size(node: Node, announced: bool) -> None:
    parts = [BEGINNING, *[b"x" * 65_536] * 40]
    headers = {"Authorization": f"Bearer {node.key()}"}
    with serving(node, max_bundle_mb=1) as address:
        answer = httpx.post(
            f"{address}/v1/bundle", content=b"".join(parts) if announced else iter(parts), headers=headers, timeout=60
        )
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_long")
