"""Limits on calls to models that hold for all workers together, as callers see them."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from memforest_core.errors import MemForestError, ModelUnavailable


class ModelPaused(ModelUnavailable):
    """The model failed too often in a row, or refused the key: nobody calls it until ``retry_after``."""

    code = "model_paused"


class Permit(Protocol):
    """The right to make one call; leaving its context gives it back, also without ``done``."""

    def done(self, error: MemForestError | None, tokens_used: int | None = None) -> None:
        """Say how the call ended, at most once; ``tokens_used`` None keeps the estimate.

        An error without a call record (``error.call`` is None) says that no request was made.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class CallLimits(Protocol):
    """Requests and tokens per minute, calls at once and the circuit, per model. Thread-safe.

    ``model`` is a name from ``domain.limits.limit_key``: without key, password or text.
    """

    def acquire(self, model: str, tokens: int, wait_s: float, *, hold_s: float) -> Permit:
        """A permit for a call of about ``tokens`` tokens, which ends by itself after ``hold_s`` seconds.

        Raises ModelRateLimited when none is to be had within ``wait_s`` seconds (at once when that is known) and
        ModelPaused when the circuit is open; both say when to come back.
        """
        ...

    def paused(self, model: str) -> float:
        """Seconds that nobody should begin work for this model; 0.0 when it is open for business.

        Cheap: at most one question to the store per quarter of a second. When a trial is due, one caller is told 0.0
        and the others a second.
        """
        ...

    def report(self, model: str, error: MemForestError | None) -> None:
        """Say how a call ended that was made without a permit."""
        ...

    def close(self) -> None:
        """Release connections; who still waits for a permit gives up."""
        ...
