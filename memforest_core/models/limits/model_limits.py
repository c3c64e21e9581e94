"""The limits of one model, the verdicts about its calls, and what the end of a call says about it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import urlsplit

from memforest_core import errors
from memforest_core.errors import MemForestError, ModelAuthFailed, ModelRateLimited, ModelRejected, ModelUnavailable

CHECK = "check"
"""The input of a call that only checks whether the model answers; the script in Redis knows it by this name too."""
BATCH = "*"
"""Begins the name of an input that is one of many, which nobody tries again as it is: it is checked at once."""
URGENT = "!"
"""Begins the name of a permit for a call that somebody waits for: timeouts of other calls do not delay it."""
BYTES_PER_TOKEN = 4
"""Of UTF-8, over the common tokenizers."""


class ModelPaused(ModelUnavailable):
    """The model failed too often in a row, or refused the key: nobody calls it until ``retry_after``."""

    code = "model_paused"


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """The limits of one model, None where there is none; ``share`` makes those of one process."""

    requests_per_minute: float | None
    tokens_per_minute: float | None
    concurrent_calls: int | None
    circuit_failures: int
    circuit_open_s: float
    circuit_longest_s: float
    retry_after_longest_s: float = math.inf

    def share(self, processes: int) -> ModelLimits:
        """What one of ``processes`` may use when they can't agree; at least one call at a time."""
        requests, tokens, calls = self.requests_per_minute, self.tokens_per_minute, self.concurrent_calls
        return replace(
            self,
            requests_per_minute=None if requests is None else requests / processes,
            tokens_per_minute=None if tokens is None else tokens / processes,
            concurrent_calls=None if calls is None else max(1, calls // processes),
        )


class Reason(StrEnum):
    """Why a circuit is open."""

    NONE = ""
    OUTAGE = "outage"
    AUTH = "auth"


class Verdict(StrEnum):
    """Whether a call may start."""

    GRANTED = "granted"
    PAUSED = "paused"
    """The provider said when to come back."""
    OPEN = "open"
    """The circuit is open."""
    BUSY = "busy"
    """As many calls as allowed are under way."""
    SPENT = "spent"
    """The minute's requests or tokens are used up."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A verdict, when it may change (seconds; 0 where that is not known), and why the circuit is open."""

    verdict: Verdict
    wait_s: float = 0.0
    reason: Reason = Reason.NONE


class CallOutcome(StrEnum):
    """What a call's end says about the model."""

    ANSWERED = "answered"
    REJECTED = "rejected"
    """The provider is there, and refuses this request."""
    RATE_LIMITED = "rate_limited"
    TIMED_OUT = "timed_out"
    UNAVAILABLE = "unavailable"
    AUTH = "auth"
    UNMADE = "unmade"
    """No request was made: it says nothing."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a call; without a permit it began just now and reserved nothing."""

    outcome: CallOutcome
    permit: str = ""
    started: float = math.inf
    """When the permit was given."""
    reserved: int = 0
    """Tokens; nothing reserved, nothing to give back."""
    used: int | None = None
    """Tokens, None where unknown."""
    retry_after: float | None = None
    input: str = ""
    """What names the input over its tries; empty where nothing does."""
    checks: bool = False
    """Whether the caller can check if the model answers."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What the end of a call says about its input."""

    alone: bool = False
    """It failed while the model answered other inputs."""
    check: bool = False
    """Nobody knows: the caller is to check whether the model answers at all."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds that a model is paused; ``to_try`` if that is 0 for this caller alone."""

    paused_s: float
    to_try: bool = False


def limit_key(model: str, api_base: str | None) -> str:
    """The name under which a model at an address is limited: no key, password, path or query of the URL in it."""
    if api_base is None:
        return model
    parts = urlsplit(api_base)
    host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    path = parts.path.strip("/")
    if path in ("", "v1"):
        return f"{model}@{host}"
    return f"{model}@{host}/{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def outcome_of(error: MemForestError | None) -> CallOutcome:
    """What an error says about the model; None is a success, an error without a call record says nothing."""
    if error is None:
        return CallOutcome.ANSWERED
    if error.call is None:
        return CallOutcome.UNMADE
    if isinstance(error, ModelRateLimited):
        return CallOutcome.RATE_LIMITED
    if isinstance(error, ModelUnavailable):
        return CallOutcome.TIMED_OUT if error.code == errors.TIMED_OUT else CallOutcome.UNAVAILABLE
    if isinstance(error, ModelAuthFailed):
        return CallOutcome.AUTH
    return CallOutcome.REJECTED if isinstance(error, ModelRejected) else CallOutcome.ANSWERED


def input_name(texts: Iterable[str]) -> str:
    """A short hash by which an input is known over its tries."""
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def estimated_tokens(texts: Iterable[str], output: int = 0) -> int:
    """Tokens that a call with these texts will cost, ``output`` tokens of answer included."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return size // BYTES_PER_TOKEN + 1 + output
