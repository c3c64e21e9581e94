"""A real PgBouncer in transaction mode before the session's Postgres, with few connections to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import sqlalchemy as sa
from pydantic import SecretStr

from memforest_core.client.embedded.account import hand_over, server_account
from memforest_core.settings import DatabaseSettings
from tests.harness.servers import SessionServers
from tests.harness.stack import admin

PORT = 6432
"""Only a part of the socket's name."""
PATIENCE_S = 30.0

CONFIG = """
[databases]
* = {server}

[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {directory}
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
logfile = {directory}/log
pidfile = {directory}/pid
"""


def pgbouncer_program() -> str:
    """The installed PgBouncer: a test that needs it fails without it."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise AssertionError("Install PgBouncer first (make pgbouncer; Debian: apt-get install pgbouncer).")
    return found


@contextmanager
def pooled(servers: SessionServers, database: DatabaseSettings, connections: int = 3) -> Iterator[DatabaseSettings]:
    """The same database, its service role's address by way of PgBouncer, which opens at most so many connections."""
    address = sa.make_url(database.url.get_secret_value())
    account = server_account()
    directory = Path(tempfile.mkdtemp(prefix="memforest-pgbouncer-", dir="/tmp"))
    _let_in(servers, account.name if account is not None else None)
    parts = {
        "host": address.query.get("host", address.host),
        "port": address.query.get("port", address.port),
        "user": address.username,
        "password": address.password,
    }
    server = " ".join(f"{name}={value}" for name, value in parts.items() if value)
    config = directory / "pgbouncer.ini"
    config.write_text(CONFIG.format(server=server, port=PORT, directory=directory, connections=connections))
    if account is not None:
        hand_over(directory, account)
    pooler = subprocess.Popen(
        [pgbouncer_program(), str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=account.uid if account is not None else None,
        group=account.gid if account is not None else None,
    )
    through = address.set(host=None, port=None, query={"host": str(directory), "port": str(PORT)})
    settings = database.model_copy(update={"url": SecretStr(through.render_as_string(hide_password=False))})
    try:
        _wait(pooler, through, directory / "log")
        yield settings
    finally:
        pooler.terminate()
        pooler.wait(PATIENCE_S)
        shutil.rmtree(directory)


def _let_in(servers: SessionServers, account: str | None) -> None:
    """The embedded server knows people by their system account; PgBouncer runs under the server's own."""
    if servers.embedded is None or account is None:
        return
    names = servers.embedded.directory.path / "pg" / "pg_ident.conf"
    line = f'owner "{account}" all\n'
    if line not in names.read_text():
        with names.open("a") as file:
            file.write(line)
        admin(servers, "SELECT pg_reload_conf()")


def _wait(pooler: subprocess.Popen[bytes], address: sa.URL, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    plain = address.set(drivername="postgresql").render_as_string(hide_password=False)
    while True:
        try:
            psycopg.connect(plain, connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if pooler.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(log.read_text() if log.exists() else "PgBouncer did not start") from error
            os.sched_yield()
        else:
            return
