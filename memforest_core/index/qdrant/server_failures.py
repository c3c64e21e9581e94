"""What a Qdrant server's failures mean for the caller: wait and retry, or repair something."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from qdrant_client.common.client_exceptions import (
    QdrantException,
    ResourceExhaustedResponse,
)
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated, MemForestError

_REASON_LIMIT = 300


@contextmanager
def server_failures(collection: str, operation: str) -> Iterator[None]:
    """Translates transport errors and refusals of one call on a collection."""
    try:
        yield
    except ResourceExhaustedResponse as error:
        wait = float(error.retry_after_s)
        raise IndexUnavailable(f"Qdrant limits the rate of {operation} on {collection!r}", retry_after=wait) from error
    except UnexpectedResponse as error:
        raise refusal(collection, operation, error) from error
    except (
        ResponseHandlingException,
        QdrantException,
        httpx.HTTPError,
        json.JSONDecodeError,
    ) as error:
        cause = error.source if isinstance(error, ResponseHandlingException) else error
        raise IndexUnavailable(
            f"Qdrant did not answer {operation} on {collection!r}: {type(cause).__name__}"
        ) from error


def refusal(collection: str, operation: str, error: UnexpectedResponse) -> MemForestError:
    """The error that an HTTP status other than success means."""
    status = error.status_code or 500
    at = f"{operation} on {collection!r}"
    if status in (401, 403):
        return InvalidSettings(f"Qdrant refuses {at} ({status}): check the api key in the settings")
    if status == 404:
        # The index may be dropped at any time; until it is rebuilt, reads do without it.
        return IndexUnavailable(f"collection {collection!r} is missing: rebuild the vector index")
    if status in (408, 429) or status >= 500:
        return IndexUnavailable(f"Qdrant can't do {at} now ({status}): {_reason(error.content)}")
    reason = _reason(error.content)
    if "dimension" in reason.lower():
        return InvalidSettings(
            f"Qdrant refuses {at}: {reason}; set the embedding model that built this index, or rebuild it"
        )
    return InvariantViolated(f"Qdrant refuses {at} ({status}): {reason}")


def _reason(content: bytes) -> str:
    text = content.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except ValueError:
        return text[:_REASON_LIMIT]
    status = body.get("status") if isinstance(body, dict) else None
    reason = status.get("error") if isinstance(status, dict) else None
    return str(reason if reason is not None else text)[:_REASON_LIMIT]
