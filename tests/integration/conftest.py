"""One database and index for each test, or for a module whose tests only read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memforest_core.cli.opener import ProgramOpener
from memforest_core.cli.toolkit.memory_opening import use_opener
from memforest_core.models.calls import Embedder
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, built_in, cloned, grown_by, stack

use_opener(ProgramOpener())  # for tests of single commands


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    return built_in()


@pytest.fixture
def pipeline(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    with stack(servers, tmp_path, embedder=embedder) as running:
        yield running


@pytest.fixture(scope="module")
def grown(
    request: pytest.FixtureRequest,
    servers: SessionServers,
    tmp_path_factory: pytest.TempPathFactory,
    embedder: Embedder,
) -> Iterator[Grown]:
    """What the module's function ``tell`` enqueues, worked to rest once, to be cloned."""
    with grown_by(request.module.tell, servers, tmp_path_factory.mktemp("grown"), embedder) as made:
        yield made


@pytest.fixture
def rested(servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    """A clone of it, for one test."""
    with cloned(servers, grown, tmp_path, embedder) as running:
        yield running


@pytest.fixture(scope="module")
def grown_once(
    servers: SessionServers, grown: Grown, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder
) -> Iterator[Stack]:
    """A clone of it that the module's tests share: they change nothing."""
    with cloned(servers, grown, tmp_path_factory.mktemp("shared"), embedder) as running:
        yield running
