"""Every implementation of the vector index, each empty and prepared."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from memforest_core.index.memory import forest_index, in_memory_indexes
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.qdrant.server_index import QdrantServerIndex
from memforest_core.index.socket_index import SocketIndex, SocketServer
from memforest_core.index.vector_index import Hits, IndexQuery, VectorIndex
from tests.contract.index.builders import DIMENSION, MODEL
from tests.harness.given_qdrant import URL, drop_collection
from tests.harness.qdrant_http import QdrantHttp
from tests.harness.stack import copy_index
from tests.harness.timing import until


@contextmanager
def serving(directory: Path) -> Iterator[QdrantHttp]:
    """A Qdrant server over HTTP on the real engine, in a thread of this process."""
    server = QdrantHttp(directory)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def qdrant_http(tmp_path: Path) -> Iterator[QdrantHttp]:
    """A server without collections."""
    with serving(tmp_path / "server") as server:
        yield server


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What preparing leaves on the disk, of each implementation that writes there: it takes longer than most tests."""
    directory = tmp_path_factory.mktemp("prepared")
    edge = EdgeIndex(directory / "edge", MODEL, DIMENSION)
    edge.prepare()
    edge.close()
    with serving(directory / "server") as server:
        remote = QdrantServerIndex.at(server.url, None, MODEL, DIMENSION, timeout_s=10)
        remote.prepare()
        remote.close()
    return directory


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SocketIndex]:
    """A client of the engine over a socket; the owner's side runs in this process."""
    owner = EdgeIndex(tmp_path / "edge", MODEL, DIMENSION)
    owner.prepare()
    with tempfile.TemporaryDirectory(prefix="mf-") as short:
        server = SocketServer(owner, Path(short) / "index" / "socket")
        client = SocketIndex(Path(short) / "index" / "socket", MODEL, DIMENSION, timeout_s=10)
        yield client
        client.close()
        server.close()
        owner.close()


class AnsweringInMemory(EdgeIndex):
    """Answers when in-memory indexes are there and have all points."""

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        super().search(queries)
        until(lambda: not self.refreshing)
        return super().search(queries)


@pytest.fixture(
    params=["given server"] if URL else ["edge", "edge in memory", "edge of another node", "server over http"]
)
def index(request: pytest.FixtureRequest, prepared: Path, tmp_path: Path) -> Iterator[VectorIndex]:
    """An empty, prepared index; closed at the end."""
    made: VectorIndex
    if request.param == "given server":
        drop_collection(MODEL, DIMENSION)
        made = QdrantServerIndex.at(URL, None, MODEL, DIMENSION, timeout_s=30)
    elif request.param == "server over http":
        copy_index(prepared / "server", tmp_path / "server")
        server: QdrantHttp = request.getfixturevalue("qdrant_http")
        made = QdrantServerIndex.at(server.url, None, MODEL, DIMENSION, timeout_s=10)
    else:
        copy_index(prepared / "edge", tmp_path / "edge")
        if request.param == "edge":
            made = EdgeIndex(tmp_path / "edge", MODEL, DIMENSION)
        elif request.param == "edge in memory":
            patch = request.getfixturevalue("monkeypatch")
            patch.setattr(in_memory_indexes, "SEARCHES_BEFORE", 1)
            patch.setattr(in_memory_indexes, "LEAST_POINTS", 1)
            patch.setattr(forest_index, "GRAPH_FROM", 1)
            made = AnsweringInMemory(tmp_path / "edge", MODEL, DIMENSION)
        else:
            made = request.getfixturevalue("served")
    made.prepare()
    yield made
    made.close()
