"""``memforest flower``: the page that shows queues and workers, for those who may look."""

from __future__ import annotations

from typing import Annotated

import typer


def flower(
    address: Annotated[
        str, typer.Option(envvar="FLOWER_ADDRESS", help="Where it listens; 0.0.0.0 is everywhere.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="FLOWER_PORT", min=0, max=65_535, help="Its port.")] = 5555,
    insecure: Annotated[bool, typer.Option("--insecure", help="Let everybody in, without a password.")] = False,
) -> None:
    """Show queues, workers and tasks as a page, without a word of what was said, until Ctrl-C or SIGTERM.

    FLOWER_BASIC_AUTH=user:password says who may look; /metrics and /healthcheck answer everybody.
    """
    import os

    from memforest_workers.flower import refuse_open, serve

    if not insecure:
        refuse_open(os.environ)
    serve(address, port)
