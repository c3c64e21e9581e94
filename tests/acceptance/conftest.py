"""Servers shared by the acceptance tests; each test has a database of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.servers import SessionServers, session_servers
from tests.harness.stack import make_template


@pytest.fixture(scope="session")
def servers() -> Iterator[SessionServers]:
    with session_servers() as running:
        make_template(running)
        yield running
