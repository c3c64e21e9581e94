"""An embedded node's index for other processes: who may ask, how much, and what is said when the node is gone."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from benchmarks.support.stack import copy_index
from memforest_core.errors import IndexUnavailable, InvalidSettings
from memforest_core.index.qdrant.edge import EdgeIndex
from memforest_core.index.served import server as serving
from memforest_core.index.served.address import read_address, write_address
from memforest_core.index.served.client import ServedIndex
from memforest_core.index.served.server import THREADS, WAITING, IndexServer
from memforest_core.index.served.wire import MAX_BODY
from tests.contract.index.builders import ACME, DIMENSION, MODEL, point


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
def running(owner: EdgeIndex, place: Path) -> Iterator[IndexServer]:
    server = IndexServer(owner, place)
    yield server
    server.close()


def client(place: Path, model: str = MODEL) -> ServedIndex:
    return ServedIndex(place, model, DIMENSION, timeout_s=10)


def post(place: Path, path: str, body: bytes) -> httpx.Response:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(place))) as raw:
        return raw.post(f"http://node/v1/{path}", content=body)


def silent(place: Path) -> socket.socket:
    """A connection that asks nothing."""
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


def test_what_one_process_writes_the_owner_has(owner: EdgeIndex, running: IndexServer, place: Path) -> None:
    one = point()
    other = client(place)
    other.prepare()
    other.upsert([one])
    assert owner.versions([one.key]) == {one.id: 1}
    owner.delete([one.key])
    assert other.count(ACME) == 0
    other.close()


def test_a_node_that_is_gone_is_an_index_that_is_away_until_it_is_back(owner: EdgeIndex, place: Path) -> None:
    """Given a client of a node, when the node ends and starts again, then the same client says so and goes on."""
    other = client(place)
    for _ in range(2):
        server = IndexServer(owner, place)
        assert other.count(ACME) == 0
        server.close()
        assert not place.exists()
        with pytest.raises(IndexUnavailable, match="memforest up"):
            other.count(ACME)
    other.close()


def test_a_socket_left_by_a_killed_node_is_replaced(owner: EdgeIndex, place: Path) -> None:
    place.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    with pytest.raises(IndexUnavailable):
        client(place).prepare()
    server = IndexServer(owner, place)
    client(place).prepare()
    server.close()


@pytest.mark.usefixtures("running")
def test_another_embedding_model_is_told_what_to_set(place: Path) -> None:
    with pytest.raises(InvalidSettings, match="MEMFOREST_EMBEDDING__MODEL"):
        client(place, "acme/another").prepare()


@pytest.mark.parametrize(
    "path, body, status, code",
    [
        ("search", b"\x80\x04K\x01.", 400, "invalid_request"),
        ("search", b"[]", 400, "invalid_request"),
        ("count", b'{"index": "x", "tenant": "acme", "forest_id": null, "more": 1}', 400, "invalid_request"),
        ("close", b'{"index": "x"}', 404, "unknown_call"),
        ("count", b'{"index": "x", "tenant": "acme", "forest_id": null}', 409, "invalid_settings"),
    ],
)
def test_what_is_no_call_of_the_index_is_refused(
    running: IndexServer, place: Path, path: str, body: bytes, status: int, code: str
) -> None:
    answer = post(place, path, body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.usefixtures("running")
def test_a_request_that_is_too_large_is_refused_before_it_is_read(place: Path) -> None:
    with silent(place) as connection:
        connection.sendall(b"POST /v1/upsert HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1))
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.0 413")
    assert b"too_large" in answer


@pytest.mark.usefixtures("running")
def test_a_malformed_point_is_named_by_its_place_without_its_text(place: Path) -> None:
    body = b'{"index": "%s", "points": [{"id": "my secret"}]}' % client(place).name.encode()
    message = post(place, "upsert", body).json()["message"]
    assert message.startswith("points.0.id")
    assert "secret" not in message


def test_a_request_that_crashes_is_logged_by_place_and_the_next_is_served(owner: EdgeIndex, place: Path) -> None:
    other = client(place)
    with capture_logs() as logged:
        server = IndexServer(owner, place)
        with pytest.raises(IndexUnavailable):
            other.scan("no cursor", 1)
        other.prepare()
        server.close()
    other.close()
    assert [(line["event"], line["exception"]) for line in logged] == [("index_request_crashed", "ValueError")]


def test_connections_that_ask_nothing_hold_up_nobody_for_long(
    running: IndexServer, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given as many silent connections as are served and may wait, then one more is dropped, and once the silent ones
    are left the index answers again."""
    monkeypatch.setattr(serving._Handler, "timeout", 1.0)
    with ExitStack() as open_ones:
        for _ in range(THREADS + WAITING):
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
