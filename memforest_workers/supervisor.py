"""Several worker processes under one command: forked from a parent with all imports, restarted when they die."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from memforest_workers.signals import stop_requested

log = structlog.get_logger(__name__)

WATCH_S = 0.05
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 30.0
STEADY_S = 10.0
"""A process that has lived this long is no crash loop: the next start waits the first pause again."""


@dataclass
class _Place:
    """One of the processes to keep running, and what is known about the process that runs there now."""

    number: int
    pid: int = 0
    started: float = 0.0
    failures: int = 0
    due: float = 0.0


class Supervisor:
    """Keeps ``processes`` children running until it is told to stop.

    The parent imports what children need and then only waits: it holds no connection and no thread, so that forking is
    safe and a child is at work a fraction of a second after its predecessor died. ``child`` is called in the child with
    its place (0, 1, ...) and the parent's pid; its result is the exit code.
    """

    def __init__(self, processes: int, child: Callable[[int, int], int], deadline_s: float) -> None:
        self._places = [_Place(number) for number in range(processes)]
        self._child = child
        self._deadline_s = deadline_s

    def run(self) -> None:
        """Supervise in the foreground until SIGTERM or SIGINT; then stop the children, by force after the deadline."""
        # Collections write to what they look at, and a page that a child writes to is no longer shared.
        gc.collect()
        gc.freeze()
        with stop_requested() as stop:
            while not stop.wait(WATCH_S):
                self._reap()
                now = time.monotonic()
                for place in self._places:
                    if not place.pid and now >= place.due:
                        self._start(place)
            log.info("supervisor_stopping", processes=len(self._places))
            self._stop()

    def _start(self, place: _Place) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            code = 1
            try:
                code = self._child(place.number, parent)
            finally:
                # Never back into the parent's code; an error has been printed by then.
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        place.pid, place.started = pid, time.monotonic()
        log.info("worker_started", place=place.number, pid=pid)

    def _reap(self) -> None:
        for place in self._places:
            if not place.pid:
                continue
            pid, status = os.waitpid(place.pid, os.WNOHANG)
            if pid == 0:
                continue
            code = os.waitstatus_to_exitcode(status)
            lived = time.monotonic() - place.started
            # A killed process did not fail to start: the kernel or a person ended it.
            place.failures = 0 if lived >= STEADY_S or code < 0 else place.failures + 1
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**place.failures) if place.failures else 0.0
            log.warning("worker_ended", place=place.number, pid=pid, code=code, lived_s=round(lived, 1), pause_s=pause)
            place.pid, place.due = 0, time.monotonic() + pause

    def _stop(self) -> None:
        for place in self._places:
            if place.pid:
                os.kill(place.pid, signal.SIGTERM)
        deadline = time.monotonic() + self._deadline_s
        while any(place.pid for place in self._places) and time.monotonic() < deadline:
            self._reap()
            time.sleep(WATCH_S)
        for place in self._places:
            if place.pid:
                os.kill(place.pid, signal.SIGKILL)
                os.waitpid(place.pid, 0)
