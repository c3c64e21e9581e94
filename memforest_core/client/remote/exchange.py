"""What a call over HTTP is made of: requests that it yields, and the answers that it is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter

from memforest_core import errors
from memforest_core.client.remote.records import Stored
from memforest_core.client.remote.routes import MAX_WAIT_S, PREFIX, ROUTES
from memforest_core.domain.documents import plain
from memforest_core.domain.routes import Verb
from memforest_core.errors import InvalidInput, MemForestError, QuotaExceeded, RetryableError
from memforest_core.ingest.accept.records import Stage
from memforest_core.work.jobs import WorkError
from memforest_core.work.waiting import OperationFailed, WaitTimeout

T = TypeVar("T")

SLICE_S = 20.0
"""One request of a wait takes so long at most: proxies cut longer ones."""

_LOCAL = ("transaction", "trace", "watch")
"""Arguments that no body has."""
_WAITS = ("none", *(stage.value for stage in Stage if stage is not Stage.ACCEPTED))
_CLOSING = (Stage.FACTS.value, Stage.SUMMARIES.value)
"""What can be waited for only when the last cell is closed."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request."""

    verb: str
    path: str
    query: Mapping[str, Any]
    body: Mapping[str, Any] | None = None
    trace: str | None = None
    waits_s: float = 0.0
    """How much longer than usual the answer may take."""
    send: Path | None = None
    """The file that is the body."""
    keep: Path | None = None
    """Where the answer's file is kept."""


@dataclass(frozen=True, slots=True)
class Told:
    """One answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]


Exchange: TypeAlias = Generator[Ask, Told, T]
"""A call: it yields requests, is sent their answers, and ends with its result."""


def ask(name: str, returns: Any, arguments: Mapping[str, Any]) -> Exchange[Any]:
    """Call an operation by its name; its result has the type ``returns``. Raises what the library raises."""
    if arguments.get("transaction") is not None:
        raise InvalidInput("A memory over HTTP can't join a transaction: leave it out.", code="invalid_transaction")
    route = ROUTES[name]
    wire = {key: wired(value) for key, value in arguments.items() if key not in _LOCAL}
    for limit in ("timeout_s", "room_timeout_s"):
        if limit in wire:
            wire[limit] = min(wire[limit], MAX_WAIT_S)
    path, trace = _filled(PREFIX + route.path, wire), arguments.get("trace")
    waits_s = wire.get("timeout_s", 0.0) + wire.get("room_timeout_s", 0.0)
    if route.verb is Verb.GET:
        query = {key: value for key, value in wire.items() if value is not None}
        told = yield Ask(route.verb.value, path, query, None, trace, waits_s)
    else:
        told = yield Ask(route.verb.value, path, {}, wire, trace, waits_s)
    return result_of(told, returns)


def ask_until(name: str, returns: Any, arguments: Mapping[str, Any]) -> Exchange[Any]:
    """Call an operation that waits, by requests that are short enough for proxies, until it ends or the time is over.

    ``watch``, if it is among the arguments, is given the task after each request.
    """
    watch: Callable[[Any], None] | None = arguments.get("watch")
    ends = time.monotonic() + float(arguments["timeout_s"])
    while True:
        left = max(0.0, min(SLICE_S, ends - time.monotonic()))
        try:
            found = yield from ask(name, returns, {**arguments, "timeout_s": left})
        except WaitTimeout:
            if watch is not None:
                watch((yield from ask("lifecycle.operation", returns, {"operation": arguments["operation"]})))
            if time.monotonic() >= ends:
                raise
        else:
            if watch is not None:
                watch(found)
            return found


def hand_over(name: str, _returns: Any, arguments: Mapping[str, Any]) -> Exchange[Stored]:
    """Call an operation that stores a session, then wait for the stage that it names. Raises InvalidInput first."""
    wait, timeout_s = arguments["wait"], arguments["timeout_s"]
    if wait not in _WAITS:
        raise InvalidInput(f"Set wait to {', '.join(_WAITS)}, not {wait!r:.40}.", code="invalid_wait")
    given = {**arguments, "wait": "none"}
    if "close" in given:
        given["close"] = given["close"] or wait in _CLOSING
    stored: Stored = yield from ask(name, Stored, given)
    if wait != "none":
        place = {"owner": stored.owner, "session_id": stored.session_id}
        yield from ask_until("wait", Any, {**place, "stage": wait, "timeout_s": timeout_s})
    return stored


def result_of(told: Told, returns: Any) -> Any:
    """What an answer holds. Raises the error that it is."""
    if told.status >= HTTPStatus.BAD_REQUEST:
        problem = _problem(told)
        if "result" not in problem:
            raise error_of(told.status, problem)
        return _adapter(returns).validate_python(problem["result"])  # an owner without a memory
    return (
        None if returns is None or told.status == HTTPStatus.NO_CONTENT else _adapter(returns).validate_json(told.body)
    )


@cache
def known_errors() -> Mapping[str, type[MemForestError]]:
    """The errors that are the same on both sides, by the names under which problems tell them."""
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, MemForestError)]
    # It holds a state of SQL, which a caller elsewhere can do nothing with.
    found.remove(errors.StoreContended)
    return {each.__name__: each for each in (*found, OperationFailed, WaitTimeout)}


def error_of(status: int, problem: Mapping[str, Any]) -> MemForestError:
    """The library's error that a problem tells of."""
    kind = known_errors().get(str(problem.get("error"))) or _by_status(status)
    code = str(problem.get("code", "http_error"))
    message = str(problem.get("detail") or f"The server answered {status}.")
    retry_after = problem.get("retry_after")
    if issubclass(kind, WaitTimeout):
        last = problem.get("last_error")
        error = None if last is None else _adapter(WorkError).validate_python(last)
        return kind(message, retry_after=retry_after, last_error=error)
    if issubclass(kind, QuotaExceeded):
        return kind(message, retry_after=float(retry_after or 1.0))
    if issubclass(kind, RetryableError):
        return kind(message, retry_after=retry_after, code=code)
    return kind(message, code=code)


def _by_status(status: int) -> type[MemForestError]:
    """The class of an error that the server itself found."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return RetryableError
    found: dict[int, type[MemForestError]] = {
        HTTPStatus.UNAUTHORIZED: errors.InvalidSettings,
        HTTPStatus.FORBIDDEN: errors.InvalidSettings,
        HTTPStatus.NOT_FOUND: errors.NotFound,
        HTTPStatus.TOO_MANY_REQUESTS: QuotaExceeded,
    }
    return found.get(status, InvalidInput)


def wired(value: Any) -> Any:
    """An argument as JSON has it; messages of client libraries by their fields."""
    if hasattr(value, "model_dump"):
        return wired(value.model_dump())
    if hasattr(value, "tolist"):
        return value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return plain(value)
    if isinstance(value, Mapping):
        return {str(key): wired(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [wired(item) for item in value]
    return plain(value)


def _filled(path: str, wire: dict[str, Any]) -> str:
    """The path with its arguments, which leave ``wire``. Raises InvalidInput for one that no id of ours looks like."""
    for name in [part for part in wire if f"{{{part}}}" in path]:
        value = str(wire.pop(name))
        if not value or not all(char.isalnum() or char in "-_" for char in value):
            raise InvalidInput(f"Give {name} as it was returned.", code=f"invalid_{name}")
        path = path.replace(f"{{{name}}}", value)
    return path


def _problem(told: Told) -> Mapping[str, Any]:
    if "json" not in told.headers.get("content-type", ""):
        return {"detail": f"The server answered {told.status}, not as MemForest does."}
    found: Mapping[str, Any] = _adapter(dict[str, Any]).validate_json(told.body)
    return found


@cache
def _adapter(returns: Any) -> TypeAdapter[Any]:
    return TypeAdapter(returns)
