"""The one taxonomy of errors: what a caller can fix, what passes with time, what is permanent.

    MemForestError
    ├── CallerError                 the input is at fault; HTTP 4xx, CLI exit 2; nothing was written
    │   ├── InvalidInput
    │   ├── SessionConflict         turns contradict what is stored under the same session id
    │   ├── NotFound
    │   ├── QuotaExceeded           carries ``retry_after`` seconds
    │   │   └── ForestFrozen        the forest is being merged into another and takes nothing new meanwhile
    │   └── InvalidSettings         configuration is missing or contradicts the stored state
    ├── RetryableError              the same work can succeed later; carries ``retry_after`` seconds or None
    │   ├── StoreUnavailable        Postgres
    │   │   ├── StoreRefused        it runs, but refuses the password, the role, the database or the machine
    │   │   ├── StoreContended      a deadlock, a serialization failure, a lock timeout: repeated within the library
    │   │   └── TenantMoved         another database has the tenant's rows, or is getting them
    │   ├── ForestChanged           the owner's memory was replaced at this moment: ask again
    │   ├── BrokerUnavailable       Redis
    │   ├── IndexUnavailable        the vector store
    │   └── ModelUnavailable        a chat or embedding provider (5xx, timeouts, refused connections)
    │       └── ModelRateLimited    429
    ├── ContentFault                a model answered, but not with something usable; repaired or degraded
    └── PermanentError              trying again changes nothing until somebody acts
        ├── ModelRejected           bad request, unknown model
        │   ├── ModelAuthFailed     missing or refused key
        │   ├── ContextTooLong      the input must be split
        │   └── ContentRefused      the provider's policy refused this content
        └── InvariantViolated       stored state breaks a promise: a bug or a damaged store

Every error has a stable ``code`` for programs and one sentence for people. A message names ids and
limits, never conversation text: tracebacks reach logs and Flower.
"""

from __future__ import annotations

import traceback


def place_of(error: BaseException) -> dict[str, str]:
    """An exception's type and the innermost line that raised it, for a log: its message may quote what was said."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno} {frames[-1].name}" if frames else ""
    return {"exception": type(error).__name__, "at": place}


class MemForestError(Exception):
    """Base of every error that MemForest raises on purpose."""

    code = "memforest_error"

    call: object | None = None
    """What the failed model call cost (a CallRecord), for accounting; None when no call was made."""

    of_input = False
    """A model call failed while the model answered other inputs: the failure counts against this one."""

    inputs: frozenset[str] = frozenset()
    """Names (``input_name``) of the texts of a batch for which its call failed."""

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        if code is not None:
            cls.code = code

    def __init__(self, message: str, *, code: str | None = None) -> None:
        """``code`` narrows that of the class."""
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class CallerError(MemForestError, code="caller_error"):
    """The caller can repair it; nothing was written."""


class InvalidInput(CallerError, code="invalid_input"):
    """A value is outside what is accepted; ``code`` narrows which one."""


class SessionConflict(CallerError, code="session_conflict"):
    """The turns sent differ from the turns stored under the same session id."""


class NotFound(CallerError, code="not_found"):
    """What the caller named does not exist for this tenant."""


class InvalidSettings(CallerError, code="invalid_settings"):
    """Configuration is missing, malformed or contradicts the stored state."""


class RetryableError(MemForestError, code="retryable"):
    """The same call can succeed later without anybody changing anything."""

    def __init__(self, message: str, *, retry_after: float | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class QuotaExceeded(CallerError, code="quota_exceeded"):
    """A tenant's quota or the queue-depth limit refuses new work for now."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


FROZEN_S = 5.0
"""When to try a frozen forest again, in seconds: a merge copies some thousand facts a second."""


class ForestFrozen(QuotaExceeded, code="forest_frozen"):
    """The forest takes no new sessions while it is being merged into another."""

    def __init__(self, message: str, *, retry_after: float = FROZEN_S) -> None:
        super().__init__(message, retry_after=retry_after)


class StoreUnavailable(RetryableError, code="store_unavailable"):
    """Postgres can't be reached or broke the connection."""


class StoreRefused(StoreUnavailable, code="store_refused"):
    """Postgres runs and refuses the connection: ``code`` says whether for its password, role, database or access."""


class StoreContended(StoreUnavailable, code="store_contended"):
    """Postgres broke off a transaction of ours because of another one; run again, it succeeds.

    ``state`` is the SQL state: 40P01 (deadlock), 40001 (serialization failure) or 55P03 (lock timeout). Callers hear of
    it only when it happened several times in a row.
    """

    def __init__(self, state: str) -> None:
        super().__init__(f"Postgres aborted the transaction, which may be retried ({state}).")
        self.state = state


class TenantMoved(StoreUnavailable, code="tenant_moved"):
    """The tenant's rows are in another database, or on their way there: ask there, or again in some seconds."""


class ForestChanged(RetryableError, code="forest_changed"):
    """The forest has just been deleted, merged or rebuilt; a retry finds the new one."""


class BrokerUnavailable(RetryableError, code="broker_unavailable"):
    """The Redis broker can't be reached; accepted work is safe and the reconciler wakes it."""


class IndexUnavailable(RetryableError, code="index_unavailable"):
    """The vector index can't be reached."""


class ModelUnavailable(RetryableError, code="model_unavailable"):
    """A model provider timed out, refused the connection or answered 5xx."""


TIMED_OUT = "model_timeout"
"""Code of a ModelUnavailable: the answer did not come in time."""


class ModelRateLimited(ModelUnavailable, code="model_rate_limited"):
    """A model provider answered 429."""


class ContentFault(MemForestError, code="content_fault"):
    """A model answered with something that does not fit the schema."""


class PermanentError(MemForestError, code="permanent"):
    """Trying again changes nothing until somebody acts."""


class ModelRejected(PermanentError, code="model_rejected"):
    """The provider refuses the request as it is (bad request, unknown model)."""


class ModelAuthFailed(ModelRejected, code="model_auth_failed"):
    """The model key is missing or refused."""


class ContextTooLong(ModelRejected, code="context_too_long"):
    """The input does not fit the model's context; a smaller piece may."""


class ContentRefused(ModelRejected, code="content_refused"):
    """The provider's content policy refuses this input."""


class InvariantViolated(PermanentError, code="invariant_violated"):
    """Stored state breaks an invariant of the design: a bug, or a damaged store."""
