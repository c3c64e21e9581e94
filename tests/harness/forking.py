"""A process that has imported everything and forks a child for each request: a killed one costs no start.

It reads requests from stdin, a line each (number, module, JSON), calls the module's ``perform`` with the JSON in a
child, and answers with the child's process id when it starts and its exit code (or minus its signal) when it ended.
It has neither threads nor connections, so that a fork copies nothing that could be held.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import NoReturn, Self

# The libraries behind numpy start their threads when they are imported.
SINGLE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
ROOT = Path(__file__).parents[2]
DEADLINE_S = 90
"""After which a child that hangs is ended by SIGALRM."""
CHILD = "tests.harness.kill_process"
IMPORTED = (
    "memforest_core.index.qdrant.edge_index",
    "memforest_core.index.qdrant.server_index",
    "memforest_core.ingest.extract.offline",
    "tests.harness.qdrant_http",
    CHILD,
)
_READ = 1 << 16


class Forked:
    """A child of the forking process, from outside."""

    def __init__(self, numbers: SimpleQueue[int | None]) -> None:
        self._numbers = numbers
        self._code: int | None = None
        self.pid = self._next()

    def wait(self) -> int:
        """Its exit code, or minus the signal it died of."""
        if self._code is None:
            self._code = self._next()
        return self._code

    @property
    def ended(self) -> bool:
        """Whether it ended by now."""
        return self._code is not None or not self._numbers.empty()

    def _next(self) -> int:
        number = self._numbers.get()
        if number is None:
            raise RuntimeError("The forking process ended; see its stderr above.")
        return number


class Zygote:
    """The forking process, from outside. Thread-safe."""

    def __init__(self) -> None:
        retained = {name: value for name, value in os.environ.items() if not name.startswith("MEMFOREST_")}
        self._lock = threading.Lock()
        self._pending: dict[int, SimpleQueue[int | None]] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=retained | SINGLE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, module: str, request: str) -> Forked:
        """A child that does what a JSON text requests of a module's ``perform``."""
        assert self._process.stdin is not None
        numbers: SimpleQueue[int | None] = SimpleQueue()
        with self._lock:
            number = len(self._pending)
            self._pending[number] = numbers
            self._process.stdin.write(f"{number} {module} {request}\n")
            self._process.stdin.flush()
        return Forked(numbers)

    def close(self) -> None:
        """End the process, and the children that still run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=DEADLINE_S)
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, answer = line.split()
            self._pending[int(number)].put(int(answer))
        for numbers in list(self._pending.values()):
            numbers.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Children:
    """The children of the forking process, each known by a descriptor that is readable once it ended."""

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._running: dict[int, tuple[str, int]] = {}

    def fork(self, line: str) -> None:
        """Start what a line requests."""
        number, module, request = line.split(" ", 2)
        pid = os.fork()
        if pid == 0:
            _child(module, request)
        descriptor = os.pidfd_open(pid)
        self._poll.register(descriptor, select.POLLIN)
        self._running[descriptor] = number, pid
        print(number, pid, flush=True)

    def ended(self, descriptor: int) -> None:
        """Tell how a child ended."""
        number, pid = self._running.pop(descriptor)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        print(number, os.waitstatus_to_exitcode(status), flush=True)

    def kill(self) -> None:
        """End those that still run."""
        for _, pid in self._running.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _child(module: str, request: str) -> NoReturn:
    """Do what is requested; an exception ends this process as it would any other, with a traceback and code 1."""
    signal.alarm(DEADLINE_S)
    # Only the forking process answers there.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    importlib.import_module(module).perform(request)
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    """Serve until stdin ends."""
    gc.disable()
    for module in IMPORTED:
        importlib.import_module(module)
    # A child that looked for garbage among them would copy each page that they lie on.
    gc.freeze()
    gc.enable()
    if threads := len(os.listdir("/proc/self/task")) - 1:
        raise SystemExit(f"Something imported here started {threads} threads: a fork would not have them.")
    stdin, poll, left = sys.stdin.fileno(), select.poll(), b""
    poll.register(stdin, select.POLLIN | select.POLLHUP)
    children = _Children(poll)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != stdin:
                children.ended(descriptor)
            elif read := os.read(stdin, _READ):
                *lines, left = (left + read).split(b"\n")
                for line in lines:
                    children.fork(line.decode())
            else:
                children.kill()
                return


if __name__ == "__main__":
    main()
