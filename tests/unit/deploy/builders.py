"""The repository's own files, as the deploy tests read them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]

_LOCKED = re.compile(r"^(?P<name>[a-z0-9._-]+)==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\]+?))? \\$")
_HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


def project() -> dict[str, Any]:
    """The ``project`` table of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        table: dict[str, Any] = tomllib.load(file)["project"]
    return table


def declared() -> Iterator[tuple[str, Requirement]]:
    """Every dependency with the extra that brings it, "" for those of every installation."""
    table = project()
    for extra, lines in {"": table["dependencies"], **table["optional-dependencies"]}.items():
        for line in lines:
            yield extra, Requirement(line)


def locked(name: str) -> dict[str, set[str]]:
    """Versions by package of a lock file; a version may differ by Python version. Every line is accounted for."""
    versions: dict[str, set[str]] = {}
    hashes = 1
    for line in (ROOT / name).read_text().splitlines():
        match = _LOCKED.match(line)
        if match is None:
            assert _HASH.match(line), f"{name}: {line!r} is neither an exact version nor a hash"
            hashes += 1
            continue
        assert hashes, f"{name}: the package before {line!r} has no hash"
        hashes = 0
        versions.setdefault(match["name"], set()).add(match["version"])
    assert hashes, f"{name}: the last package has no hash"
    return versions
