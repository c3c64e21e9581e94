"""What a call over HTTP is made of: requests that it yields, and the answers that it is sent."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from pydantic import TypeAdapter

from memforest_core import errors
from memforest_core.domain.documents import plain
from memforest_core.domain.routes import Route, Verb
from memforest_core.errors import InvalidInput, MemForestError, RetryableError
from memforest_core.remote.routes import PREFIX, ROUTES
from memforest_core.work.jobs import WorkError
from memforest_core.work.waiting import WaitTimeout

T = TypeVar("T")

LOCAL = ("transaction", "watch", "trace")
"""Arguments that mean something in one process only."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: the route, the arguments in the path, the query and the body, and files that are sent or kept."""

    verb: str
    path: str
    query: Mapping[str, Any]
    body: Mapping[str, Any] | None
    headers: Mapping[str, str]
    timeout_s: float = 0.0
    """How long the answer may take beyond the usual."""
    send: Path | None = None
    keep: Path | None = None


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
    route, given = ROUTES[name], dict(arguments)
    headers = {"traceparent": given["trace"]} if given.get("trace") else {}
    if given.get("transaction") is not None:
        raise InvalidInput("A memory over HTTP can't join a transaction: leave it out.", code="invalid_transaction")
    for local in LOCAL:
        given.pop(local, None)
    wire = {key: wired(value) for key, value in given.items()}
    path = _filled(route, wire)
    waits = wire.get("timeout_s", 0.0) + wire.get("room_timeout_s", 0.0)
    if route.verb is Verb.GET:
        query = {key: _in_query(value) for key, value in wire.items() if value is not None}
        told = yield Ask(route.verb.value, path, query, None, headers, waits)
    else:
        told = yield Ask(route.verb.value, path, {}, wire, headers, waits)
    return result_of(told, returns)


def result_of(told: Told, returns: Any) -> Any:
    """What an answer holds. Raises the error that it is."""
    if told.status >= 400:
        problem = _problem(told)
        if "result" not in problem:
            raise error_of(told.status, problem)
        return _adapter(returns).validate_python(problem["result"])  # an owner without a memory
    return None if returns is None or told.status == 204 else _adapter(returns).validate_json(told.body)


def error_of(status: int, problem: Mapping[str, Any]) -> MemForestError:
    """The library's error that a problem tells of."""
    kind = _errors().get(str(problem.get("error", "")))
    code = str(problem.get("code", "http_error"))
    message = str(problem.get("detail") or f"The server answered {status}.")
    if kind is WaitTimeout:
        last = problem.get("last_error")
        found = None if last is None else cast(WorkError, _adapter(WorkError).validate_python(last))
        return WaitTimeout(message, retry_after=problem.get("retry_after"), last_error=found)
    if kind is not None and issubclass(kind, errors.QuotaExceeded):
        return kind(message, retry_after=float(problem.get("retry_after", 1.0)))
    if kind is not None and issubclass(kind, errors.StoreContended):
        kind = errors.StoreUnavailable
    if kind is None:
        kind = _by_status(status)
    if issubclass(kind, RetryableError):
        return kind(message, retry_after=problem.get("retry_after"), code=code)
    if issubclass(kind, errors.QuotaExceeded):
        return kind(message, retry_after=float(problem.get("retry_after", 1.0)))
    return kind(message, code=code)


def _by_status(status: int) -> type[MemForestError]:
    """The class of an error that the server itself found."""
    if status == 404:
        return errors.NotFound
    if status in (401, 403):
        return errors.InvalidSettings
    if status == 429:
        return errors.QuotaExceeded
    if status >= 500:
        return RetryableError
    return InvalidInput


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


def _filled(route: Route, wire: dict[str, Any]) -> str:
    """The path with its arguments, which leave ``wire``. Raises InvalidInput for one that no id of ours looks like."""
    path = PREFIX + route.path
    for name in [part for part in wire if f"{{{part}}}" in path]:
        value = str(wire.pop(name))
        if not value or not all(char.isalnum() or char in "-_" for char in value):
            raise InvalidInput(f"Give {name} as it was returned.", code=f"invalid_{name}")
        path = path.replace(f"{{{name}}}", value)
    return path


def _in_query(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def _problem(told: Told) -> Mapping[str, Any]:
    if "json" not in told.headers.get("content-type", ""):
        return {"code": "http_error", "detail": f"The server answered {told.status}, not as MemForest does."}
    found = _adapter(dict[str, Any]).validate_json(told.body)
    return cast(Mapping[str, Any], found)


@cache
def _errors() -> Mapping[str, type[MemForestError]]:
    """All classes of the library's errors that need only a sentence and a code, by their names."""
    known: dict[str, type[MemForestError]] = {"WaitTimeout": WaitTimeout}
    for name, found in vars(errors).items():
        if isinstance(found, type) and issubclass(found, MemForestError):
            known[name] = found
    return known


@cache
def _adapter(returns: Any) -> TypeAdapter[Any]:
    return TypeAdapter(returns)
