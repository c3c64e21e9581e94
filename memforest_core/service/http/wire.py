"""Signatures of the library as JSON has them: models of what requests hold, and what answers are made of."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from typing_extensions import TypedDict

from memforest_core.client.handles import Operation, SessionHandle
from memforest_core.client.remote.records import Stored
from memforest_core.client.remote.route_table import MAX_WAIT_S
from memforest_core.service.http.constraints import TIME, of_body, of_value
from memforest_core.store.engine import Connection
from memforest_core.work.records import OperationTask

_SECONDS = re.compile(r"-?\d{9,13}(\.\d+)?|-?\d+(\.\d+)?e[+-]?\d+")


def _seconds(given: object) -> object:
    """Unix seconds that came as text, which a query can't tell from a date."""
    return float(given) if isinstance(given, str) and _SECONDS.fullmatch(given) else given


Time: TypeAlias = Annotated[
    str | float, BeforeValidator(_seconds), Field(description="ISO 8601, or unix seconds.", json_schema_extra=TIME)
]

LOCAL = frozenset({"self", "transaction", "trace", "watch", "tenant"})
"""Parameters that mean something in the caller's process only."""
ACTOR = "actor"
"""The parameter that names the caller of an operation."""
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=MAX_WAIT_S)]

_ITEMS = list[UUID | tuple[str, str]]
_SPECIAL: Mapping[str, Any] = {"items": _ITEMS, "timeout_s": Seconds, "room_timeout_s": Seconds}
"""Parameters whose types are narrower here: items of a window are ids of facts, or pairs of a session's and a turn's
id."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of an operation."""

    name: str
    type: Any
    default: Any
    kind: inspect._ParameterKind

    @property
    def required(self) -> bool:
        """Whether a request must have it."""
        return self.default is inspect.Parameter.empty and self.kind is not inspect.Parameter.VAR_POSITIONAL


def parameters(method: Callable[..., Any]) -> list[Parameter]:
    """What a request may hold for a method of the library; options that it takes by name are parameters like others."""
    hints = get_type_hints(method, include_extras=True)
    found: list[Parameter] = []
    for each in inspect.signature(method).parameters.values():
        if each.name in LOCAL:
            continue
        hint = hints[each.name]
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            (options,) = get_args(hint)
            found += [
                Parameter(option, wired(type_), None, inspect.Parameter.KEYWORD_ONLY)
                for option, type_ in get_type_hints(options, include_extras=True).items()
            ]
        elif each.kind is inspect.Parameter.VAR_POSITIONAL:
            found.append(Parameter(each.name, list[wired(hint)], [], each.kind))  # type: ignore[misc]
        else:
            special = _SPECIAL.get(each.name)
            type_, default = special or wired(hint), each.default
            if each.name == ACTOR:
                type_, default = str | None, None  # the key is named anyway
            elif special is Seconds:
                default = min(default, MAX_WAIT_S)
            found.append(Parameter(each.name, type_, default, each.kind))
    return found


def body_model(name: str, found: Iterable[Parameter], example: Mapping[str, object]) -> type[BaseModel]:
    """The model of a JSON body with these parameters; other fields are refused."""
    fields: dict[str, Any] = {}
    for each in found:
        extra = of_value(name, each.name)
        fields[each.name] = (each.type, Field(... if each.required else each.default, json_schema_extra=extra))
    shown: dict[str, Any] = {"examples": [dict(example)]} if example else {}
    config = ConfigDict(extra="forbid", json_schema_extra=shown | of_body(name))
    return create_model(_title(name), __config__=config, **fields)


def returned(method: Callable[..., Any]) -> Any:
    """The type of what a method answers, as JSON has it; None for nothing."""
    return _answer(get_type_hints(method)["return"])


def wire_value(value: Any) -> Any:
    """What a method returned, as it is answered; handles become what is known of them. May read the database."""
    match value:
        case SessionHandle():
            return Stored(value.owner, value.session_id, value.accepted, value.topic, value.degraded)
        case Operation():
            return value.state()
        case list() | tuple():
            return [wire_value(each) for each in value]
        case _:
            return value


@cache
def wired(hint: Any) -> Any:
    """A type of a parameter, as JSON has it."""
    if hint is object:
        return Time
    if is_typeddict(hint):
        return _typed_dict(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is None or origin is Literal:
        return hint
    if origin is Mapping or origin is dict:
        return dict[str, Any if inner[1] is object else wired(inner[1])]  # type: ignore[misc]
    if origin in (Sequence, Iterable, Iterator, list):
        return list[wired(inner[0])]  # type: ignore[misc]
    if origin is tuple:
        return tuple[tuple(wired(each) if each is not ... else each for each in inner)]  # type: ignore[misc]
    if origin in (Union, types.UnionType):
        return _union(inner)
    raise TypeError(f"no JSON is known for {hint}")


def _union(members: tuple[Any, ...]) -> Any:
    rest = [each for each in members if each is not Connection and get_origin(each) is not get_origin(NDArray[Any])]
    if UUID in rest and str in rest:
        rest.remove(str)
    if any(get_origin(each) is Mapping for each in rest) and str not in rest:
        rest = [each for each in rest if get_origin(each) is not Mapping] + [Mapping[str, object]]
    names = {getattr(each, "__name__", "") for each in rest}
    if {"date", "str"} <= names or {"datetime", "str"} <= names:
        rest = [each for each in rest if getattr(each, "__name__", "") not in ("date", "datetime")]
    wires = [wired(each) for each in rest]
    return Union[tuple(wires)]  # noqa: UP007 - made from a list


def _typed_dict(hint: Any) -> Any:
    """The same fields in the kind of typed dict that pydantic reads on every Python.

    Messages of chat APIs have others; the library reads them or says which it does not know.
    """
    fields = {name: NotRequired[wired(type_)] for name, type_ in get_type_hints(hint).items()}
    made = TypedDict(hint.__name__, fields)  # type: ignore[misc]
    made.__pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[attr-defined]
    return made


def _answer(hint: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Generator:
        return _answer(inner[2])
    if hint is SessionHandle:
        return Stored
    if hint is Operation:
        return OperationTask
    if origin in (list, Sequence):
        return list[_answer(inner[0])]  # type: ignore[misc]
    return None if hint is type(None) else hint


def _title(name: str) -> str:
    return "".join(part.capitalize() for part in name.replace(".", "_").split("_")) + "Request"
