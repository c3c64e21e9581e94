"""Watching the servers of a running node: one that has ended is started again, a few times, then the node ends too."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

import psutil

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
