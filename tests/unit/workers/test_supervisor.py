"""What several processes under one command share."""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import gc, os, signal
from memforest_workers.supervisor import Supervisor

def child(place: int, parent: int) -> int:
    os.write(2, str(gc.get_freeze_count() > 10_000).encode())  # the parent writes its log to stdout
    os.kill(parent, signal.SIGTERM)
    signal.pause()  # a child that ended might be restarted before the parent stops
    return 0

Supervisor(1, child, 5.0).run()
"""


def test_a_child_collects_nothing_of_what_its_parent_made() -> None:
    """A collection writes to each object that it visits: the pages that they share would become the child's own."""
    ended = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stderr == "True"
