"""What a process that is MemForest's alone sets for itself; as a library it leaves its process as it is."""

from __future__ import annotations

import gc
import os

COLLECT_AFTER = (20_000, 20, 20)
"""Objects made until the collector searches for cycles, and how often it does so among young ones before older ones.
Python's own 700, 10 and 10 cost a recall 7% of its CPU (ADR 41)."""


def set_up_process() -> None:
    """To be called before numpy is imported, whose library then starts its threads.

    These threads spin while they wait for a next product, and so take the processors from Postgres and other callers.
    Somebody's own ``OPENBLAS_NUM_THREADS`` stays.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(*COLLECT_AFTER)
