"""Servers of a node that end are started again, a few times, with longer and longer pauses."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from memforest_core.client.embedded import servers
from memforest_core.client.embedded.process import ServerFailed


class Ended:
    """A server that does not run, however often it is started."""

    name = "Postgres"
    log_path = Path("pg.log")
    pid: int | None = None

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails

    def start(self) -> None:
        if self.fails:
            raise ServerFailed("It does not start.")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(servers.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("fails", [True, False])
def test_a_server_that_ends_every_time_is_given_up(clock: list[float], fails: bool) -> None:
    said: list[str] = []
    server = Ended(fails=fails)
    watching = servers.ServerWatch([cast(servers.Server, server)], said.append)
    starts: list[float] = []

    def watch_on() -> None:
        for clock[0] in range(120):
            before = len(said)
            watching.check()
            starts.extend([clock[0]] * (len(said) > before))

    with pytest.raises(ServerFailed, match=r"Postgres ended 5 times within 10 minutes: look at pg\.log"):
        watch_on()

    assert starts == [0, 1, 3, 7, 15]
    assert said[-2] == "Postgres has ended; it is started again (5 of 5 times)."
    assert said[-1] == ("It does not start." if fails else "Postgres is running again.")


def test_after_the_window_it_gets_all_starts_again(clock: list[float]) -> None:
    said: list[str] = []
    watching = servers.ServerWatch([cast(servers.Server, Ended(fails=False))], said.append)
    for clock[0] in (0, servers.WINDOW_S + 1):
        watching.check()
    assert [line for line in said if "again (1 of 5" in line] == said[::2]
