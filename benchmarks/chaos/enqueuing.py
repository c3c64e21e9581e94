"""A process that enqueues conversations from many threads and is killed before it has sent any wake-up.

``python -m benchmarks.chaos.enqueuing`` reads its settings and conversations as one JSON line from stdin, says
``ready`` once everything slow is imported, enqueues when a second line comes, and then waits to be killed.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from memforest_core.client.producer import MemForestClient
from tests.harness.processes import settings_from


def main() -> None:
    """Run as a process of its own."""
    order = json.loads(sys.stdin.readline())
    client = MemForestClient(settings_from(order["variables"]))
    print("ready", flush=True)
    sys.stdin.readline()
    sessions = order["sessions"]
    with ThreadPoolExecutor(len(sessions)) as threads:
        for owner, session_id, turns in sessions:
            threads.submit(client.enqueue, owner, session_id, turns)
        threading.Event().wait()


if __name__ == "__main__":
    main()
