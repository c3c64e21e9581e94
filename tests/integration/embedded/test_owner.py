"""What becomes of the servers when the process that owns them is interrupted, killed or forked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from memforest_core.client.embedded import process
from memforest_core.client.embedded.directory import DataDirectoryInUse
from memforest_core.client.embedded.servers import EmbeddedServers

StartOwner = Callable[[str], Any]
"""Given the mode, an ``Owner`` of the neighbouring conftest."""


def servers_of(directory: Path) -> set[int]:
    """Process ids of all servers at work below ``directory``."""
    return {
        found.pid
        for part in ("pg", "pg.new", "valkey")
        for found in process.find_in(directory / part, {"postgres", "initdb", "valkey-server"})
    }


def over(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def eventually(is_valid: Callable[[], bool], *, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while not is_valid():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def test_a_second_process_is_refused_with_the_id_of_the_owning_process(data: Path, owner: StartOwner) -> None:
    first = owner("wait").reported()

    with pytest.raises(DataDirectoryInUse, match=f"process {first['pid']} since") as refused:
        EmbeddedServers.start(data)

    assert refused.value.code == "data_directory_in_use"
    assert not over(first["postgres"])
    assert not over(first["valkey"])


@pytest.mark.usefixtures("data")
def test_ctrl_c_reaches_the_owner_and_not_its_servers(owner: StartOwner) -> None:
    running = owner("wait")
    first = running.reported()

    running.interrupt_group()

    assert running.reported() == {"after_interrupt": [True, True]}
    assert running.reported() == {"closed": True}
    assert over(first["postgres"])
    assert over(first["valkey"])


def test_an_owner_that_forgets_to_close_leaves_nothing_behind(data: Path, owner: StartOwner) -> None:
    running = owner("leave")
    running.reported()

    assert running.process.wait(30) == 0

    assert servers_of(data) == set()


def test_after_kill_9_of_the_owner_the_next_start_is_clean(data: Path, owner: StartOwner) -> None:
    running = owner("wait")
    first = running.reported()
    with psycopg.connect(first["conninfo"]) as connection:
        connection.execute("create table kept (n int)")
        connection.execute("insert into kept values (1)")

    running.kill()
    orphans = servers_of(data)
    assert {first["postgres"], first["valkey"]} < orphans

    with EmbeddedServers.start(data) as servers:
        assert all(over(pid) for pid in orphans)
        url = servers.postgres_url.replace("+psycopg", "")
        with psycopg.connect(url) as connection:
            assert connection.execute("select n from kept").fetchall() == [(1,)]
    assert servers_of(data) == set()


def test_after_kill_9_of_owner_and_servers_the_next_start_recovers(data: Path, owner: StartOwner) -> None:
    running = owner("wait")
    first = running.reported()
    with psycopg.connect(first["conninfo"]) as connection:
        connection.execute("create table kept as select 5 as n")

    running.kill()
    for name in ("postgres", "valkey"):  # the backends are left to notice by themselves
        psutil.Process(first[name]).kill()

    with EmbeddedServers.start(data) as servers:
        url = servers.postgres_url.replace("+psycopg", "")
        with psycopg.connect(url) as connection:
            assert connection.execute("select n from kept").fetchall() == [(5,)]


@pytest.mark.parametrize("orphaned", [True, False], ids=["initdb lives on", "initdb died too"])
def test_a_half_made_cluster_is_rebuilt(place: Path, owner: StartOwner, orphaned: bool) -> None:
    making = place / "data" / "pg.new"
    running = owner("leave")
    assert eventually(lambda: (making / "global").exists())
    running.kill()
    if not orphaned:
        for found in process.find_in(making, {"initdb", "postgres"}):
            with suppress(psutil.NoSuchProcess):  # postgres ends with the initdb that began it
                found.kill()
    assert not (place / "data" / "pg").exists()

    with EmbeddedServers.start(place / "data") as servers:
        url = servers.postgres_url.replace("+psycopg", "")
        with psycopg.connect(url) as connection:
            assert connection.execute("select 1").fetchone() == (1,)

    assert not making.exists()
    assert servers_of(place / "data") == set()


def test_a_fork_is_refused_and_does_not_keep_the_lock(data: Path, owner: StartOwner) -> None:
    running = owner("fork")
    first = running.reported()

    child = running.reported()

    assert len(child["refused"]) == 2
    assert all(f"belongs to process {first['pid']}" in message for message in child["refused"])
    assert not over(first["postgres"])
    with pytest.raises(DataDirectoryInUse):
        EmbeddedServers.start(data)

    running.kill()
    assert not over(child["child"])
    EmbeddedServers.start(data).close()
    os.kill(child["child"], 9)
