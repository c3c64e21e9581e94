"""The command line ``memforest``; what a command needs is imported when it runs."""

from __future__ import annotations

import gc
import os

COLLECT_AFTER = (20_000, 20, 20)
"""Objects made until the collector searches for cycles, and how often it does so among young ones before older ones.
Python's own 700, 10 and 10 cost a recall 7% of its CPU (ADR 41)."""


def set_up_process() -> None:
    """Settings of a process that is MemForest's alone, made before numpy is imported, whose library starts threads.

    These threads spin while they wait for a next product, and so take the processors from Postgres and other callers.
    Somebody's own ``OPENBLAS_NUM_THREADS`` stays.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(*COLLECT_AFTER)


def main() -> None:
    """Run the command line; see ``memforest_core.cli.toolkit.output`` for exit codes."""
    set_up_process()
    from memforest_core.cli.program import app

    app()
