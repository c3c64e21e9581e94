"""The HTTP service and its pages next to a node in the foreground, and the key of this machine's user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memforest_core.cli.toolkit.output import report_progress
from memforest_core.errors import InvalidSettings

if TYPE_CHECKING:
    from memforest_core.client.api import MemForest

HOST = "127.0.0.1"
KEY_NAME = "local"
"""What the key is called in the list of keys and in the audit."""


@dataclass(frozen=True, slots=True)
class ServedPage:
    """Where the pages are, and the file with the key to log in with."""

    address: str
    key_file: Path

    @property
    def lines(self) -> list[str]:
        """How to get there."""
        return [f"Look inside at {self.address}", f"Log in with the key in {self.key_file}"]


@contextmanager
def served_page(
    memory: MemForest, directory: Path, port: int | None = None, *, wanted: bool = True
) -> Iterator[ServedPage | None]:
    """Serve a node's memory on the loopback address while the block runs; None when it is not ``wanted``.

    ``port`` is that of the settings unless given. One that is taken is said on stderr, and a free one is served.
    """
    if not wanted:
        yield None
        return
    from memforest_core.service.http.serving import HttpServer, address_of, listen

    try:
        listening = listen(HOST, memory.settings.server.port if port is None else port)
    except InvalidSettings as error:
        listening = listen(HOST, 0)
        report_progress(f"{error.message} Until then pages are served at {address_of(listening)}.")
    server = HttpServer(memory, listening)
    server.start()
    try:
        page = ServedPage(server.address, local_key(memory, directory))
        if memory.embedded_node is not None:
            memory.embedded_node.publish_server(HOST, listening.getsockname()[1])
        yield page
    finally:
        server.stop()


def local_key(memory: MemForest, directory: Path) -> Path:
    """The file in a data directory with a key that may do everything, for its user alone; made once, and again when
    that key was revoked. Raises StoreUnavailable."""
    from memforest_core.client.embedded.directory import KEY_FILE
    from memforest_core.service.keys.service import Callers, Keys

    file, engine = directory / KEY_FILE, memory.services.engine
    known = file.read_text().strip() if file.exists() else ""
    if known and Callers(engine).find(known) is not None:
        return file
    secret = Keys(engine, memory.settings.server.key_label).create(memory.tenant, KEY_NAME, scope="admin").secret
    written = directory / f"{KEY_FILE}.new"
    written.unlink(missing_ok=True)
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(secret + "\n")
    written.replace(file)
    return file
