"""Embedded servers start fast, keep data, have no port open, and stop with their owner."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import psycopg
import pytest
import redis
import sqlalchemy as sa
from kombu.connection import Connection

from memforest_core.client.embedded import process
from memforest_core.client.embedded.directory import DataDirectory, DataDirectoryInUse
from memforest_core.client.embedded.process import ServerFailed
from memforest_core.client.embedded.servers import EmbeddedServers


def execute(servers: EmbeddedServers, *statements: str) -> list[tuple[object, ...]]:
    """Run and commit each statement; the rows of the last one."""
    url = servers.postgres_url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def running_in(directory: Path) -> set[str]:
    """Names of the servers at work below ``directory``."""
    return {
        found.name()
        for part in ("pg", "pg.new", "valkey")
        for found in process.find_in(directory / part, {"postgres", "initdb", "valkey-server"})
    }


def test_a_first_and_a_second_start_are_fast_and_data_stays(place: Path) -> None:
    began = time.monotonic()
    with EmbeddedServers.start(place / "data") as servers:
        cold_s = time.monotonic() - began
        execute(servers, "create table kept (text text)", "insert into kept values ('Davis')")

    began = time.monotonic()
    with EmbeddedServers.start(place / "data") as servers:
        warm_s = time.monotonic() - began
        assert execute(servers, "select text from kept") == [("Davis",)]

    # On two idle cores 0.5 s and 0.06 s; the bounds leave room for a machine that is busy.
    assert cold_s < 10.0
    assert warm_s < 3.0
    assert running_in(place / "data") == set()


def test_every_form_of_address_reaches_its_server(data: Path) -> None:
    with EmbeddedServers.start(data) as servers:
        engine = sa.create_engine(servers.postgres_url)
        with engine.connect() as connection:
            assert connection.scalar(sa.text("select 1")) == 1
        engine.dispose()

        execute(servers, "create role reader login", "create database other")
        other = servers.postgres.url("reader", "other").replace("+psycopg", "")
        with psycopg.connect(other) as connection:
            row = connection.execute("select current_user, current_database()").fetchone()
            assert row == ("reader", "other")

        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.ping()
        broker = Connection(servers.broker_url)  # type: ignore[no-untyped-call]
        with broker, broker.SimpleQueue("wake") as queue:  # type: ignore[no-untyped-call]
            queue.put({"forest": "f1"})
            assert queue.get(timeout=2).payload == {"forest": "f1"}


def test_settings_are_durable_sorted_alike_and_closed_to_others(data: Path) -> None:
    with EmbeddedServers.start(data) as servers:
        assert execute(
            servers,
            "select current_setting('fsync'), current_setting('synchronous_commit'),"
            " current_setting('TimeZone'), current_setting('jit'),"
            " current_setting('server_encoding')",
        ) == [("on", "on", "UTC", "off", "UTF8")]
        assert execute(servers, "select lower('ÉCOLE')") == [("école",)]
        assert execute(servers, "select distinct type, auth_method from pg_hba_file_rules") == [("local", "peer")]
        assert execute(servers, "select to_tsvector('simple', '“Él” — vivía')::text") == [("'vivía':2 'él':1",)]
        for pid in (servers.postgres.pid, servers.valkey.pid):
            assert psutil.Process(pid).net_connections("inet") == []
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.config_get("save") == {"save": ""}
            assert client.config_get("appendonly") == {"appendonly": "no"}


def test_the_same_process_can_not_open_a_directory_twice(data: Path) -> None:
    with EmbeddedServers.start(data) as servers:
        with pytest.raises(DataDirectoryInUse, match=f"this process {os.getpid()} since"):
            EmbeddedServers.start(data)
        assert execute(servers, "select 1") == [(1,)]
    EmbeddedServers.start(data).close()


def test_a_killed_database_is_started_again_with_all_that_was_committed(data: Path) -> None:
    with EmbeddedServers.start(data) as servers:
        execute(servers, "create table kept (n int)", "insert into kept values (7)")
        servers.postgres.kill()
        assert servers.postgres.pid is None
        assert running_in(data) == {"valkey-server"}

        servers.postgres.start()

        assert execute(servers, "select n from kept") == [(7,)]


def test_a_stale_pid_file_that_names_a_living_stranger_is_not_believed(data: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        stale = f"{stranger.pid}\n{data / 'pg'}\n1700000000\n5432\n/tmp\n\n0 0\nready   \n"
        (data / "pg" / "postmaster.pid").write_text(stale)

        with EmbeddedServers.start(data) as servers:
            assert execute(servers, "select 1") == [(1,)]

        assert stranger.poll() is None
        stranger.kill()


def test_a_server_that_fails_says_why_and_takes_the_others_with_it(data: Path) -> None:
    (data / "pg" / "PG_VERSION").write_text("9\n")

    with pytest.raises(ServerFailed, match="database files are incompatible"):
        EmbeddedServers.start(data)

    assert running_in(data) == set()
    DataDirectory(data).close()


def test_data_of_a_server_in_another_container_is_refused(data: Path) -> None:
    with (data / "pg.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as a server in another container would

        with pytest.raises(ServerFailed, match="still uses"):
            EmbeddedServers.start(data)


def test_a_long_path_below_a_closed_directory_is_as_good_as_any(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    data = closed / ("long" * 20) / ("path" * 20) / "with spaces, a comma and an ü"
    assert len(os.fsencode(data)) > 107

    with EmbeddedServers.start(data) as servers:
        execute(servers, "create table kept (n int)")
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.ping()

    assert closed.stat().st_mode & 0o777 == 0o700
    with EmbeddedServers.start(data) as servers:
        assert execute(servers, "select count(*) from kept") == [(0,)]


@pytest.mark.parametrize("alive", range(4))
def test_a_program_that_ends_between_two_polls_has_done_its_work(alive: int, tmp_path: Path) -> None:
    """Given a caller that waits for the end of a program, then any poll may be the one that sees the end."""
    codes = iter([None] * alive)
    program = SimpleNamespace(poll=lambda: next(codes, 0))
    log = process.ServerLog(tmp_path / "log")
    process.wait_ready(program, lambda: program.poll() == 0, name="initdb", log=log, timeout_s=5.0)
    with pytest.raises(ServerFailed, match="ended while starting"):
        process.wait_ready(program, lambda: False, name="initdb", log=log, timeout_s=5.0)
