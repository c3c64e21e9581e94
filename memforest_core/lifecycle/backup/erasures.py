"""The list of deletions that a restore repeats: JSON lines, and a last one that signs them."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import SecretStr, ValidationError

from memforest_core.errors import InvalidInput, InvalidSettings
from memforest_core.lifecycle.erase.requested import RequestedErasure


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
