"""One node that serves HTTP, and its memory as each framework and client has it; frameworks report to nobody."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from uuid import uuid4

import pytest

os.environ |= {"LANGSMITH_TRACING": "false", "MEM0_TELEMETRY": "false", "OPENAI_AGENTS_DISABLE_TRACING": "true"}
os.environ |= {"HAYSTACK_TELEMETRY_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}
os.environ["MEM0_DIR"] = tempfile.mkdtemp(prefix="memforest-mem0-")

from memforest_core import MemForest, RemoteMemForest
from tests.contract.memory.conftest import Node, node

__all__ = ["Node", "node"]


@pytest.fixture(scope="session")
def remote(node: Node) -> Iterator[RemoteMemForest]:
    with RemoteMemForest(node.address, node.key()) as memory:
        yield memory


@pytest.fixture(params=["embedded", "remote"])
def memory(request: pytest.FixtureRequest, node: Node, remote: RemoteMemForest) -> MemForest | RemoteMemForest:
    """The two faces that integrations take."""
    return node.memory if request.param == "embedded" else remote


@pytest.fixture
def owner() -> str:
    return f"owner-{uuid4().hex[:12]}"
