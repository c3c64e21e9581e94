"""One node that serves HTTP, and its memory as each framework and client has it; frameworks report to nobody."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

os.environ |= {"LANGSMITH_TRACING": "false", "MEM0_TELEMETRY": "false", "OPENAI_AGENTS_DISABLE_TRACING": "true"}

from memforest_core import AsyncMemForest, MemForest, RemoteMemForest
from memforest_core.service.http.serving import HttpServer, listen
from memforest_core.service.keys.service import Keys


@dataclass(frozen=True)
class Node:
    """A running node that serves HTTP."""

    memory: MemForest
    address: str

    def key(self, tenant: str | None = None, **options: object) -> str:
        """The secret of a new key."""
        keys = Keys(self.memory.services.engine)
        return keys.create(tenant or self.memory.tenant, "test", **{"scope": "write", **options}).secret  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    os.environ["MEM0_DIR"] = str(tmp_path_factory.mktemp("mem0"))
    with MemForest.embedded(tmp_path_factory.mktemp("node")) as memory:
        server = HttpServer(memory, listen("127.0.0.1", 0))
        server.start()
        yield Node(memory, server.address)
        server.stop()


@pytest.fixture(scope="session")
def remote(node: Node) -> Iterator[RemoteMemForest]:
    with RemoteMemForest(node.address, node.key(scope="admin")) as memory:
        yield memory


@pytest.fixture(params=["embedded", "remote"])
def memory(request: pytest.FixtureRequest, node: Node, remote: RemoteMemForest) -> MemForest | RemoteMemForest:
    """The two faces that integrations take."""
    return node.memory if request.param == "embedded" else remote


@pytest.fixture
def async_memory(node: Node) -> AsyncMemForest:
    return AsyncMemForest(node.memory, threads=4)


@pytest.fixture
def owner() -> str:
    return f"owner-{uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")
