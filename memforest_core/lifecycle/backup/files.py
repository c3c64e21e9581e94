"""A backup on disk: a file of rows for each table, a manifest, written last, and the list of deletions to repeat."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from memforest_core.errors import CallerError, InvalidInput, InvalidSettings
from memforest_core.lifecycle.erase.service import RequestedErasure

MANIFEST = "manifest.json"
_FRESH = f"{MANIFEST}.new"
_SUFFIX = ".copy"
BLOCK = 2**20
"""Bytes read at once."""

Block = bytes | bytearray | memoryview
Name = Annotated[str, Field(pattern=r"^[a-z][a-z_0-9]{0,62}$")]
"""Of a table or column; a file's name too, so that no manifest leads out of its directory."""


class BackupUnusable(CallerError):
    """The directory has no whole backup, or can't take one."""

    code = "backup_unusable"


class SavedTable(BaseModel):
    """The rows of one table: a file in Postgres' binary COPY format, with its columns in their order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    columns: tuple[Name, ...]
    rows: int
    bytes: int
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}{_SUFFIX}"


class Manifest(BaseModel):
    """What a backup is of. ``tables`` are in the order in which they can be loaded: parents first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    id: UUID
    made_at: datetime
    """Of the snapshot, on the database's clock."""
    version: str
    revision: str
    """Of the schema."""
    postgres: str
    tables: tuple[SavedTable, ...]


class Destination:
    """A directory that a backup is written into; use ``opened``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @classmethod
    @contextmanager
    def opened(cls, directory: Path) -> Iterator[Destination]:
        """Make the directory (mode 0700) where there is none. What an interrupted backup left is written over.

        Raises BackupUnusable when it has a whole backup or anything else, is in use, or can't be written.
        """
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise BackupUnusable(f"{directory} can't be written ({error.strerror}): choose another.") from None
        try:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BackupUnusable(f"Another backup is being written to {directory}: choose another.") from None
            _check_free(directory)
            yield cls(directory)
            os.fsync(held)
        finally:
            os.close(held)

    def save(self, name: str, columns: Iterable[str], blocks: Iterable[Block]) -> SavedTable:
        """Write a table's rows to disk; ``rows`` is 0 until the caller knows how many."""
        size, digest = 0, hashlib.sha256()
        with _create(self._directory / f"{name}{_SUFFIX}") as file:
            for block in blocks:
                _write(file, block)
                digest.update(block)
                size += len(block)
            os.fsync(file)
        return SavedTable(name=name, columns=tuple(columns), rows=0, bytes=size, sha256=digest.hexdigest())

    def complete(self, manifest: Manifest) -> None:
        """Write the manifest: from now on the backup is a whole one, also after a loss of power."""
        fresh = self._directory / _FRESH
        with _create(fresh) as file:
            _write(file, manifest.model_dump_json(indent=1).encode())
            os.fsync(file)
        fresh.rename(self._directory / MANIFEST)


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a whole backup. Raises BackupUnusable."""
    try:
        return Manifest.model_validate_json((directory / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise BackupUnusable(f"{directory} has no whole backup: it has no {MANIFEST}, which is written last.") from None
    except OSError as error:
        raise BackupUnusable(f"{directory} can't be read ({error.strerror}).") from None
    except ValidationError:
        raise BackupUnusable(f"{directory / MANIFEST} is no manifest that this version can read.") from None


def check_files(directory: Path, manifest: Manifest) -> None:
    """Compare each file with the manifest. Raises BackupUnusable naming the first that differs."""
    for table in manifest.tables:
        digest = hashlib.sha256()
        try:
            for block in blocks_of(directory / table.file):
                digest.update(block)
        except OSError as error:
            raise BackupUnusable(f"{directory / table.file} can't be read ({error.strerror}).") from None
        if digest.hexdigest() != table.sha256:
            raise BackupUnusable(f"{directory / table.file} was changed since the backup: take another backup.")


def blocks_of(file: Path) -> Iterator[bytes]:
    """A file's content, some at a time."""
    with file.open("rb") as opened:
        while block := opened.read(BLOCK):
            yield block


def _check_free(directory: Path) -> None:
    found = [path.name for path in directory.iterdir()]
    if MANIFEST in found:
        raise BackupUnusable(f"{directory} has a backup already: choose another directory.")
    if any(name != _FRESH and not name.endswith(_SUFFIX) for name in found):
        raise BackupUnusable(f"{directory} has other files: choose an empty directory.")


@contextmanager
def _create(path: Path) -> Iterator[int]:
    """A new file for this user alone, never through a link."""
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _write(file: int, block: Block) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(file, rest) :]


def write_list(path: Path, requested: Sequence[RequestedErasure], key: SecretStr | None) -> None:
    """Write a list for this user alone, in place of one that is there, all or nothing. Raises InvalidSettings."""
    lines = "".join(f"{each.model_dump_json()}\n" for each in requested).encode()
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(lines + _signature(lines, key))
        os.fsync(file.fileno())
    fresh.rename(path)


def read_list(path: Path, key: SecretStr | None) -> list[RequestedErasure]:
    """The deletions of a list. Raises InvalidInput for one that is not whole or of another key, InvalidSettings."""
    lines, _, last = path.read_bytes().rpartition(b'{"hmac":')
    if not hmac.compare_digest(_signature(lines, key), b'{"hmac":' + last):
        raise InvalidInput(
            f"{path} was changed, or signed with another MEMFOREST_DATABASE__ERASURES_KEY: export it again."
        )
    try:
        return [RequestedErasure.model_validate_json(line) for line in lines.splitlines()]
    except ValidationError:
        raise InvalidInput(f"{path} is of another version of MemForest: export it again with this one.") from None


def _signature(lines: bytes, key: SecretStr | None) -> bytes:
    if key is None or not key.get_secret_value():
        raise InvalidSettings("Set MEMFOREST_DATABASE__ERASURES_KEY to the secret that signs lists of deletions.")
    return b'{"hmac":"%s"}\n' % hmac.new(key.get_secret_value().encode(), lines, hashlib.sha256).hexdigest().encode()
