"""Stopping on request: SIGINT and SIGTERM become an event that a foreground process waits for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
