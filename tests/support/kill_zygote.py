"""A process that has imported everything and forks a child for each request: a killed one costs no start.

It reads requests from stdin, a line each, and answers each with the child's exit code (or minus its signal). It has
neither threads nor connections, so that a fork copies nothing that could be held.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

# The libraries behind numpy start their threads when they are imported.
SINGLE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
ROOT = Path(__file__).parents[2]
DEADLINE_S = 90
"""After which a child that hangs is ended by SIGALRM."""
IMPORTED = (
    "memforest_core.adapters.qdrant.edge",
    "memforest_core.contexts.extraction.offline",
    "tests.support.kill_child",
)


class Zygote:
    """The forking process, from outside: ``run`` takes turns."""

    def __init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMFOREST_")}
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kill_zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=kept | SINGLE,
        )

    def run(self, request: str) -> int:
        """The exit code of a child that did this (JSON of ``kill_child.Request``), or minus the signal it died of."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("The forking process ended; see its stderr above.")
        return int(answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=DEADLINE_S)
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _child(line: str) -> NoReturn:
    """Do what a line asks; an exception ends this process as it would any other, with a traceback and code 1."""
    from tests.support.kill_child import REQUEST, perform

    signal.alarm(DEADLINE_S)
    perform(REQUEST.validate_json(line))
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    """Serve until stdin ends."""
    for module in IMPORTED:
        importlib.import_module(module)
    if threads := len(os.listdir("/proc/self/task")) - 1:
        raise SystemExit(f"Something imported here started {threads} threads: a fork would not have them.")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _child(line)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
