"""Commands configure the logs of their process; here that is the tests' own."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs_as_found() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer's own variables stay out."""
    import os

    for name in list(os.environ):
        if name.startswith("MEMFOREST_"):
            monkeypatch.delenv(name)
