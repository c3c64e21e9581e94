"""Commands read settings from the environment; here there are none."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer's own variables stay out."""
    import os

    for name in list(os.environ):
        if name.startswith("MEMFOREST_"):
            monkeypatch.delenv(name)
