"""The servers of an embedded node, started and stopped together by a data directory's owner."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from memforest_core.client.embedded.directory import DataDirectory
from memforest_core.client.embedded.postgres import EmbeddedPostgres
from memforest_core.client.embedded.valkey import EmbeddedValkey
from memforest_core.client.embedded.watch import ServerWatch
from memforest_core.errors import CallerError

CLOSE_DEADLINE_S = 10.0


class ServerNotStarted(CallerError):
    """The URL of a server was requested that was left out at the start."""

    code = "server_not_started"


class EmbeddedServers:
    """Running servers and the locked directory they work in; use ``start``, then ``close``."""

    def __init__(
        self, directory: DataDirectory, postgres: EmbeddedPostgres | None, valkey: EmbeddedValkey | None
    ) -> None:
        self.directory = directory
        self.postgres = postgres
        self.valkey = valkey
        self._owner_pid = os.getpid()

    @classmethod
    def start(cls, data_dir: Path, *, postgres: bool = True, valkey: bool = True) -> Self:
        """Lock ``data_dir`` and start the named servers at the same time; all or none.

        Raises DataDirectoryInUse, DataDirectoryUnusable, ServerFailed (with the failing server's
        last log lines), NoServerAccount, EmbeddedPartMissing. What is left open is closed when
        the interpreter ends.
        """
        with ExitStack() as undo:
            directory = DataDirectory(data_dir)
            undo.callback(directory.close)
            logs, run = directory.logs, directory.run
            servers = cls(
                directory,
                EmbeddedPostgres(directory.postgres, run, logs / "postgres.log") if postgres else None,
                EmbeddedValkey(run, directory.valkey, logs / "valkey.log") if valkey else None,
            )
            undo.callback(servers._stop, CLOSE_DEADLINE_S)
            # On the stack, so that an interrupted start is waited for before it is undone.
            threads = undo.enter_context(ThreadPoolExecutor(2, thread_name_prefix="memforest-start"))
            starts = [
                threads.submit(server.start) for server in (servers.postgres, servers.valkey) if server is not None
            ]
            for started in starts:
                started.result()
            threads.shutdown()
            undo.pop_all()
        atexit.register(servers._close_at_exit)
        return servers

    @property
    def postgres_url(self) -> str:
        """SQLAlchemy URL of the superuser; ``postgres.url(user, database)`` makes others."""
        return self._running_postgres().url()

    def service_url(self, role: str) -> str:
        """SQLAlchemy URL of another role on the same database."""
        return self._running_postgres().url(user=role)

    @property
    def broker_url(self) -> str:
        """Celery's broker URL."""
        return self._running_valkey().broker_url

    @property
    def redis_url(self) -> str:
        """The same server for the Redis client."""
        return self._running_valkey().redis_url

    def watch(self, say: Callable[[str], None]) -> ServerWatch:
        """What starts these servers again when they end; ``say`` gets a sentence about each change."""
        return ServerWatch([server for server in (self.postgres, self.valkey) if server is not None], say)

    def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        """Stop the servers, by force after ``deadline_s`` seconds, and release the directory.

        Closing twice is allowed; in a forked process it raises UsedAfterFork and stops nothing.
        """
        self.directory.check_process()
        self._stop(deadline_s)
        self.directory.close()
        atexit.unregister(self._close_at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running_postgres(self) -> EmbeddedPostgres:
        if self.postgres is None:
            raise ServerNotStarted("Postgres was left out: start with postgres=True.")
        return self.postgres

    def _running_valkey(self) -> EmbeddedValkey:
        if self.valkey is None:
            raise ServerNotStarted("Valkey was left out: start with valkey=True.")
        return self.valkey

    def _stop(self, deadline_s: float) -> None:
        # One after the other: threads can't be started while the interpreter ends. The broker
        # stores nothing and is gone in milliseconds.
        if self.valkey is not None:
            self.valkey.stop(min(deadline_s, 2.0))
        if self.postgres is not None:
            self.postgres.stop(deadline_s)

    def _close_at_exit(self) -> None:
        if os.getpid() == self._owner_pid:
            self.close()
