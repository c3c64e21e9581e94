"""Server processes from outside: starting, waiting until ready, stopping, finding left-overs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import psutil

from memforest_core.client.embedded.account import Account
from memforest_core.domain.extras import pip_line
from memforest_core.errors import CallerError, PermanentError

POLL_S = 0.01
LOG_LIMIT_BYTES = 10_000_000
"""A log longer than this is set aside at the next start; one older log stays."""
LOG_TAIL_LINES = 12
KILL_WAIT_S = 5.0


class ServerFailed(PermanentError):
    """A server of the embedded node did not come up, or can't be stopped."""

    code = "server_failed"


class EmbeddedPartMissing(CallerError):
    """A wheel of the extra ``memforest[embedded]`` is not installed."""

    code = "embedded_part_missing"


def package_directory(package: str) -> Path:
    """Where an installed package lies, without importing it; raises EmbeddedPartMissing."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPartMissing(f"The Python package {package} is not installed: {pip_line('memforest[embedded]')}.")
    return Path(next(iter(spec.submodule_search_locations)))


class ServerLog:
    """The log file of one server, with the part written since this start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and path.stat().st_size > LOG_LIMIT_BYTES:
            path.replace(path.with_suffix(path.suffix + ".old"))
        path.touch(mode=0o600)
        self._start = path.stat().st_size

    def tail(self) -> str:
        """The last lines since this start, at most LOG_TAIL_LINES."""
        with self.path.open("rb") as log:
            log.seek(self._start)
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:]) or "(the log is empty)"


class EmbeddedServer:
    """A server process that this process started, if it runs."""

    _server: psutil.Popen | None = None

    @property
    def pid(self) -> int | None:
        """The running server's process id, None when it does not run."""
        if self._server is None or self._server.poll() is not None:
            return None
        return int(self._server.pid)

    def _end(self, *steps: tuple[signal.Signals, float], others: Iterable[psutil.Process] = ()) -> None:
        """Stop the server, and ``others`` with it: each signal has its seconds of patience, SIGKILL comes last."""
        if self._server is not None:
            stop([self._server, *others], (*steps, (signal.SIGKILL, KILL_WAIT_S)))
            self._server = None


def spawn(
    argv: Sequence[str],
    *,
    cwd: Path,
    log: ServerLog,
    account: Account | None = None,
    pass_files: Collection[int] = (),
    environment: Mapping[str, str] | None = MappingProxyType({"PATH": os.defpath, "LC_ALL": "C"}),
    stdin: int = subprocess.DEVNULL,
) -> psutil.Popen:
    """Start ``argv`` in a session of its own, under ``account`` if given, logging to ``log``.

    A session of its own, because Ctrl-C goes to the whole foreground group and would stop the
    servers before their owner has closed. ``keep`` are file descriptors that the server inherits;
    an ``environment`` of None is this process's own.
    """
    with log.path.open("ab") as output:
        try:
            return psutil.Popen(
                list(argv),
                cwd=cwd,
                env=environment,
                stdin=stdin,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=tuple(pass_files),
                user=None if account is None else account.uid,
                group=None if account is None else account.gid,
                extra_groups=None if account is None else (),
                umask=0o077,
            )
        except OSError as error:
            raise ServerFailed(f"{argv[0]} can't be started: {error}.") from error


def wait_ready(
    process: psutil.Popen, is_ready: Callable[[], bool], *, name: str, log: ServerLog, timeout_s: float
) -> None:
    """Return once ``is_ready()``; raise ServerFailed, with the log's end, if it never is."""
    deadline = time.monotonic() + timeout_s
    while True:
        # Checked first: one that ends meanwhile may have done what it was started for.
        code = process.poll()
        if is_ready():
            return
        if code is not None:
            raise ServerFailed(f"{name} ended while starting (exit {code}):\n{log.tail()}")
        if time.monotonic() > deadline:
            raise ServerFailed(f"{name} was not ready after {timeout_s:g} s:\n{log.tail()}")
        time.sleep(POLL_S)


def find_in(directory: Path, names: Collection[str]) -> list[psutil.Process]:
    """Processes called one of ``names`` whose working directory is ``directory``.

    Every server here works inside its own data directory for as long as it lives. That identifies
    it without trusting a pid file, whose number may by now belong to somebody else.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() in names and Path(process.cwd()) == directory:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # gone, or of another user: then it can't be one of ours
    return found


def stop(processes: Iterable[psutil.Process], steps: Sequence[tuple[signal.Signals, float]]) -> bool:
    """Send each signal of ``steps`` and wait its seconds, until all processes are gone.

    Returns whether they are.
    """
    left = [process for process in processes if not _gone(process)]
    for number, patience_s in steps:
        for process in left:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue
        deadline = time.monotonic() + patience_s
        while left and time.monotonic() <= deadline:
            left = [process for process in left if not _gone(process)]
            if left:
                time.sleep(POLL_S)
        if not left:
            return True
    return not left


def _gone(process: psutil.Process) -> bool:
    if isinstance(process, psutil.Popen):
        return process.poll() is not None
    try:
        # Nobody may reap an orphan in a container: a zombie is over all the same.
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
