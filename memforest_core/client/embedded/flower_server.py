"""Flower for an embedded node: a page on this machine that shows its queues, tasks and worker."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psutil

from memforest_core.client.embedded import process
from memforest_core.client.embedded.process import EmbeddedServer, ServerFailed, ServerLog
from memforest_core.errors import CallerError
from memforest_workers.flower import ADDRESS, PORT_REFUSED

START_TIMEOUT_S = 30.0
"""It takes two seconds, most of them for imports."""
STOP_PATIENCE_S = 3.0
ANSWER_TIMEOUT_S = 1.0


class PortRefused(CallerError):
    """The port that Flower should serve is taken, or this user may not open it."""

    code = "port_refused"


class EmbeddedFlower(EmbeddedServer):
    """A Flower process that works in ``directory``; it ends with this process, also after kill -9."""

    def __init__(self, directory: Path, log_path: Path) -> None:
        self.log_path = log_path
        self.address = ""
        """The page's URL, after ``start``."""
        self._directory = directory

    def start(self, broker_url: str, port: int) -> None:
        """Serve ``port`` of the loopback address, any free one when it is 0.

        Raises PortRefused, and ServerFailed with the end of the log.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = ServerLog(self.log_path)
        with ExitStack() as undo:
            self._server = server = process.spawn(
                [sys.executable, "-m", "memforest_workers.flower", broker_url, str(port)],
                cwd=self._directory,
                log=log,
                environment=None,
                stdin=subprocess.PIPE,  # open as long as this process lives: that is how Flower knows
            )
            undo.callback(self.stop)
            try:
                process.wait_ready(server, lambda: _answers(server), name="Flower", log=log, timeout_s=START_TIMEOUT_S)
            except ServerFailed:
                if server.poll() == PORT_REFUSED:
                    raise PortRefused(
                        f"Flower can't open port {port}, which is taken or needs more rights: "
                        "choose another with --flower-port, or 0 for a free one."
                    ) from None
                raise
            undo.pop_all()
        self.address = f"http://{ADDRESS}:{_port(server)}"

    @property
    def exit_code(self) -> int | None:
        """How it ended by itself, None while it runs or after ``stop``."""
        return None if self._server is None else self._server.poll()

    def stop(self) -> None:
        """Shut down; after some seconds by force."""
        if self._server is not None:
            server = self._server
            self._end((signal.SIGTERM, STOP_PATIENCE_S))
            server.stdin.close()


def _port(server: psutil.Popen) -> int | None:
    """The port that the process listens on, as the system knows it; None before it does."""
    try:
        found = [conn.laddr.port for conn in server.net_connections("tcp4") if conn.status == psutil.CONN_LISTEN]
    except psutil.NoSuchProcess:
        return None
    return found[0] if found else None


def _answers(server: psutil.Popen) -> bool:
    port = _port(server)
    if port is None:
        return False
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False  # listening, but not serving yet
    finally:
        connection.close()
