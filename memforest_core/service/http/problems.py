"""Errors as RFC 9457 problems: each has the stable code of the library's error."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from memforest_core.client.remote.exchange import known_errors
from memforest_core.domain.pages import plain
from memforest_core.errors import (
    ContentFault,
    ForestFrozen,
    InvalidSettings,
    MemForestError,
    ModelRejected,
    NotFound,
    PermanentError,
    QuotaExceeded,
    RetryableError,
    SessionConflict,
    place_of,
)
from memforest_core.work.jobs import WorkError
from memforest_core.work.waiting import OperationFailed, WaitTimeout

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_S = 5.0
"""When to try again after an error that passes and does not say when."""
MAX_FAULTS = 20
"""Faults of a request that one problem lists."""


class Fault(BaseModel):
    """What is wrong with one field of a request."""

    field: str
    message: str


class Problem(BaseModel):
    """An error (RFC 9457). Programs look at ``code``; ``detail`` is a sentence for people."""

    type: str = Field(examples=["about:blank"])
    title: str
    status: int
    detail: str
    code: str = Field(examples=["session_conflict"])
    error: str = ""
    """The class of the library's error, so that clients in Python raise the same."""
    retry_after: float | None = None
    """Seconds after which the same request may succeed."""
    last_error: WorkError | None = None
    """Of ``wait_timeout``: what the last failed try ended with."""
    faults: list[Fault] = []
    result: dict[str, Any] | None = None
    """Of ``owner_unknown``: the empty answer, as the library gives it."""


class Refused(Exception):
    """A request that the server itself refuses."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.problem = _problem(status, code, detail, retry_after=retry_after)
        self.retry_after = retry_after


class OwnerUnknown(Refused):
    """The owner has no memory: 404, with the empty ``result`` that the library would return."""

    def __init__(self, result: Any) -> None:
        super().__init__(HTTPStatus.NOT_FOUND, "owner_unknown", "This owner has no memory yet.")
        self.problem.result = plain(result)


RESPONSES: Mapping[int | str, dict[str, Any]] = {
    int(status): {
        "description": meaning,
        "model": Problem,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status, meaning in (
        (HTTPStatus.BAD_REQUEST, "A value is outside what is accepted: detail says what to change."),
        (HTTPStatus.UNAUTHORIZED, "No key, or one that is unknown or revoked."),
        (HTTPStatus.FORBIDDEN, "The key's scope or owners do not allow this."),
        (HTTPStatus.NOT_FOUND, "This tenant has no such thing; owner_unknown: the owner has no memory."),
        (HTTPStatus.CONFLICT, "The request contradicts what is stored."),
        (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too long."),
        (HTTPStatus.UNPROCESSABLE_ENTITY, "The request does not have the documented form; faults lists what."),
        (HTTPStatus.LOCKED, "The forest takes nothing new while an operation has it."),
        (HTTPStatus.TOO_MANY_REQUESTS, "Too many requests of this key, or a quota; Retry-After says when."),
        (HTTPStatus.NOT_IMPLEMENTED, "This server is not configured for it, such as without a chat model."),
        (HTTPStatus.BAD_GATEWAY, "A model refused the request or answered with something unusable."),
        (HTTPStatus.SERVICE_UNAVAILABLE, "A store, a model or this server has no room now; Retry-After says when."),
        (HTTPStatus.GATEWAY_TIMEOUT, "What was waited for is not there yet; the work goes on."),
    )
}
"""What every operation may answer instead of its result."""


_STATUSES: Sequence[tuple[type[MemForestError] | tuple[type[MemForestError], ...], HTTPStatus]] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    ((SessionConflict, OperationFailed), HTTPStatus.CONFLICT),
    (ForestFrozen, HTTPStatus.LOCKED),
    (QuotaExceeded, HTTPStatus.TOO_MANY_REQUESTS),
    (InvalidSettings, HTTPStatus.NOT_IMPLEMENTED),
    (WaitTimeout, HTTPStatus.GATEWAY_TIMEOUT),
    (RetryableError, HTTPStatus.SERVICE_UNAVAILABLE),
    ((ContentFault, ModelRejected), HTTPStatus.BAD_GATEWAY),
    (PermanentError, HTTPStatus.INTERNAL_SERVER_ERROR),
)
"""The first line that has an error's class says its status."""


def problem_of(error: MemForestError | Refused) -> Problem:
    """An error of the library, or of the server itself, as a problem."""
    if isinstance(error, Refused):
        return error.problem
    status = next((status for kinds, status in _STATUSES if isinstance(error, kinds)), HTTPStatus.BAD_REQUEST)
    retry_after = getattr(error, "retry_after", None)
    if retry_after is None and status is HTTPStatus.SERVICE_UNAVAILABLE:
        retry_after = RETRY_S
    known = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in known_errors()), "")
    found = _problem(status, error.code, error.message, retry_after=retry_after, error=known)
    found.last_error = getattr(error, "last_error", None)
    return found


OPENAI = "/openai/"
"""Begins the paths whose errors have the shape that OpenAI's clients read."""


def openai_error(problem: Problem) -> dict[str, Any]:
    """A problem as OpenAI's API writes it."""
    kind = "invalid_request_error" if problem.status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
    param = problem.faults[0].field if problem.faults else None
    return {"error": {"message": problem.detail, "type": kind, "param": param, "code": problem.code}}


def answer(problem: Problem, path: str = "") -> Response:
    """A problem as a response to a request of ``path``."""
    headers = {}
    if problem.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after)))
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="memforest"'
    if path.startswith(OPENAI):
        return JSONResponse(openai_error(problem), problem.status, headers)
    return JSONResponse(
        problem.model_dump(mode="json", exclude_defaults=True, exclude_none=True),
        status_code=problem.status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )


def register(app: FastAPI) -> None:
    """Answer every error of this app with a problem."""

    @app.exception_handler(MemForestError)
    @app.exception_handler(Refused)
    async def expected(request: Request, error: MemForestError | Refused) -> Response:
        return answer(problem_of(error), request.url.path)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        return answer(invalid(error.errors(), skip=1, known=_fields(request.scope.get("route"))), request.url.path)

    @app.exception_handler(HTTPException)
    async def plain_http(request: Request, error: HTTPException) -> Response:
        status = HTTPStatus(error.status_code)
        response = answer(_problem(status, status.name.lower(), str(error.detail)), request.url.path)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        # The message may quote what was said: only the place is logged.
        log.error("request_failed", path=request.scope.get("route_name", ""), **place_of(error))
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        found = _problem(status, "internal_error", "Something went wrong here; the server's log says where.")
        return answer(found, request.url.path)


def invalid(
    errors: Sequence[Mapping[str, Any] | ErrorDetails], *, skip: int = 0, known: Collection[str] = ()
) -> Problem:
    """What is wrong with a request, without what it held; ``skip`` parts of a field's place are not the caller's.

    Of ``known`` fields the nearest one to an unknown field is named, else all of them.
    """
    # A name that is unknown says more than the one that is missing.
    first_unknown = sorted(errors, key=lambda each: each["type"] not in _UNKNOWN)
    faults = [_fault(each, each["loc"][skip:] or each["loc"], known) for each in first_unknown[:MAX_FAULTS]]
    said = "the request can't be read"
    if faults:
        field, message = f"{faults[0].field:.80}", faults[0].message
        said = f"field `{field}` {message}" if message.startswith("is ") else f"{field}: {message}"
    ending = "?" if "did you mean" in said else "."
    found = _problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_request", f"Fix the request: {said}{ending}")
    found.faults = faults
    return found


_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


def _fault(error: Mapping[str, Any] | ErrorDetails, place: Sequence[object], known: Collection[str]) -> Fault:
    message = "is missing" if error["type"] == "missing" else str(error["msg"])
    if error["type"] in _UNKNOWN:
        known = known if len(place) == 1 else ()
        near = get_close_matches(str(place[-1]), known, n=1)
        listed = f": known are {', '.join(known)}" if known else ""
        message = f"is unknown: did you mean `{near[0]}`" if near else f"is unknown{listed}"
    return Fault(field=".".join(map(str, place)), message=message)


def _fields(route: Any) -> list[str]:
    """The names of the fields that a route takes, in its query or its body."""
    dependant = getattr(route, "dependant", None)
    if dependant is None:
        return []
    models = [each.field_info.annotation for each in (*dependant.query_params, *dependant.body_params)]
    return [name for model in models for name in getattr(model, "model_fields", ())]


def _problem(status: HTTPStatus, code: str, detail: str, **more: Any) -> Problem:
    return Problem(type="about:blank", title=status.phrase, status=int(status), detail=detail, code=code, **more)
