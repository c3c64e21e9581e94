"""A Redis for the suite, empty for each test, and one that a test may stop and kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.models.limits.call_limits import PREFIX, CallLimits, open_redis
from memforest_core.models.limits.model_limits import ModelLimits
from tests.contract.limits.limited import limits_of
from tests.harness.servers import SessionServers


@pytest.fixture
def redis_url(servers: SessionServers) -> Iterator[str]:
    client = Redis.from_url(servers.redis_url)
    forget_all(client)
    yield servers.redis_url
    forget_all(client)
    client.close()


def forget_all(client: Redis) -> None:
    """Nothing else on a server that somebody lent us is touched."""
    for key in client.scan_iter(f"{PREFIX}*"):
        client.delete(key)


@pytest.fixture
def opened(redis_url: str) -> Iterator[Callable[..., CallLimits]]:
    """Opens instances as so many worker processes would."""
    instances: list[CallLimits] = []

    def opening(limits: ModelLimits | None = None, *, processes: int = 2, url: str = redis_url) -> CallLimits:
        instances.append(CallLimits(open_redis(url), limits or limits_of(), processes))
        return instances[-1]

    yield opening
    for instance in instances:
        instance.close()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[EmbeddedServers]:
    """A Redis of the test's own, to break."""
    with EmbeddedServers.start(tmp_path / "own") as running:
        yield running
