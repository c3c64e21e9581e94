"""Every implementation of the vector index, each empty and prepared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from memforest_core.adapters.qdrant.edge import EdgeIndex
from memforest_core.adapters.qdrant.server import QdrantServerIndex
from memforest_core.ports.index import VectorIndex
from tests.contract.index.builders import DIMENSION, MODEL
from tests.support.qdrant_http import QdrantHttp


@pytest.fixture
def qdrant_http(tmp_path: Path) -> Iterator[QdrantHttp]:
    """A Qdrant server over HTTP on the real engine, in a thread of this process."""
    server = QdrantHttp(tmp_path / "server")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["edge", "server over http", "server on local mode"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorIndex]:
    """An empty, prepared index; closed at the end."""
    made: VectorIndex
    if request.param == "edge":
        made = EdgeIndex(tmp_path / "edge", MODEL, DIMENSION)
    elif request.param == "server over http":
        server: QdrantHttp = request.getfixturevalue("qdrant_http")
        made = QdrantServerIndex.at(server.url, None, MODEL, DIMENSION, timeout_s=10)
    else:
        made = QdrantServerIndex(lambda: QdrantClient(":memory:"), MODEL, DIMENSION, lock=threading.RLock())
    made.prepare()
    yield made
    made.close()
