"""Calls over HTTP as generators: each yields requests, is sent their answers, and ends with its result."""

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
from memforest_core.assistant.conversation_window.records import named_items
from memforest_core.client.remote.records import Stored
from memforest_core.client.route_table import BUNDLE, COUNTS, MAX_WAIT_S, PREFIX, ROUTES
from memforest_core.domain.pages import plain
from memforest_core.domain.routes import Verb
from memforest_core.errors import InvalidInput, MemForestError, QuotaExceeded, RetryableError
from memforest_core.ingest.accept.records import SessionProgress, Stage
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
class HttpRequest:
    """One request of a call."""

    verb: str
    path: str
    query: Mapping[str, Any]
    body: Mapping[str, Any] | None = None
    trace: str | None = None
    waits_s: float = 0.0
    """How much longer than usual the answer may take."""
    upload: Path | None = None
    """The file that is the body."""
    download: Path | None = None
    """Where the answer's file is written."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer to one request."""

    status: int
    body: bytes
    headers: Mapping[str, str]


Exchange: TypeAlias = Generator[HttpRequest, HttpAnswer, T]


def call(name: str, returns: Any, arguments: Mapping[str, Any]) -> Exchange[Any]:
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
        answer = yield HttpRequest(route.verb.value, path, query, None, trace, waits_s)
    else:
        answer = yield HttpRequest(route.verb.value, path, {}, wire, trace, waits_s)
    return result_of(answer, returns)


def call_until(name: str, returns: Any, arguments: Mapping[str, Any]) -> Exchange[Any]:
    """Call an operation that waits, by requests that are short enough for proxies, until it ends or the time is over.

    ``watch``, if it is among the arguments, is given the task after each request.
    """
    watch: Callable[[Any], None] | None = arguments.get("watch")
    ends = time.monotonic() + float(arguments["timeout_s"])
    while True:
        left = max(0.0, min(SLICE_S, ends - time.monotonic()))
        try:
            found = yield from call(name, returns, {**arguments, "timeout_s": left})
        except WaitTimeout:
            if watch is not None:
                watch((yield from call("lifecycle.operation", returns, {"operation": arguments["operation"]})))
            if time.monotonic() >= ends:
                raise
        else:
            if watch is not None:
                watch(found)
            return found


def store_session(name: str, _returns: Any, arguments: Mapping[str, Any]) -> Exchange[Stored]:
    """Call an operation that stores a session, then wait for the stage that it names. Raises InvalidInput first."""
    wait, timeout_s = arguments["wait"], arguments["timeout_s"]
    if wait not in _WAITS:
        raise InvalidInput(f"Set wait to {', '.join(_WAITS)}, not {wait!r:.40}.", code="invalid_wait")
    given = {**arguments, "wait": "none"}
    if "close" in given:
        given["close"] = given["close"] or wait in _CLOSING
    stored: Stored = yield from call(name, Stored, given)
    if wait != "none":
        place = {"owner": stored.owner, "session_id": stored.session_id}
        yield from call_until("wait", Any, {**place, "stage": wait, "timeout_s": timeout_s})
    return stored


def put_items(name: str, returns: Any, arguments: Mapping[str, Any]) -> Exchange[Any]:
    """Put items into a window, by the ids of facts and turns. Raises InvalidInput first."""
    return (yield from call(name, returns, {**arguments, "items": named_items(arguments["items"])}))


def store_sessions(_name: str, _returns: Any, arguments: Mapping[str, Any]) -> Exchange[list[Stored]]:
    """Store (owner, session id, turns) one after the other, then wait for all of them."""
    options = {key: arguments[key] for key in ("backfill", "room_timeout_s")}
    wait, timeout_s = arguments["wait"], arguments["timeout_s"]
    stored: list[Stored] = []
    for owner, session_id, turns in arguments["sessions"]:
        session = {"owner": owner, "session_id": session_id, "turns": turns}
        stored.append((yield from call("enqueue", Stored, {**session, **options})))
    for one in stored if wait != "none" else ():
        session = {"owner": one.owner, "session_id": one.session_id}
        yield from call_until("wait", SessionProgress, {**session, "stage": wait, "timeout_s": timeout_s})
    return stored


def export(_name: str, _returns: Any, arguments: Mapping[str, Any]) -> Exchange[dict[str, str | int]]:
    """Write a bundle that the server sends: ``path`` has the file when it is whole."""
    query = {key: value for key, value in arguments.items() if value is not None}
    target, overwrite = Path(query.pop("path")), query.pop("overwrite")
    if target.exists() and not overwrite and not query["dry_run"]:
        raise InvalidInput(f"{target} exists: name another file, or overwrite it.", code="file_exists")
    download = None if query["dry_run"] else target
    return _counts((yield HttpRequest("GET", PREFIX + BUNDLE, query, waits_s=MAX_WAIT_S, download=download)))


def import_bundle(_name: str, _returns: Any, arguments: Mapping[str, Any]) -> Exchange[dict[str, str | int]]:
    """Send the bundle at ``path``; the server reads it."""
    query = {key: value for key, value in arguments.items() if value is not None}
    path = Path(query.pop("path"))
    return _counts((yield HttpRequest("POST", PREFIX + BUNDLE, query, waits_s=MAX_WAIT_S, upload=path)))


def _counts(answer: HttpAnswer) -> dict[str, str | int]:
    """The counts of a bundle: in a header next to a file, else the answer itself."""
    header = answer.headers.get(COUNTS.lower())
    answer = answer if header is None else HttpAnswer(answer.status, header.encode(), {})
    found: dict[str, str | int] = result_of(answer, dict[str, str | int])
    return found


def result_of(answer: HttpAnswer, returns: Any) -> Any:
    """The result in an answer. Raises the error that the answer is."""
    if answer.status >= HTTPStatus.BAD_REQUEST:
        problem = _problem(answer)
        if "result" not in problem:
            raise error_of(answer.status, problem)
        return _adapter(returns).validate_python(problem["result"])  # an owner without a memory
    return (
        None
        if returns is None or answer.status == HTTPStatus.NO_CONTENT
        else _adapter(returns).validate_json(answer.body)
    )


@cache
def known_errors() -> Mapping[str, type[MemForestError]]:
    """The errors that are the same on both sides, by the names that problems have for them."""
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, MemForestError)]
    # It has a state of SQL, which a caller elsewhere can do nothing with.
    found.remove(errors.StoreContended)
    return {each.__name__: each for each in (*found, OperationFailed, WaitTimeout)}


def error_of(status: int, problem: Mapping[str, Any]) -> MemForestError:
    """The library's error for a problem."""
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
        return wired(value.model_dump(mode="json"))
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


def _problem(answer: HttpAnswer) -> Mapping[str, Any]:
    if "json" not in answer.headers.get("content-type", ""):
        return {"detail": f"The server answered {answer.status}, not as MemForest does."}
    found: Mapping[str, Any] = _adapter(dict[str, Any]).validate_json(answer.body)
    return found


@cache
def _adapter(returns: Any) -> TypeAdapter[Any]:
    return TypeAdapter(returns)
