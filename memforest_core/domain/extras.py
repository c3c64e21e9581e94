"""Imports that take long, and packages of extras that are not installed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from memforest_core.errors import InvalidSettings

_OWN = "memforest["


def pip_line(package: str) -> str:
    """How to install a package, or an extra of ours such as ``memforest[server]``."""
    line = f"pip install '{package}'"
    return f"{line} (in a checkout: pip install '.{package[len(_OWN) - 1 :]}')" if package.startswith(_OWN) else line


@contextmanager
def uncollected() -> Iterator[None]:
    """Around an import of many modules: no garbage is collected, which saves a quarter of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():
                # Makes all that was imported old at once; the next collection would search it otherwise.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


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
