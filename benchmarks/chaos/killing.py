"""Where processes are killed: servers, a directory and forking processes of one run's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from memforest_core.client.embedded.servers import EmbeddedServers
from tests.harness.kill_points import Arena, arena
from tests.harness.servers import SessionServers
from tests.harness.stack import make_template

A = TypeVar("A", bound=Arena)


@contextmanager
def place(kind: type[A], processes: int) -> Iterator[A]:
    """An arena of this kind; everything ends with the block."""
    with ExitStack() as undo:
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="memforest-kill-")))
        embedded = undo.enter_context(EmbeddedServers.start(directory / "servers"))
        servers = SessionServers(embedded.postgres_url, embedded.broker_url, embedded.redis_url, embedded)
        make_template(servers)
        yield undo.enter_context(arena(servers, directory, kind, processes))
