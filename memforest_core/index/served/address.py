"""Where a node serves its index: a file beside the engine's own, so that whoever is given that directory finds it."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

ADDRESS_NAME = "served-at.json"


class _Address(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    directory: str
    """Device and inode of the directory: a copy of it is another one, whose index nobody serves."""
    socket: Path


def write_address(directory: Path, socket: Path) -> None:
    """Say in the engine's ``directory`` that its owner serves the index at ``socket``. Raises OSError."""
    file = directory / ADDRESS_NAME
    fresh = file.with_suffix(".new")
    fresh.write_text(_Address(directory=_identity(directory), socket=socket).model_dump_json(), "utf-8")
    fresh.rename(file)


def read_address(directory: Path) -> Path | None:
    """The socket at which the owner of this directory serves the index; None when no node owns it."""
    try:
        found = _Address.model_validate_json((directory / ADDRESS_NAME).read_text("utf-8"))
        own = found.directory == _identity(directory)
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
    return found.socket if own else None


def _identity(directory: Path) -> str:
    seen = directory.stat()
    return f"{seen.st_dev}:{seen.st_ino}"
