"""Builders: limits with defaults, errors as an adapter raises them."""

from __future__ import annotations

from typing import Any

from memforest_core.errors import MemForestError, ModelAuthFailed, ModelRateLimited, ModelUnavailable
from memforest_core.models.calls import CallRecord, Step
from memforest_core.models.limits.model_limits import ModelLimits

MODEL = "openai/test@127.0.0.1:1"


def limits_of(**changes: Any) -> ModelLimits:
    given: dict[str, Any] = {
        "requests_per_minute": None,
        "tokens_per_minute": None,
        "concurrent_calls": None,
        "circuit_failures": 3,
        "circuit_open_s": 0.4,
        "circuit_longest_s": 5.0,
    }
    return ModelLimits(**(given | changes))


def made(error: MemForestError) -> MemForestError:
    """The error of a call that reached the provider."""
    error.call = CallRecord(Step.EXTRACT, "m", 0, 0, 0, 0.0, 1.0, error.code)
    return error


def limited(retry_after: float | None = None) -> MemForestError:
    return made(ModelRateLimited("429", retry_after=retry_after))


def unavailable() -> MemForestError:
    return made(ModelUnavailable("503"))


def refused() -> MemForestError:
    return made(ModelAuthFailed("401"))
