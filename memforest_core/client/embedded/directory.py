"""One process owns a data directory: its layout, the lock that says so, its short socket path."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memforest_core.domain.forks import in_child
from memforest_core.errors import CallerError
from memforest_core.index.socket_index import write_address

LOCK_NAME = "memforest.lock"
NODE_NAME = "node.json"
"""By which settings other processes reach the node that runs in a directory."""
KEY_FILE = "key"
"""The file with the key under which its user reaches the node over HTTP."""

SOCKET_PATH_LIMIT = 103
"""Longest socket path in bytes that Linux (108) and macOS (104) both take, with the final NUL."""

LONGEST_SOCKET_NAME = "/pg/.s.PGSQL.5432"


class DataDirectoryInUse(CallerError):
    """Another open MemForest, in this or in another process, has the directory open."""

    code = "data_directory_in_use"


class DataDirectoryUnusable(CallerError):
    """The path can't be made, written or locked."""

    code = "data_directory_unusable"


class UsedAfterFork(CallerError):
    """The directory was opened in a parent process; a fork has no share in it."""

    code = "used_after_fork"


class DataDirectory:
    """An exclusively locked directory with a place for every part of an embedded node.

    ``path`` is made (mode 0700) when missing. Raises DataDirectoryInUse when it is already open,
    DataDirectoryUnusable when it can't be made or locked. The lock is the kernel's, on an open
    file: it goes with the process, however that ends, and no stale lock file can hold it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self.postgres = self.path / "pg"
        """The database cluster; it exists only once it is complete."""
        self.valkey, self.qdrant, self.logs = self.path / "valkey", self.path / "qdrant", self.path / "logs"
        self._owner_pid = os.getpid()
        self._lock = -1
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _acquire(self.path)
            in_child(self, DataDirectory._release)  # a fork that outlives its parent must not hold the lock
            (self.path / NODE_NAME).unlink(missing_ok=True)  # a killed node's
            for part in (self.qdrant, self.valkey, self.logs):
                part.mkdir(mode=0o700, exist_ok=True)
            self.run = _socket_directory(self.path)
            self.index_socket = self.run / "index" / "socket"
            """Where the vector index is served to other processes."""
            # Before any server runs: a process that finds one must also find the address of the vector index.
            write_address(self.qdrant, self.index_socket)
        except DataDirectoryUnusable:
            self._release()
            raise
        except OSError as error:
            self._release()
            raise DataDirectoryUnusable(
                f"The data directory {self.path} can't be used ({error.strerror}): "
                "choose a directory on a local disk that this user can write."
            ) from error

    def publish(self, addresses: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down, for this user alone, with which settings (by group) other processes reach what runs here."""
        fresh = self.path / f"{NODE_NAME}.new"
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
            json.dump(addresses, written)
        fresh.rename(self.path / NODE_NAME)

    def check_process(self) -> None:
        """Raise UsedAfterFork unless the calling process is the one that opened the directory."""
        if os.getpid() != self._owner_pid:
            raise UsedAfterFork(
                f"The data directory {self.path} belongs to process {self._owner_pid}, from which "
                f"this process ({os.getpid()}) was forked: start it with the spawn method, "
                "or talk to the owner."
            )

    def close(self) -> None:
        """Remove the sockets and release the lock; closing twice is allowed."""
        self.check_process()
        if self._lock >= 0:
            (self.path / NODE_NAME).unlink(missing_ok=True)
            shutil.rmtree(self.run, ignore_errors=True)
            self._release()

    def _release(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def running_node(path: Path) -> dict[str, dict[str, Any]] | None:
    """The settings, by group, with which to reach the node that runs in a directory; None while it is not ready."""
    try:
        found: dict[str, dict[str, Any]] = json.loads((path.expanduser() / NODE_NAME).read_text("utf-8"))
    except FileNotFoundError:
        return None
    return found


def served_at(path: Path) -> tuple[str, str] | None:
    """Address and key with which this user's processes reach a running node over HTTP; None when none answers."""
    server = (running_node(path) or {}).get("server") if is_open(path) else None
    if server is None:
        return None
    return f"http://{server['host']}:{server['port']}", (path.expanduser() / KEY_FILE).read_text().strip()


def is_open(path: Path) -> bool:
    """Whether a process has the data directory open."""
    try:
        lock = os.open(path.expanduser() / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _acquire(directory: Path) -> int:
    lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 4096, 0)
        os.close(lock)
        raise DataDirectoryInUse(
            f"The data directory {directory} is in use by {_describe(holder)}: "
            "close it there, or choose another directory."
        ) from error
    except OSError:
        os.close(lock)
        raise
    since = datetime.now(UTC).isoformat(timespec="seconds")
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps({"pid": os.getpid(), "since": since}).encode(), 0)
    return lock


def _describe(holder: bytes) -> str:
    try:
        record = json.loads(holder)
        pid, since = int(record["pid"]), str(record["since"])
    except (ValueError, KeyError, TypeError):
        return "another process"  # which holds the lock and has not written its name yet
    whose = "this process" if pid == os.getpid() else "process"
    return f"{whose} {pid} since {since}"


def _socket_directory(directory: Path) -> Path:
    """A private directory for sockets, short enough and the same for every start.

    Named by the directory's identity, not its path, so that a long path does not matter and equal
    paths in two containers that share their temporary directory do not meet.
    """
    seen = directory.stat()
    identity = f"{seen.st_dev}:{seen.st_ino}:{os.geteuid()}"
    name = f"mf-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    run = Path(tempfile.gettempdir()) / name
    too_long = len(os.fsencode(run)) + len(LONGEST_SOCKET_NAME) > SOCKET_PATH_LIMIT
    if too_long or os.geteuid() == 0:  # root's own may be closed to the database's account
        run = Path("/tmp") / name  # noqa: S108 - made with mode 0700, and refused when it is not ours
    try:
        run.mkdir(mode=0o700)
    except FileExistsError:
        found = run.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise DataDirectoryUnusable(
                f"The socket directory {run} belongs to somebody else: remove it, "
                "or set TMPDIR to a directory of your own."
            ) from None
    # Under root the database runs as another user, who must pass through to a directory of its own.
    run.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return run
