"""Several worker processes under one command: forked from a parent with all imports, restarted when they die."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import structlog

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the next one has its former effect again.

    For the main thread only; former handlers are back at the end.
    """
    stop = threading.Event()
    former = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    def request(_number: int, _frame: FrameType | None) -> None:
        restore()
        stop.set()

    for number in STOP_SIGNALS:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        restore()


log = structlog.get_logger(__name__)

WATCH_S = 0.05
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 30.0
STEADY_S = 10.0
"""A process that has lived this long is no crash loop: the next start waits the first pause again."""


@dataclass
class _Slot:
    """One of the processes to keep running, and what is known about the process that runs there now."""

    number: int
    pid: int = 0
    started: float = 0.0
    failures: int = 0
    due: float = 0.0


class Supervisor:
    """Restarts ``processes`` children until it is to stop.

    The parent imports what children need and then only waits: it holds no connection and no thread, so that forking is
    safe and a child is at work a fraction of a second after its predecessor died. ``child`` is called in the child with
    its slot (0, 1, ...) and the parent's pid; its result is the exit code.
    """

    def __init__(self, processes: int, child: Callable[[int, int], int], deadline_s: float) -> None:
        self._slots = [_Slot(number) for number in range(processes)]
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
                for slot in self._slots:
                    if not slot.pid and now >= slot.due:
                        self._start(slot)
            log.info("supervisor_stopping", processes=len(self._slots))
            self._stop()

    def _start(self, slot: _Slot) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            code = 1
            try:
                code = self._child(slot.number, parent)
            finally:
                # Never back into the parent's code; an error has been printed by then.
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        slot.pid, slot.started = pid, time.monotonic()
        log.info("worker_started", slot=slot.number, pid=pid)

    def _reap(self) -> None:
        for slot in self._slots:
            if not slot.pid:
                continue
            pid, status = os.waitpid(slot.pid, os.WNOHANG)
            if pid == 0:
                continue
            code = os.waitstatus_to_exitcode(status)
            lived = time.monotonic() - slot.started
            # A killed process did not fail to start: the kernel or a person ended it.
            slot.failures = 0 if lived >= STEADY_S or code < 0 else slot.failures + 1
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**slot.failures) if slot.failures else 0.0
            log.warning("worker_ended", slot=slot.number, pid=pid, code=code, lived_s=round(lived, 1), pause_s=pause)
            slot.pid, slot.due = 0, time.monotonic() + pause

    def _stop(self) -> None:
        for slot in self._slots:
            if slot.pid:
                os.kill(slot.pid, signal.SIGTERM)
        deadline = time.monotonic() + self._deadline_s
        while any(slot.pid for slot in self._slots) and time.monotonic() < deadline:
            self._reap()
            time.sleep(WATCH_S)
        for slot in self._slots:
            if slot.pid:
                os.kill(slot.pid, signal.SIGKILL)
                os.waitpid(slot.pid, 0)
