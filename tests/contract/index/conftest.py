"""Every implementation of the vector index, each empty and prepared."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from memforest_core.index.qdrant import tended as beside
from memforest_core.index.qdrant.edge import EdgeIndex
from memforest_core.index.qdrant.server import QdrantServerIndex
from memforest_core.index.served.client import ServedIndex
from memforest_core.index.served.server import IndexServer
from memforest_core.index.vector_index import Hits, IndexQuery, VectorIndex
from tests.contract.index.builders import DIMENSION, MODEL
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
def served(tmp_path: Path) -> Iterator[ServedIndex]:
    """A client of the engine over a socket; the owner's side runs in this process."""
    owner = EdgeIndex(tmp_path / "edge", MODEL, DIMENSION)
    owner.prepare()
    with tempfile.TemporaryDirectory(prefix="mf-") as short:
        server = IndexServer(owner, Path(short) / "index" / "socket")
        client = ServedIndex(Path(short) / "index" / "socket", MODEL, DIMENSION, timeout_s=10)
        yield client
        client.close()
        server.close()
        owner.close()


class WithAllBeside(EdgeIndex):
    """Answers when graphs and inverted indexes are there and hold everything."""

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        super().search(queries)
        until(lambda: not self.tending)
        return super().search(queries)


@pytest.fixture(
    params=[
        "edge",
        "edge with graphs and words",
        "edge of another process's node",
        "server over http",
        "server on local mode",
    ]
)
def index(request: pytest.FixtureRequest, prepared: Path, tmp_path: Path) -> Iterator[VectorIndex]:
    """An empty, prepared index; closed at the end."""
    made: VectorIndex
    if request.param == "edge":
        copy_index(prepared / "edge", tmp_path / "edge")
        made = EdgeIndex(tmp_path / "edge", MODEL, DIMENSION)
    elif request.param == "edge with graphs and words":
        request.getfixturevalue("monkeypatch").setattr(beside, "ASKED_BEFORE", 1)
        copy_index(prepared / "edge", tmp_path / "edge")
        made = WithAllBeside(tmp_path / "edge", MODEL, DIMENSION, graph_from=1)
    elif request.param == "edge of another process's node":
        copy_index(prepared / "edge", tmp_path / "edge")
        made = request.getfixturevalue("served")
    elif request.param == "server over http":
        copy_index(prepared / "server", tmp_path / "server")
        server: QdrantHttp = request.getfixturevalue("qdrant_http")
        made = QdrantServerIndex.at(server.url, None, MODEL, DIMENSION, timeout_s=10)
    else:
        made = QdrantServerIndex(lambda: QdrantClient(":memory:"), MODEL, DIMENSION, lock=threading.RLock())
    made.prepare()
    yield made
    made.close()
