"""MemForest: long-term memory for LLM agents.

The public names are loaded when they are first used, so that a producer pays for the client alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memforest_core.aio import AsyncMemForest
    from memforest_core.api import MemForest
    from memforest_core.client import MemForestClient, SessionHandle
    from memforest_core.domain.evidence import Evidence, RecallResult
    from memforest_core.errors import MemForestError
    from memforest_core.settings import Settings, load_settings

__version__ = "0.1.0"

_HOMES = {
    "AsyncMemForest": "memforest_core.aio",
    "Evidence": "memforest_core.domain.evidence",
    "MemForest": "memforest_core.api",
    "MemForestClient": "memforest_core.client",
    "MemForestError": "memforest_core.errors",
    "RecallResult": "memforest_core.domain.evidence",
    "SessionHandle": "memforest_core.client",
    "Settings": "memforest_core.settings",
    "load_settings": "memforest_core.settings",
}

__all__ = [
    "AsyncMemForest",
    "Evidence",
    "MemForest",
    "MemForestClient",
    "MemForestError",
    "RecallResult",
    "SessionHandle",
    "Settings",
    "load_settings",
]


def __getattr__(name: str) -> object:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'memforest_core' has no attribute {name!r}") from None
    return getattr(import_module(home), name)
