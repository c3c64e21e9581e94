"""Calls of a vector index over a Unix domain socket: which there are, and at which socket a node answers them.

A call is an HTTP request, ``POST /<collection>/<method>``, whose arguments and result are JSON. Three calls of a recall
take 2.3 ms more processor time than over a framed protocol (300 recalls of 10,000 points, 600 named ids in a call).
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from memforest_core.index.vector_index import VectorIndex

MAX_BODY = 32 * 2**20
"""Bytes of a request: 256 points of 4,096 dimensions are 25 million."""
ADDRESS_NAME = "served-at.json"


class SocketCall(NamedTuple):
    """A method of the index: its arguments, checked field by field, and its result."""

    arguments: type[BaseModel]
    result: TypeAdapter[Any]


def _call_of(name: str) -> SocketCall:
    method = getattr(VectorIndex, name)
    types = get_type_hints(method, include_extras=True)
    given = {each.name: each.default for each in inspect.signature(method).parameters.values() if each.name != "self"}
    fields: dict[str, Any] = {
        each: (types[each], ... if default is inspect.Parameter.empty else default) for each, default in given.items()
    }
    # Unknown fields are of another version; the open end of an interval is an infinity.
    config = ConfigDict(extra="forbid", ser_json_inf_nan="constants")
    return SocketCall(create_model(name, __config__=config, **fields), TypeAdapter(types["return"]))


_METHODS = (
    *("prepare", "upsert", "delete", "search", "versions", "differing"),
    *("set_aside", "count", "scan", "read_mark", "write_mark"),
)
CALLS = {name: _call_of(name) for name in _METHODS}


class Refused(BaseModel):
    """Why a call failed, as the error of this code."""

    code: str
    message: str
    retry_after: float | None = None


INVALID_REQUEST, TOO_LARGE = "invalid_request", "too_large"
"""Codes of requests that are no calls of the index."""


class _Address(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    directory: str
    """Device and inode of the directory: a copy of it is another one, whose index nobody serves."""
    socket: Path


def write_address(directory: Path, socket: Path) -> None:
    """Write into the engine's ``directory`` at which socket its owner serves the index. Raises OSError."""
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
