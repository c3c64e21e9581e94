"""Methods over HTTP: each is made from a route and the library's signature."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import Signature
from typing import Any, TypeVar

from memforest_core.client.remote import exchange
from memforest_core.client.remote.exchange import Exchange
from memforest_core.client.remote.records import Stored
from memforest_core.client.remote.route_table import ROUTES
from memforest_core.client.remote.signatures import Method, methods, named_type
from memforest_core.client.remote.transport import AsyncTransport, Transport
from memforest_core.work.records import OperationTask

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


def over_http(prefix: str = "", *, waits: bool) -> Callable[[type[F]], type[F]]:
    """Complete a class with the methods whose routes have a ``prefix``; ``waits``: in the caller's thread."""

    def completed(face: type[F]) -> type[F]:
        for name, method in methods(_CLASSES[prefix]).items():
            route = ".".join(filter(None, (prefix, _ALIASES.get(name, name))))
            if route in ROUTES or route in _EXCHANGES:
                setattr(face, name, _remote_method(name, route, method, waits))
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
