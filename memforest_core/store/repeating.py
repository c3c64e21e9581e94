"""A transaction that Postgres aborted because of another one is run again inside the library."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import structlog

from memforest_core.errors import StoreContended

log = structlog.get_logger(__name__)

TRIES = 5
FIRST_PAUSE_S = 0.02
"""The longest pause before the second try; each further one may last twice as long."""

P = ParamSpec("P")
R = TypeVar("R")


def repeated(unit: Callable[P, R]) -> Callable[P, R]:
    """``unit``, run again after a deadlock, a serialization failure or a lock timeout, at most ``TRIES`` times.

    Pauses have jitter, so that two that met do not meet again. The unit must be repeatable as a whole: it loads,
    computes and saves again, and finds what it committed before as done. Its last error is raised.
    """

    @wraps(unit)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for tries in range(1, TRIES):
            try:
                return unit(*args, **kwargs)
            except StoreContended as error:
                log.info(
                    "transaction_repeated",
                    unit=getattr(unit, "__qualname__", type(unit).__name__),
                    state=error.state,
                    tries=tries,
                )
                time.sleep(random.random() * FIRST_PAUSE_S * 2 ** (tries - 1))  # noqa: S311 - jitter, no secret
        return unit(*args, **kwargs)

    return run
