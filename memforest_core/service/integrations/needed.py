"""Frameworks that are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memforest_core.errors import InvalidSettings


@contextmanager
def needed(package: str) -> Iterator[None]:
    """Around the import of a framework: raises InvalidSettings with the pip line when it is not there.

    ``package`` is what to give to pip.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidSettings(f"{error.name} is missing: pip install '{package}'.") from None
