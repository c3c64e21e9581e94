"""One node; the memory as it is there, as another process connects to it, and as a client reaches it over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from memforest_core.client.api import MemForest
from memforest_core.client.embedded.node import addresses
from memforest_core.client.remote.remote_memory import RemoteMemForest
from memforest_core.service.http.serving import HttpServer, listen
from memforest_core.service.keys.service import Keys
from memforest_core.settings import load_settings

FACES = ("embedded", "connected", "remote")


@dataclass(frozen=True)
class Node:
    """A running node that serves HTTP."""

    memory: MemForest
    address: str

    @property
    def keys(self) -> Keys:
        return Keys(self.memory.services.engine)

    def key(self, tenant: str | None = None, **options: object) -> str:
        """The secret of a new key."""
        own = self.memory.tenant if tenant is None else tenant
        return self.keys.create(own, "test", **{"scope": "admin", **options}).secret  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with MemForest.embedded(tmp_path_factory.mktemp("node")) as memory:
        server = HttpServer(memory, listen("127.0.0.1", 0))
        server.start()
        yield Node(memory, server.address)
        server.stop()


@pytest.fixture(scope="session")
def memories(node: Node) -> Iterator[dict[str, MemForest]]:
    """Each kind of memory by its name. The remote one has the same methods, as a test of signatures shows."""
    connected = MemForest.connect(load_settings(**addresses(node.memory.settings)))
    remote = RemoteMemForest(node.address, node.key())
    yield {"embedded": node.memory, "connected": connected, "remote": remote}  # type: ignore[dict-item]
    connected.close()
    remote.close()


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def memory(memories: dict[str, MemForest], face: str) -> MemForest:
    return memories[face]
