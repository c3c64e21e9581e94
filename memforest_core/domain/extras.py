"""Imports that take long, and packages of extras that are not installed."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from memforest_core.errors import InvalidSettings

_OWN = "memforest["
_pausing: list[bool] = []
"""Not empty while an import is under way: a child that is forked then has no thread that ends the pause."""
os.register_at_fork(after_in_child=lambda: gc.enable() if _pausing else None)


def pip_line(package: str) -> str:
    """How to install a package, or an extra of ours such as ``memforest[server]``."""
    line = f"pip install '{package}'"
    return f"{line} (in a checkout: pip install '.{package[len(_OWN) - 1 :]}')" if package.startswith(_OWN) else line


@contextmanager
def uncollected() -> Iterator[None]:
    """Around an import of many modules: no garbage is collected, which saves a quarter of its time."""
    collects, known = gc.isenabled(), len(sys.modules)
    _pausing.extend([True] * collects)
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if len(sys.modules) > known and not gc.get_freeze_count():
                # Makes all that was imported old at once; the next collection would search it otherwise.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
            _pausing.clear()


@contextmanager
def needed(package: str, otherwise: str = "") -> Iterator[None]:
    """Around the import of an optional package: raises InvalidSettings with the pip line when it is not there.

    ``package`` is what to give to pip, ``otherwise`` what to do instead.
    """
    try:
        with uncollected():
            yield
    except ModuleNotFoundError as error:
        other = f", or {otherwise}" if otherwise else ""
        raise InvalidSettings(f"{error.name} is missing: {pip_line(package)}{other}.") from None
