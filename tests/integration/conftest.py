"""One set of servers for the session, one database and index for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import SessionServers, session_servers
from tests.support.stack import Stack, make_template, stack


@pytest.fixture(scope="session")
def servers() -> Iterator[SessionServers]:
    with session_servers() as running:
        make_template(running)
        yield running


@pytest.fixture
def pipeline(servers: SessionServers, tmp_path: Path) -> Iterator[Stack]:
    with stack(servers, tmp_path) as running:
        yield running
