"""Which fault a call meets: scripted for the next calls, then drawn from rates by a seed."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import StrEnum


class Fault(StrEnum):
    """One way in which a provider fails."""

    RATE_LIMIT = "rate_limit"
    """429 with Retry-After."""
    SERVER_ERROR = "server_error"
    """500."""
    OVERLOADED = "overloaded"
    """503 with Retry-After."""
    HANG = "hang"
    """Headers never come."""
    DRIBBLE = "dribble"
    """Headers at once, then the body byte by byte, far slower than any deadline."""
    DISCONNECT = "disconnect"
    """The connection is closed without an answer."""
    BROKEN_BODY = "broken_body"
    """200, with a body that is not JSON."""
    UNAUTHORIZED = "unauthorized"
    """401."""
    FORBIDDEN = "forbidden"
    """403."""
    UNKNOWN_MODEL = "unknown_model"
    """404."""
    BAD_REQUEST = "bad_request"
    """400."""
    CONTEXT_LENGTH = "context_length"
    """400, code context_length_exceeded."""
    CONTENT_FILTER = "content_filter"
    """400, code content_policy_violation."""
    FILTERED_ANSWER = "filtered_answer"
    """200, with finish_reason content_filter and no text."""
    MALFORMED = "malformed"
    """Answer text that is not JSON."""
    TRUNCATED = "truncated"
    """The answer's first half, finish_reason length."""
    EMPTY = "empty"
    """An empty answer text."""
    NULL = "null"
    """A null answer text."""
    WRONG_SCHEMA = "wrong_schema"
    """A JSON object with none of the requested fields."""
    WRONG_TYPE = "wrong_type"
    """The requested fields, with values of another type."""
    NO_CHOICES = "no_choices"
    """200, with an empty list of choices."""


CONTENT_FAULTS = frozenset(
    {
        Fault.FILTERED_ANSWER,
        Fault.MALFORMED,
        Fault.TRUNCATED,
        Fault.EMPTY,
        Fault.NULL,
        Fault.WRONG_SCHEMA,
        Fault.WRONG_TYPE,
        Fault.NO_CHOICES,
    }
)
"""Faults of a chat answer; an embedding call does not meet them."""


class FaultPlan:
    """Faults for coming calls. Drawing is reproducible in whatever order concurrent calls arrive:
    the same body on its n-th attempt meets the same fault under the same seed."""

    def __init__(self, rates: Mapping[Fault, float] | None = None, *, seed: int = 0) -> None:
        self.rates = dict(rates or {})
        if sum(self.rates.values()) > 1.0:
            raise ValueError("fault rates add up to more than 1")
        self.seed = seed
        self.poisons: dict[str, Fault] = {}
        """What every call meets whose body has this text in it."""
        self._script: deque[Fault | None] = deque()
        self._attempts: Counter[bytes] = Counter()

    def script(self, faults: Iterable[Fault | None]) -> None:
        """The next calls meet these, in order; None is a call without a fault."""
        self._script.extend(faults)

    def draw(self, body: bytes) -> Fault | None:
        """The fault of a call with this request body."""
        for text, fault in self.poisons.items():
            if text.encode() in body:
                return fault
        if self._script:
            return self._script.popleft()
        if not self.rates:
            return None
        self._attempts[body] += 1
        digest = hashlib.sha256(b"%d\x1f%d\x1f%b" % (self.seed, self._attempts[body], body))
        point = int.from_bytes(digest.digest()[:8], "big") / 2**64
        for fault, rate in self.rates.items():
            point -= rate
            if point < 0:
                return fault
        return None
