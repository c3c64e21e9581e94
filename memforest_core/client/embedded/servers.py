"""The servers of an embedded node, started and stopped together by a data directory's owner."""

from __future__ import annotations

import atexit
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import psutil

from memforest_core.client.embedded.directory import DataDirectory
from memforest_core.client.embedded.postgres import EmbeddedPostgres
from memforest_core.client.embedded.process import ServerFailed
from memforest_core.client.embedded.valkey import EmbeddedValkey

STARTS = 5
WINDOW_S = 600.0
"""A server gets ``STARTS`` new starts in so many seconds."""
PAUSE_S = 1.0
"""Before the second new start within the window; doubled before each further one."""

Server = EmbeddedPostgres | EmbeddedValkey


class ServerWatch:
    """Restarts servers that end; ``say`` gets a sentence about each change."""

    def __init__(self, servers: Sequence[Server], say: Callable[[str], None]) -> None:
        self._servers = servers
        self._say = say
        self._starts: dict[Server, deque[float]] = {server: deque() for server in servers}
        self._stopped: set[Server] = set()

    def check(self) -> None:
        """Start the servers again that have ended. Raises ServerFailed for one that does not keep running."""
        for server in self._servers:
            pid = server.pid
            if pid is None:
                self._start(server)
            else:
                self._notice_stop(server, pid)

    def _start(self, server: Server) -> None:
        starts, now = self._starts[server], time.monotonic()
        while starts and now - starts[0] > WINDOW_S:
            starts.popleft()
        if starts and now - starts[-1] < PAUSE_S * 2 ** (len(starts) - 1):
            return
        if len(starts) >= STARTS:
            raise ServerFailed(
                f"{server.name} ended {STARTS} times within {WINDOW_S / 60:.0f} minutes: look at {server.log_path},"
                " and start the node again."
            )
        starts.append(now)
        self._say(f"{server.name} has ended; it is started again ({len(starts)} of {STARTS} times).")
        try:
            server.start()
        except ServerFailed as error:
            self._say(error.message)
        else:
            self._say(f"{server.name} is running again.")

    def _notice_stop(self, server: Server, pid: int) -> None:
        try:
            stopped = psutil.Process(pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return  # the next check starts it
        if stopped == (server in self._stopped):
            return
        self._stopped ^= {server}
        state = f"is stopped and answers nothing: continue it with kill -CONT {pid}" if stopped else "answers again"
        self._say(f"{server.name} (process {pid}) {state}.")


CLOSE_DEADLINE_S = 10.0


class EmbeddedServers:
    """Running servers and the locked directory they work in; use ``start``, then ``close``."""

    def __init__(self, directory: DataDirectory) -> None:
        self.directory = directory
        logs, run = directory.logs, directory.run
        self.postgres = EmbeddedPostgres(directory.postgres, run, logs / "postgres.log")
        self.valkey = EmbeddedValkey(run, directory.valkey, logs / "valkey.log")
        self._owner_pid = os.getpid()

    @classmethod
    def start(cls, data_dir: Path) -> Self:
        """Lock ``data_dir`` and start the servers at the same time; all or none.

        Raises DataDirectoryInUse, DataDirectoryUnusable, ServerFailed (with the failing server's
        last log lines), NoServerAccount, EmbeddedPartMissing. What is left open is closed when
        the interpreter ends.
        """
        with ExitStack() as undo:
            directory = DataDirectory(data_dir)
            undo.callback(directory.close)
            servers = cls(directory)
            undo.callback(servers._stop, CLOSE_DEADLINE_S)
            # On the stack, so that an interrupted start is waited for before it is undone.
            threads = undo.enter_context(ThreadPoolExecutor(2, thread_name_prefix="memforest-start"))
            starts = [threads.submit(server.start) for server in (servers.postgres, servers.valkey)]
            for started in starts:
                started.result()
            threads.shutdown()
            undo.pop_all()
        atexit.register(servers._close_at_exit)
        return servers

    @property
    def postgres_url(self) -> str:
        """SQLAlchemy URL of the superuser; ``postgres.url(user, database)`` makes others."""
        return self.postgres.url()

    @property
    def broker_url(self) -> str:
        """Celery's broker URL."""
        return self.valkey.broker_url

    @property
    def redis_url(self) -> str:
        """The same server for the Redis client."""
        return self.valkey.redis_url

    def watch(self, say: Callable[[str], None]) -> ServerWatch:
        """What starts these servers again when they end; ``say`` gets a sentence about each change."""
        return ServerWatch([self.postgres, self.valkey], say)

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

    def _stop(self, deadline_s: float) -> None:
        # One after the other: threads can't be started while the interpreter ends. The broker
        # stores nothing and is gone in milliseconds.
        self.valkey.stop(min(deadline_s, 2.0))
        self.postgres.stop(deadline_s)

    def _close_at_exit(self) -> None:
        if os.getpid() == self._owner_pid:
            self.close()
