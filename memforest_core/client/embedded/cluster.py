"""A Postgres cluster on disk: made whole or not at all, and put right before each start."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from memforest_core.client.embedded import process
from memforest_core.client.embedded.account import Account, hand_over, owner_name
from memforest_core.client.embedded.process import ServerLog

SUPERUSER = "postgres"
INITDB_TIMEOUT_S = 120.0
"""It takes half a second; a slow disk syncs about a thousand files."""
ORPHAN_PATIENCE_S = 10.0
QUIT_PATIENCE_S = 3.0

INITDB_OPTIONS: Final = (
    f"--username={SUPERUSER}",
    "--encoding=UTF8",
    # The built-in provider sorts alike on every machine and needs no locale of the system's.
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
    # Text search and trigrams still ask the system which characters are letters.
    f"--lc-ctype={'en_US.UTF-8' if sys.platform == 'darwin' else 'C.UTF-8'}",
    "--auth=peer",
    "--no-instructions",
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The files of one database server, and who runs which programs on them."""

    directory: Path
    programs: Path
    account: Account | None
    """Whom the files belong to when it is not the current user."""
    log: ServerLog

    @property
    def making(self) -> Path:
        """Where a new cluster grows until it is renamed to ``directory``."""
        return self.directory.with_name(f"{self.directory.name}.new")

    def argument(self, directory: Path) -> str:
        """How a server that works in ``directory`` finds it, whatever lies above and is closed."""
        return str(directory) if self.account is None else "/proc/self/cwd"

    def servers(self) -> list[psutil.Process]:
        """The server at work here and its backends."""
        return process.find_in(self.directory, {"postgres"})

    def stop_orphans(self) -> None:
        """Shut down what an earlier owner left running: in order, else by force."""
        kill = ((signal.SIGKILL, process.KILL_WAIT_S),)
        process.stop(process.find_in(self.making, {"initdb", "postgres"}), kill)
        family = self.servers()
        members = {member.pid for member in family}
        # A signal to the first process ends all; what has lost its first process is over anyway.
        first = [member for member in family if _parent(member) not in members]
        process.stop(first, ((signal.SIGINT, ORPHAN_PATIENCE_S), (signal.SIGQUIT, QUIT_PATIENCE_S)))
        process.stop(self.servers(), kill)

    def make(self, lock: int) -> None:
        """Make the cluster; ``lock`` is a descriptor that the programs inherit."""
        shutil.rmtree(self.making, ignore_errors=True)
        self.making.mkdir(mode=0o700)
        self._hand_to_account(self.making)
        initdb = process.spawn(
            [str(self.programs / "initdb"), "-D", self.argument(self.making), *INITDB_OPTIONS],
            cwd=self.making,
            log=self.log,
            account=self.account,
            pass_files=[lock],
        )
        try:
            process.wait_ready(
                initdb, lambda: initdb.poll() == 0, name="initdb", log=self.log, timeout_s=INITDB_TIMEOUT_S
            )
        finally:
            process.stop([initdb], ((signal.SIGTERM, 1.0), (signal.SIGKILL, process.KILL_WAIT_S)))
        self.making.rename(self.directory)
        parent = os.open(self.directory.parent, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    def prepare(self, sockets: Path) -> None:
        """Set owners, access rules and an empty socket directory, with no server at work."""
        self._hand_to_account(self.directory)
        # No server runs here, so the file is stale; Postgres would trust its process id, which may be in use again.
        (self.directory / "postmaster.pid").unlink(missing_ok=True)
        self._write("pg_hba.conf", "local all all peer map=owner\n")
        self._write("pg_ident.conf", f'owner "{owner_name()}" all\n')
        shutil.rmtree(sockets, ignore_errors=True)
        sockets.mkdir(mode=0o700)
        self._hand_to_account(sockets)

    def is_ready(self) -> bool:
        """Whether the server takes connections: the eighth line of its pid file says so."""
        try:
            lines = (self.directory / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready"

    def _write(self, name: str, text: str) -> None:
        """Replace a file, never through a link: the directory may be another account's."""
        path = self.directory / name
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        self._hand_to_account(path)

    def _hand_to_account(self, path: Path) -> None:
        if self.account is not None:
            hand_over(path, self.account)


def _parent(member: psutil.Process) -> int | None:
    try:
        return member.ppid()
    except psutil.NoSuchProcess:
        return None
