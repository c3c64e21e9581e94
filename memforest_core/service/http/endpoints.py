"""One endpoint for each route, made from the signature of the library's method."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import BaseModel, TypeAdapter
from starlette.responses import JSONResponse, Response

from memforest_core.client.api import MemForest
from memforest_core.client.async_calls import Threads
from memforest_core.client.async_memory import AsyncMemForest
from memforest_core.client.handles import Operation
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.domain.ids import TenantId
from memforest_core.domain.routes import Route, Verb
from memforest_core.observe.webhooks.service import Webhooks
from memforest_core.service.http.gate import ADMISSION, CALLER, Admission
from memforest_core.service.http.problems import RESPONSES, OwnerUnknown, Refused
from memforest_core.service.http.wire import ACTOR, body_model, of_value, parameters, returned, wire_value
from memforest_core.service.keys.records import Caller
from memforest_core.work.dead import DeadLetters

_HOLDERS: Mapping[str, type] = {"lifecycle": Lifecycle, "dead": DeadLetters, "webhooks": Webhooks}
"""Where the methods of names with a dot are."""
_PART = re.compile(r"{(\w+)}")
JSON = "application/json"


class Memories:
    """The memory of each tenant, over the same connections and threads."""

    def __init__(self, memory: MemForest | None, threads: Threads | None) -> None:
        """Without a memory for an app that is only described."""
        self._faces: dict[TenantId, AsyncMemForest] = {}
        if memory is not None and threads is not None:
            self._memory = AsyncMemForest(memory, threads=threads)

    def of(self, tenant: TenantId) -> AsyncMemForest:
        """The memory of a tenant."""
        if tenant not in self._faces:
            self._faces[tenant] = self._memory.for_tenant(tenant)
        return self._faces[tenant]


def caller_of(request: Request) -> Caller:
    """Who sends a request that passed the gate."""
    caller: Caller = request.scope[CALLER]
    return caller


def admission_of(request: Request) -> Admission:
    """The admission of a request that passed the gate."""
    admission: Admission = request.scope[ADMISSION]
    return admission


def method_of(route: Route) -> Callable[..., Any]:
    """The library's method behind a route."""
    holder, _, name = route.name.rpartition(".")
    return getattr(_HOLDERS.get(holder, MemForest), name)  # type: ignore[no-any-return]


def called_on(face: AsyncMemForest, route: Route) -> Callable[..., Awaitable[Any]]:
    """The method of a tenant's memory behind a route."""
    found: Any = face
    for part in route.name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def add(router: APIRouter, route: Route, memories: Memories, tag: str) -> None:
    """Serve a route."""
    method = method_of(route)
    found = parameters(method)
    answered = returned(method)
    in_path = set(_PART.findall(route.path))
    rest = [each for each in found if each.name not in in_path]
    model = body_model(route.name, rest, route.example) if rest else None
    named = any(each.name == ACTOR for each in found)
    traced = "trace" in inspect.signature(method).parameters
    one_by_one = [each.name for each in found if each.kind is inspect.Parameter.VAR_POSITIONAL]
    writes = None if answered is None else TypeAdapter(answered)

    async def called(request: Request, given: BaseModel | None = None, **arguments: Any) -> Response:
        if given is not None:
            arguments |= {name: getattr(given, name) for name in given.model_fields_set}
        caller, face = allowed(request, memories, route, arguments)
        if named:
            arguments[ACTOR] = caller.acting(arguments.get(ACTOR))
        if traced and (trace := request.headers.get("traceparent")):
            arguments["trace"] = trace
        positional = [value for name in one_by_one for value in arguments.pop(name, ())]
        value = await called_on(face, route)(*positional, **arguments)
        value = await face.threads.run(wire_value, value) if _reads_store(value) else wire_value(value)
        if route.owners and getattr(value, "owner_known", True) is False:
            raise OwnerUnknown(value)
        if writes is None:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        return Response(writes.dump_json(value), _status(route), media_type=JSON)

    signature = [inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)]
    signature += [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[each.type, Path(json_schema_extra=of_value(route.name, each.name))],
        )
        for each in found
        if each.name in in_path
    ]
    if model is not None:
        place = Query() if route.verb is Verb.GET else Body()
        signature.append(inspect.Parameter("given", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[model, place]))
    called.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    summary, _, description = inspect.cleandoc(method.__doc__ or "").partition("\n")
    router.add_api_route(
        route.path,
        called,
        methods=[route.verb.value],
        operation_id=route.id,
        name=route.name,
        tags=[tag],
        summary=summary,
        description=f"{summary}\n{description}\n\nNeeds a key with the scope `{route.scope.value}`.",
        status_code=HTTPStatus.NO_CONTENT if answered is None else _status(route),
        response_model=answered,
        responses={**RESPONSES},
        response_class=Response if answered is None else JSONResponse,
    )


def check_scope(caller: Caller, route: Route) -> None:
    """Raise Refused for a key whose scope does not allow a route."""
    if not caller.scope.allows(route.scope):
        raise Refused(
            HTTPStatus.FORBIDDEN,
            "scope_too_narrow",
            f"This key has the scope {caller.scope.value}; this needs {route.scope.value}.",
        )


def check_owners(caller: Caller, route: Route, arguments: Mapping[str, Any]) -> None:
    """Raise Refused for a key that is bound to owners, unless all owners of the request are among them."""
    if caller.owners is None:
        return
    named = [owner for name in route.owners for owner in _owners(arguments.get(name))]
    if not named or not all(map(caller.may_ask_of, named)):
        raise Refused(
            HTTPStatus.FORBIDDEN,
            "owner_not_allowed",
            f"This key reaches owners that match {caller.owners!r:.80}: name one of them.",
        )


def allowed(
    request: Request, memories: Memories, route: Route, arguments: Mapping[str, Any]
) -> tuple[Caller, AsyncMemForest]:
    """Who sends a request, and the memory of their tenant. Raises Refused when the key does not allow a route."""
    caller = caller_of(request)
    check_scope(caller, route)
    check_owners(caller, route, arguments)
    return caller, memories.of(caller.tenant)


def _owners(value: Any) -> Iterator[str]:
    """The owners in an argument: one, several, or pairs of an owner and a question."""
    if isinstance(value, str):
        yield value
    elif value is not None:
        for each in value:
            yield each if isinstance(each, str) else each[0]


def _reads_store(value: Any) -> bool:
    """Whether its JSON takes a read of the database."""
    return isinstance(value, Operation) or (isinstance(value, list | tuple) and any(map(_reads_store, value)))


def _status(route: Route) -> HTTPStatus:
    return HTTPStatus.ACCEPTED if route.path.startswith("/operations/") and route.verb is Verb.POST else HTTPStatus.OK
