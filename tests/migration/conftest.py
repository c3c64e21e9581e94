"""Servers for the migration tests; each test makes databases of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.servers import SessionServers, session_servers


@pytest.fixture(scope="session")
def servers() -> Iterator[SessionServers]:
    with session_servers() as running:
        yield running
