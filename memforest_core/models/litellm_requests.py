"""Requests to one model through litellm: embedding and reranking make them in the same way."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

from memforest_core.domain.forks import renewed_in_child
from memforest_core.models.call_loop import CONCURRENCY, Finished, call_loop, slot_of
from memforest_core.models.litellm_failures import Target, missing_key
from memforest_core.models.litellm_runtime import (
    BASE_BYTES,
    ROW_BYTES,
    key_argument,
    limited,
    litellm_module,
    misses_key,
)


@renewed_in_child
class LitellmRequests:
    """Requests to ``target``, each with a hard deadline of ``target.timeout_s``. Thread-safe."""

    def __init__(self, target: Target, api_key: str | None, what: str) -> None:
        """``what`` the requests are for, in words for messages."""
        self.target = target
        self._api_key = api_key
        self._what = what
        self._slots = threading.BoundedSemaphore(CONCURRENCY)
        self._has_key = False

    def run(self, function: str, rows: int, **arguments: object) -> tuple[Finished[Any], float]:
        """How a call of this coroutine function of litellm ended, and its milliseconds; ``rows`` bounds its answer.

        Raises ModelAuthFailed when the model needs a key and none is set, ModelUnavailable when no slot became free.
        """
        target = self.target
        litellm = litellm_module()  # its import takes seconds, which are no part of a call
        if not self._has_key:
            if misses_key(target.model, self._api_key, target.api_base):
                raise missing_key(target)
            self._has_key = True
        common = {
            "model": target.model,
            "api_base": target.api_base,
            "api_key": key_argument(self._api_key, target.api_base),
            "timeout": target.timeout_s,
            "max_retries": 0,
            "drop_params": True,
        }
        given = {name: value for name, value in (common | arguments).items() if value is not None}
        with slot_of(self._slots, target.timeout_s, f"All {self._what} requests to {target}"):
            started = time.perf_counter()
            call = partial(getattr(litellm, function), **given)
            done = call_loop().run(partial(limited, call, BASE_BYTES + ROW_BYTES * rows), target.timeout_s)
            return done, (time.perf_counter() - started) * 1000.0
