"""Ends processes together with the one that started them, even after its kill -9; ``python -m`` runs the guard."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]


class Guard:
    """A process that kills others, by their ids, as soon as this process has ended or closed it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.guard"],
            stdin=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """Kill this one too."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{pid}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Kill what still runs, and end the guard."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Read ids until the pipe ends. A psutil process is not mistaken for a later one with its id."""
    watched = []
    for line in sys.stdin:
        with suppress(psutil.NoSuchProcess):
            watched.append(psutil.Process(int(line)))
    for process in watched:
        with suppress(psutil.NoSuchProcess):
            process.kill()


if __name__ == "__main__":
    main()
