"""Real Postgres and Valkey for a test session: at addresses that are given, else embedded."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from memforest_core.client.embedded.servers import EmbeddedServers

POSTGRES_VARIABLE = "MEMFOREST_TEST_POSTGRES_URL"
REDIS_VARIABLE = "MEMFOREST_TEST_REDIS_URL"
MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Free bytes; the databases of all tests need a few hundred million."""


@dataclass(frozen=True, slots=True)
class SessionServers:
    """Addresses for one test session; ``embedded`` has the servers that this session started."""

    postgres_url: str
    """SQLAlchemy URL of a role that may make roles and databases."""
    broker_url: str
    """For Celery."""
    redis_url: str
    """For the Redis client."""
    embedded: EmbeddedServers | None


def data_place() -> Path | None:
    """Where a session's databases lie: in memory, where a flush costs nothing, and what was written outlives a killed
    process as it does on a disk. None, for the usual place, where memory is short or no program may run from it."""
    if not MEMORY.is_dir() or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return None
    return MEMORY if shutil.disk_usage(MEMORY).free > ROOM else None


@contextmanager
def session_servers() -> Iterator[SessionServers]:
    """Yield running servers; what was started here is stopped, and its data removed, at the end."""
    postgres_url = os.environ.get(POSTGRES_VARIABLE)
    redis_url = os.environ.get(REDIS_VARIABLE)
    if postgres_url and redis_url:
        yield SessionServers(postgres_url, redis_url, redis_url, embedded=None)
        return
    with ExitStack() as stack:
        data = Path(tempfile.mkdtemp(prefix="memforest-tests-", dir=data_place()))
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        servers = stack.enter_context(EmbeddedServers.start(data))
        yield SessionServers(
            postgres_url or servers.postgres_url,
            redis_url or servers.broker_url,
            redis_url or servers.redis_url,
            embedded=servers,
        )
