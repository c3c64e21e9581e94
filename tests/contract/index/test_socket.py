"""An embedded node's index for other processes: who may ask, how much, and what is said when the node is gone."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable, InvalidSettings
from memforest_core.index import socket_index as serving
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.socket_index import (
    AT_ONCE,
    CONNECTIONS,
    MAX_BODY,
    REFUSED,
    Refused,
    SocketIndex,
    SocketServer,
    read_address,
    write_address,
)
from tests.contract.index.builders import ACME, DIMENSION, MODEL
from tests.harness.stack import copy_index
from tests.harness.timing import until

SEARCH = (
    b'{"queries": [{"vector": {"indices": [1], "values": [1.0]}, "filter": {"tenant": "acme", "forest_id":'
    b' "0190a5e2-0000-7000-8000-000000000002", "ids": [%s]}, "limit": 1}]}'
)
"""A search for a point."""
COUNT = b'{"tenant": "acme", "forest_id": null}'


@pytest.fixture
def owner(prepared: Path, tmp_path: Path) -> Iterator[EdgeIndex]:
    copy_index(prepared / "edge", tmp_path / "edge")
    index = EdgeIndex(tmp_path / "edge", MODEL, DIMENSION)
    index.prepare()
    yield index
    index.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """A socket's path, short enough for the system."""
    with tempfile.TemporaryDirectory(prefix="mf-") as directory:
        yield Path(directory) / "index" / "socket"


@pytest.fixture
def running(owner: EdgeIndex, place: Path) -> Iterator[SocketServer]:
    server = SocketServer(owner, place)
    yield server
    server.close()


def client(place: Path, model: str = MODEL) -> SocketIndex:
    return SocketIndex(place, model, DIMENSION, timeout_s=10)


def sent(place: Path, call: str, body: bytes) -> Refused:
    """What one request is refused with."""
    with silent(place) as connection:
        connection.sendall(f"{call} {len(body)}\n".encode() + body)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer[:1] == REFUSED
    return Refused.model_validate_json(answer[1:])


def silent(place: Path) -> socket.socket:
    """A connection that sends no request."""
    connection = socket.socket(socket.AF_UNIX)
    # A broker client in another thread sets a default timeout now and then, and then a full backlog is an error at once.
    connection.settimeout(None)
    connection.connect(str(place))
    return connection


@pytest.mark.usefixtures("running")
def test_only_its_user_can_connect(place: Path) -> None:
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert place.stat().st_uid == os.geteuid()


def test_the_index_of_a_stopped_node_is_unavailable_until_it_starts_again(owner: EdgeIndex, place: Path) -> None:
    """Given a client of a node, when the node ends and starts again, then the same client says so and goes on."""
    other = client(place)
    for _ in range(2):
        server = SocketServer(owner, place)
        assert other.count(ACME) == 0
        server.close()
        assert not place.exists()
        with pytest.raises(IndexUnavailable, match="memforest up"):
            other.count(ACME)
    other.close()


@pytest.mark.usefixtures("running")
def test_a_client_with_another_embedding_model_learns_what_to_set(place: Path) -> None:
    with pytest.raises(InvalidSettings, match="MEMFOREST_EMBEDDING__MODEL"):
        client(place, "acme/another").prepare()


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(
    "call, body, code",
    [
        ("x count", b"\x80\x04K\x01.", "invalid_request"),
        ("x count", b"[]", "invalid_request"),
        ("x count", COUNT[:-1] + b', "more": 1}', "invalid_request"),
        ("x close", b"{}", "invalid_request"),
        ("x search", SEARCH % b'"0190a5e2-0000-7000-8000-000000000001"', "invalid_settings"),
        ("x search", SEARCH % b'"no id"', "invalid_request"),
        ("x count", COUNT, "invalid_settings"),
    ],
)
def test_what_is_no_call_of_the_index_is_refused(place: Path, call: str, body: bytes, code: str) -> None:
    assert sent(place, call, body).code == code


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("size", [str(MAX_BODY + 1), "-1", "all"])
def test_a_request_without_an_allowed_size_is_refused_before_it_is_read(place: Path, size: str) -> None:
    with silent(place) as connection:
        connection.sendall(f"x count {size}\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert b"too_large" in answer


@pytest.mark.usefixtures("running")
def test_a_malformed_point_is_named_by_its_field_without_its_text(place: Path) -> None:
    message = sent(place, f"{client(place).name} upsert", b'{"points": [{"id": "my secret"}]}').message
    assert message.startswith("upsert.points.0.id")
    assert "secret" not in message


def test_the_index_of_a_node_that_hangs_is_unavailable(owner: EdgeIndex, place: Path) -> None:
    """Given a node that takes a call and answers nothing, then its caller waits no longer than it may, and does not ask
    again; a node that ends meanwhile answers what it has read."""
    entered, going_on = threading.Event(), threading.Event()

    class Still(EdgeIndex):
        def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
            entered.set()
            going_on.wait(10)
            return 7

    owner.__class__ = Still
    server = SocketServer(owner, place)
    impatient = SocketIndex(place, MODEL, DIMENSION, timeout_s=0.3)
    with pytest.raises(IndexUnavailable, match="TimeoutError"):
        impatient.count(ACME)
    entered.clear()
    with ThreadPoolExecutor(2) as threads:
        requested = threads.submit(client(place).count, ACME)
        assert entered.wait(10)
        closing = threads.submit(server.close)
        time.sleep(0.3)
        going_on.set()
        assert requested.result(10) == 7
        closing.result(10)
    impatient.close()


def test_only_some_requests_are_in_memory_at_once(owner: EdgeIndex, place: Path) -> None:
    """Given more callers than may be answered concurrently, then the others wait, and all are answered."""
    going_on, lock = threading.Event(), threading.Lock()
    inside: list[int] = []

    class Still(EdgeIndex):
        def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
            with lock:
                inside.append(1)
            going_on.wait(10)
            return 7

    owner.__class__ = Still
    server = SocketServer(owner, place)
    with ThreadPoolExecutor(AT_ONCE + 2) as threads:
        answers = [threads.submit(client(place).count, ACME) for _ in range(AT_ONCE + 2)]
        until(lambda: len(server._server._open) == AT_ONCE + 2 and len(inside) >= AT_ONCE)
        time.sleep(0.2)
        assert len(inside) == AT_ONCE
        going_on.set()
        assert [each.result(10) for each in answers] == [7] * (AT_ONCE + 2)
    server.close()


def test_a_request_that_crashes_is_logged_by_place_and_the_next_is_served(owner: EdgeIndex, place: Path) -> None:
    other = client(place)
    with capture_logs() as logged:
        server = SocketServer(owner, place)
        with pytest.raises(IndexUnavailable):
            other.scan("no cursor", 1)
        other.prepare()
        server.close()
    other.close()
    assert [(line["event"], line["exception"]) for line in logged] == [("index_request_crashed", "ValueError")]


def test_connections_that_ask_nothing_hold_up_nobody_for_long(
    running: SocketServer, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given as many silent connections as may be open, then one more is dropped, and once the silent ones are left the
    index answers again."""
    monkeypatch.setattr(serving._Handler, "timeout", 1.0)
    with ExitStack() as open_ones:
        for _ in range(CONNECTIONS):
            open_ones.enter_context(silent(place))
        with pytest.raises(IndexUnavailable):
            client(place).prepare()
    client(place).prepare()


def test_a_directory_says_who_serves_it_and_its_copy_does_not(tmp_path: Path) -> None:
    directory, copy = tmp_path / "qdrant", tmp_path / "copy"
    directory.mkdir()
    assert read_address(directory) is None
    write_address(directory, tmp_path / "socket")
    assert read_address(directory) == tmp_path / "socket"
    shutil.copytree(directory, copy)
    assert read_address(copy) is None
    assert read_address(tmp_path / "nowhere") is None
