"""Flower: in the foreground of a service, or as a child process of an embedded node, with which it ends."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Mapping, Sequence

from celery import Celery

from memforest_core.errors import InvalidSettings

ADDRESS = "127.0.0.1"
"""Flower needs no password here, so nobody else may reach it."""
PORT_REFUSED = 3
"""The exit code that says so: the port is taken, or not for this user."""

READ_ONLY = (
    # No page of another site may stop a worker through it.
    "--read_only=true",
    # Its default of 100,000 needs as much memory.
    "--max_tasks=10000",
    # Seconds; otherwise each replaced worker stays on the page and in the metrics for ever.
    "--purge_offline_workers=300",
)
OPTIONS = (
    f"--address={ADDRESS}",
    *READ_ONLY,
    # Variables may be set for another Flower: those that would move the page do not count here.
    "--url_prefix=",
    "--unix_socket=",
)


PROTECTING = ("FLOWER_BASIC_AUTH", "FLOWER_AUTH")
"""Variables of which one says who may see it: users with passwords, or addresses of an OAuth provider's accounts."""


def refuse_open(variables: Mapping[str, str]) -> None:
    """Raise InvalidSettings unless the variables say who may see it: Flower stops workers for everybody."""
    if not any(variables.get(name) for name in PROTECTING):
        raise InvalidSettings(
            "Flower would let everybody in: set FLOWER_BASIC_AUTH to user:password (or FLOWER_AUTH and an OAuth"
            " provider), or give --insecure."
        )


def serve(address: str, port: int) -> None:
    """Run Flower on the configured broker until SIGTERM or Ctrl-C; FLOWER_... variables set its further options."""
    app = Celery("memforest", set_as_current=False)
    app.config_from_object("memforest_workers.celeryconfig")
    app.start(["flower", f"--address={address}", f"--port={port}", *READ_ONLY])


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or the end of standard input; ``arguments`` are the broker's URL and the port."""
    broker_url, port = arguments
    threading.Thread(target=_end_with_parent, name="memforest-parent", daemon=True).start()
    app = Celery("memforest", set_as_current=False)
    app.config_from_object("memforest_workers.celeryconfig")
    app.conf.broker_url = broker_url
    try:
        app.start(["flower", f"--port={port}", *OPTIONS])
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return PORT_REFUSED
    return 0


def _end_with_parent() -> None:
    """Standard input is a pipe that only the parent has open: the kernel closes it even after kill -9.

    Nothing has to be saved, and the main thread may wait in a call to a broker that is gone as well.
    """
    while os.read(sys.stdin.fileno(), 64):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
