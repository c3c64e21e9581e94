"""Methods over HTTP: each is made from a route and the library's signature."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, TypeVar

from memforest_core.client.async_calls import set_part
from memforest_core.client.remote import exchange
from memforest_core.client.remote.exchange import Exchange
from memforest_core.client.remote.records import Stored
from memforest_core.client.remote.transport import AsyncTransport, Transport
from memforest_core.client.route_table import ROUTES
from memforest_core.work.records import OperationTask

STUB = Path(__file__).parents[1] / "async_memory.pyi"
_BUILTINS: Mapping[str, Any] = {kind.__name__: kind for kind in (bool, dict, float, int, list, str)}


@dataclass(frozen=True, slots=True)
class Method:
    """A public method of the library."""

    signature: Signature
    """With annotations as text."""
    documentation: str
    returned: ast.expr


@cache
def methods(kind: str) -> Mapping[str, Method]:
    """The public asynchronous methods of a class of the stub, by name."""
    body = next(each.body for each in _stub().body if isinstance(each, ast.ClassDef) and each.name == kind)
    return {
        each.name: Method(_signature(each), ast.get_docstring(each) or "", each.returns or ast.Constant(None))
        for each in body
        if isinstance(each, ast.AsyncFunctionDef) and not each.name.startswith("_") and not each.decorator_list
    }


def named_type(annotation: ast.expr, instead: Mapping[str, type]) -> Any:
    """The type that an annotation of the stub names, imported now, or the one that is given ``instead`` of it."""
    match annotation:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            known = {**_BUILTINS, **instead}
            return known[name] if name in known else getattr(import_module(_homes()[name]), name)
        case ast.Subscript(outer, inner):
            return named_type(outer, instead)[named_type(inner, instead)]
        case ast.Tuple(items):
            return tuple(named_type(each, instead) for each in items)
        case ast.BinOp(left, _, right):
            return named_type(left, instead) | named_type(right, instead)
    raise TypeError(f"no type is known for {ast.unparse(annotation)}")


def ignore(*_: object) -> None:
    """In place of a default of the library that is a function."""


@cache
def _stub() -> ast.Module:
    return ast.parse(STUB.read_text(encoding="utf-8"))


@cache
def _homes() -> Mapping[str, str]:
    """The modules of imported names."""
    imports = (each for each in _stub().body if isinstance(each, ast.ImportFrom))
    return {name.name: str(each.module) for each in imports for name in each.names}


def _signature(method: ast.AsyncFunctionDef) -> Signature:
    given = method.args
    defaults = [*[None] * (len(given.args) - len(given.defaults)), *given.defaults]
    found = list(_parameters(given.args, defaults, Parameter.POSITIONAL_OR_KEYWORD))
    if given.vararg is not None:
        found += _parameters([given.vararg], [None], Parameter.VAR_POSITIONAL)
    found += _parameters(given.kwonlyargs, given.kw_defaults, Parameter.KEYWORD_ONLY)
    if given.kwarg is not None:
        found += _parameters([given.kwarg], [None], Parameter.VAR_KEYWORD)
    return Signature(found, return_annotation=_text(method.returns))


def _parameters(
    names: Iterable[ast.arg], defaults: Iterable[ast.expr | None], kind: inspect._ParameterKind
) -> Iterable[Parameter]:
    for each, default in zip(names, defaults, strict=True):
        value = Parameter.empty if default is None else ast.literal_eval(default)
        yield Parameter(each.arg, kind, default=ignore if value is ... else value, annotation=_text(each.annotation))


def _text(annotation: ast.expr | None) -> Any:
    return Parameter.empty if annotation is None else ast.unparse(annotation)


F = TypeVar("F", bound="Remote")

_CLASSES: Mapping[str, str] = {
    "": "AsyncMemForest",
    "lifecycle": "AsyncLifecycle",
    "dead": "AsyncDeadLetters",
    "webhooks": "AsyncWebhooks",
}
"""Which class of the library has the methods of routes with this prefix."""
_EXCHANGES: Mapping[str, Callable[..., Exchange[Any]]] = {
    "lifecycle.export": exchange.export,
    "lifecycle.import_": exchange.import_bundle,
    "enqueue_many": exchange.store_sessions,
    "window_put": exchange.put_items,
    **dict.fromkeys(("enqueue", "append", "remember"), exchange.store_session),
}
"""Methods that take more than one request of their arguments."""
_ALIASES: Mapping[str, str] = {"ingest": "enqueue", "ingest_many": "enqueue_many"}
_UNKNOWN = {"quota": "tenant", "set_limits": "tenant", "lifecycle.export": "watch", "lifecycle.import_": "watch"}
"""Parameters that mean something in one process only: a key has one tenant, and a file comes as a whole."""
_SENT: Mapping[str, type] = {"SessionHandle": Stored, "Operation": OperationTask}
"""What an answer has instead of a handle."""
_ASYNC = {"SessionHandle": "AsyncSessionHandle", "Operation": "OperationTask"}
"""What asynchronous methods return instead of a handle that waits in its thread."""


class Remote:
    """Some calls over a transport."""

    def __init__(self, transport: Transport | AsyncTransport) -> None:
        self._transport = transport

    def _handle(self, value: Any) -> Any:
        """The handle that a caller gets for a stored session or an operation."""
        return value


def over_http(prefix: str = "", *, waits: bool, **parts: type[Remote]) -> Callable[[type[F]], type[F]]:
    """Complete a class with the methods whose routes have a ``prefix``; ``waits``: in the caller's thread.

    ``parts`` are classes with further methods, by the names under which objects of them are found.
    """

    def completed(face: type[F]) -> type[F]:
        for name, method in methods(_CLASSES[prefix]).items():
            route = ".".join(filter(None, (prefix, _ALIASES.get(name, name))))
            if route in ROUTES or route in _EXCHANGES:
                setattr(face, name, _remote_method(name, route, method, waits))
        for name, kind in parts.items():
            set_part(face, name, kind, lambda own, _, kind: kind(own._transport))
        return face

    return completed


def _remote_method(name: str, route: str, method: Method, waits: bool) -> Callable[..., Any]:
    signature, run = _shown(route, method, waits), _exchange_of(route, method)

    def called(remote: Remote, /, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(remote, *args, **kwargs)
        given.apply_defaults()
        arguments = {each: value for each, value in given.arguments.items() if each != "self"}
        return remote._transport.run(run(remote, arguments | arguments.pop("options", {})))

    async def called_async(remote: Remote, /, *args: Any, **kwargs: Any) -> Any:
        return await called(remote, *args, **kwargs)

    made: Any = called if waits else called_async
    made.__name__, made.__doc__, made.__signature__ = name, method.documentation, signature
    return made  # type: ignore[no-any-return]


def _shown(route: str, method: Method, waits: bool) -> Signature:
    """The signature of the library's method, without what has no meaning over HTTP."""
    own = method.signature
    known = [each for each in own.parameters.values() if each.name != _UNKNOWN.get(route)]
    returned = own.return_annotation
    for handle, other in ({} if waits else _ASYNC).items():
        returned = re.sub(rf"\b{handle}\b", other, returned)
    return own.replace(parameters=known, return_annotation=returned)


def _exchange_of(route: str, method: Method) -> Callable[[Remote, Mapping[str, Any]], Exchange[Any]]:
    """What a call of a method sends, and what it makes of the answers."""
    parameters = method.signature.parameters
    patient = "timeout_s" in parameters and "wait" not in parameters
    send = _EXCHANGES.get(route) or (exchange.call_until if patient else exchange.call)
    names_handle = any(isinstance(each, ast.Name) and each.id in _SENT for each in ast.walk(method.returned))

    @cache
    def returns() -> Any:
        return named_type(method.returned, _SENT)

    def run(remote: Remote, arguments: Mapping[str, Any]) -> Exchange[Any]:
        value = yield from send(route, returns(), arguments)
        if not names_handle:
            return value
        return [remote._handle(each) for each in value] if isinstance(value, list) else remote._handle(value)

    return run
