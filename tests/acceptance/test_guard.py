"""What a killed run started ends with it."""

from __future__ import annotations

import subprocess
import sys

import psutil

STARTS = """
import subprocess, sys, time
from tests.harness.guard import Guard
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
Guard().watch(child.pid)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_what_a_process_started_ends_when_it_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    _, alive = psutil.wait_procs([child], timeout=30)
    assert alive == []
