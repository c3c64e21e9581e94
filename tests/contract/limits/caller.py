"""A worker process for the tests: takes permits as fast as it gets them and prints when each call began and ended."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from memforest_core.errors import ModelRateLimited
from memforest_core.models.limits.call_limits import CallLimits, open_redis
from tests.contract.limits.limited import MODEL, limits_of


def main() -> None:
    """Arguments: Redis URL, limits as JSON, threads, seconds, seconds per call."""
    url, given, threads, seconds, call_s = sys.argv[1:6]
    limits = CallLimits(open_redis(url), limits_of(**json.loads(given)), 2)
    print("ready", flush=True)
    sys.stdin.readline()
    deadline = time.monotonic() + float(seconds)

    def calls(_: int) -> None:
        while (left := deadline - time.monotonic()) > 0:
            try:
                with limits.acquire(MODEL, 10, left, hold_s=60.0) as permit:
                    started = time.monotonic()
                    time.sleep(float(call_s))
                    sys.stdout.write(f"{json.dumps([started, time.monotonic()])}\n")
                    permit.done(None, 10)
            except ModelRateLimited:
                return

    with ThreadPoolExecutor(int(threads)) as pool:
        list(pool.map(calls, range(int(threads))))


if __name__ == "__main__":
    main()
