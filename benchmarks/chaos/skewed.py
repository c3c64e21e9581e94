"""Runs the ``memforest`` command in a process whose clock is wrong: ``python -m benchmarks.chaos.skewed SECONDS ...``.

The wall clock of Python code is moved (``time.time``, ``time.time_ns``, ``datetime.now``, ``utcnow``)
before anything else is imported; monotonic clocks, the database's and the kernel's stay right, as they do between
machines that disagree.
"""

from __future__ import annotations

import datetime as clock
import sys
import time
from collections.abc import Callable
from typing import Any

_real_datetime = clock.datetime


class _LikeReal(type):
    """Moments made by C code are of the real class: they must pass for the moved one."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _real_datetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _real_datetime)


def moved_datetime(seconds: float) -> type[clock.datetime]:
    """A ``datetime`` whose ``now`` is ``seconds`` ahead; what it makes are ordinary moments."""
    ahead = clock.timedelta(seconds=seconds)

    class Moved(_real_datetime, metaclass=_LikeReal):
        def __new__(cls, *parts: Any, **named: Any) -> Any:
            return _real_datetime(*parts, **named)

        @classmethod
        def now(cls, tz: clock.tzinfo | None = None) -> Any:
            return _real_datetime.now(tz) + ahead

        @classmethod
        def today(cls) -> Any:
            return _real_datetime.now() + ahead

        @classmethod
        def utcnow(cls) -> Any:
            return _real_datetime.now(clock.UTC).replace(tzinfo=None) + ahead

        @classmethod
        def fromtimestamp(cls, *parts: Any, **named: Any) -> Any:
            return _real_datetime.fromtimestamp(*parts, **named)

    Moved.__name__ = Moved.__qualname__ = "datetime"
    return Moved


def _moved(read: Callable[[], Any], ahead: float) -> Callable[[], Any]:
    return lambda: read() + ahead


def set_clock(seconds: float) -> None:
    """Put this process's wall clock ahead (or, below zero, behind)."""
    time.time = _moved(time.time, seconds)
    time.time_ns = _moved(time.time_ns, int(seconds * 1e9))
    clock.datetime = moved_datetime(seconds)  # type: ignore[misc]


def main(arguments: list[str]) -> None:
    """The first argument is the offset in seconds, the others are the command's."""
    set_clock(float(arguments[0]))
    sys.argv = ["memforest", *arguments[1:]]
    from memforest_core.cli import main as command

    command()


if __name__ == "__main__":
    main(sys.argv[1:])
