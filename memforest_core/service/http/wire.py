"""Signatures of the library as JSON has them: models of requests and answers, and what the document says of values."""

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

from memforest_core.assistant.conversation_window.records import MAX_ITEMS
from memforest_core.assistant.conversation_window.service import MAX_BUDGET, MAX_LAST_TURNS
from memforest_core.assistant.profile.forgetting import MAX_WORDS_CHARS
from memforest_core.assistant.profile.intents import MAX_CHARS
from memforest_core.client.handles import Operation, SessionHandle
from memforest_core.client.producer import WAIT_STAGES
from memforest_core.client.remote.records import Stored
from memforest_core.client.route_table import MAX_WAIT_S
from memforest_core.domain.evidence import Mode
from memforest_core.domain.ids import TreeKind
from memforest_core.domain.pages import MAX_LIMIT, MOST_LISTED
from memforest_core.domain.temperature import MAX_TAG_CHARS
from memforest_core.domain.turns import MAX_CHANNEL_CHARS, MAX_ID, Role
from memforest_core.lifecycle.correct.records import MAX_TEXT
from memforest_core.lifecycle.merge.service import MAX_SOURCES
from memforest_core.lifecycle.retain import records as retention
from memforest_core.lifecycle.retain.records import Order
from memforest_core.models.calls import Step
from memforest_core.observe.webhooks.records import Event
from memforest_core.observe.webhooks.service import MAX_DESCRIPTION, MAX_URL
from memforest_core.recall import request
from memforest_core.recall.question import MAX_QUESTION_CHARS
from memforest_core.store.engine import Connection
from memforest_core.work.dead import SHORTEST_PREFIX
from memforest_core.work.jobs import WorkState
from memforest_core.work.records import OperationTask

Schema = dict[str, Any]

_MONTH, _OF_MONTH, _WEEK = r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])", r"W(0[1-9]|[1-4]\d|5[0-3])"
_DAY = rf"(?!1000)[12]\d{{3}}(-{_MONTH}-{_OF_MONTH}|{_MONTH}{_OF_MONTH}|-{_WEEK}-[1-7]|{_WEEK}[1-7])"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d"
TIME: Schema = {"pattern": rf"^\s*{_DAY}([T ]{_CLOCK}(:[0-5]\d(\.\d+)?)?(Z|[+-]{_CLOCK})?)?\s*$"}
_DATE: Schema = {"pattern": rf"^\s*{_DAY}\s*$"}


def _text(most: int, characters: str = r"[^\x00]") -> Schema:
    return {"minLength": 1, "maxLength": most, "pattern": rf"^(?!\s*$){characters}+$"}


def _list(item: Schema, most: int, least: int = 0) -> Schema:
    return {"minItems": least, "maxItems": most, "items": {"type": "string", **item}}


def _whole(most: int, least: int = 1) -> Schema:
    return {"minimum": least, "maximum": most}


def _pair(*items: Schema) -> Schema:
    texts = [{"type": "string", **item} for item in items]
    return {"type": "array", "prefixItems": texts, "minItems": len(items), "maxItems": len(items)}


def _given(name: str, *absent: str) -> Schema:
    """A body with a value for ``name`` and none for what is ``absent``."""
    return {
        "required": [name],
        "properties": {name: {"not": {"type": "null"}}, **{other: {"type": "null"} for other in absent}},
    }


_NAME = _text(MAX_ID)
_NAMES = _list(_NAME, request.MAX_NAMES)
_LINE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]"
_DAYS: Schema = {"minimum": 1 / retention.DAY_S, "maximum": retention.LONGEST_AGE_DAYS}
_ID: Schema = {"pattern": rf"^\s*-*([0-9a-fA-F]-*){{{SHORTEST_PREFIX},32}}\s*$"}
_ONE_NAME = "owner session_id display_name about attribute entity scene before into speaker session outcome"
_AGES = ("max_age_days", "facts_max_age_days", "digests_max_age_days", "window_max_age_days", "faded_max_age_days")
_MERGES = ("merge", "merge_conflicts")
_VALUES: Mapping[str, Schema] = {
    **dict.fromkeys(_ONE_NAME.split(), _NAME),
    **dict.fromkeys(["sessions", "exclude_sessions", "speakers", "lifecycle.forget.turns"], _NAMES),
    "question": _text(MAX_QUESTION_CHARS),
    **dict.fromkeys(_AGES, _DAYS),
    **dict.fromkeys(["limit", "last"], _whole(MAX_LIMIT)),
    **dict.fromkeys(
        [f"{name}.limit" for name in ("dead.list", "lifecycle.pins", "lifecycle.operations", "lifecycle.audit")],
        _whole(MOST_LISTED),
    ),
    **dict.fromkeys(["lifecycle.correct.text", "lifecycle.correct.value"], _text(MAX_TEXT)),
    "actor": _text(MAX_ID, _LINE),
    "channel": _text(MAX_CHANNEL_CHARS),
    "channels": _list(_NAME, request.MAX_NAMES, 1),
    "owners": _list(_NAME, request.MAX_OWNERS, 1),
    "sources": _list(_NAME, request.MAX_SOURCES, 1),
    **{f"lifecycle.{name}.sources": {**_list(_NAME, MAX_SOURCES, 1), "uniqueItems": True} for name in _MERGES},
    "roles": _list({"enum": [*Role]}, request.MAX_NAMES),
    "trees": _list({"enum": [*TreeKind]}, request.MAX_NAMES),
    "kind": {"enum": [*TreeKind, None]},
    "step": {"enum": [*Step, None]},
    "mode": {"enum": [*Mode, None]},
    "state": {"enum": [*WorkState, None]},
    "order": {"enum": [*Order]},
    **{name: {"enum": [*WAIT_STAGES]} for name in ("enqueue.wait", "append.wait", "remember.wait", "stage")},
    "events": _list({"enum": [*Event]}, MAX_LIMIT, 1),
    "tags": {"items": {"type": "string", **_text(MAX_TAG_CHARS, _LINE)}},
    "enqueue.turns": {"minItems": 1},
    "set_limits.limits": {"properties": dict.fromkeys(("max_waiting_cells", "max_turns_per_day"), _whole(2**31 - 1))},
    "questions": {"items": _pair(_NAME, _text(MAX_QUESTION_CHARS))},
    "items": {"maxItems": MAX_ITEMS, "items": {"anyOf": [{"type": "string", "format": "uuid"}, _pair(_NAME, _NAME)]}},
    "k": _whole(request.MAX_K),
    "neighbours": _whole(request.MAX_NEIGHBOURS, 0),
    "max_tokens": _whole(request.MAX_TOKENS),
    "window.max_tokens": _whole(MAX_BUDGET),
    "last_turns": _whole(MAX_LAST_TURNS),
    "budget_ms": {"exclusiveMinimum": 0},
    "max_facts": _whole(retention.MOST_FACTS),
    "max_bytes": _whole(retention.MOST_BYTES),
    "fraction": {"exclusiveMinimum": 0, "maximum": 1},
    "topic_rate.importance": {"minimum": 0, "maximum": 1},
    "date": _DATE,
    "day": _DATE,
    "period": {"pattern": r"^(\s*(?!1000)[12]\d{3}(-(0[1-9]|1[0-2]))?\s*|life)$"},
    "id_": _ID,
    "ids": {"items": {"type": "string", **_ID}},
    "url": {"format": "uri", "maxLength": MAX_URL, "pattern": "^https?://"},
    "description": {"maxLength": MAX_DESCRIPTION, "pattern": r"^[^\x00]*$"},
    "remember.text": _text(1 << 30),
    "forget.words": _text(MAX_WORDS_CHARS),
    "intent.text": {"maxLength": MAX_CHARS},
}
"""By the name of a parameter, or of a route and one of its parameters. Keywords of null say nothing."""

_ONE_PIN: Schema = {"oneOf": [_given("fact", "session", "turn"), _given("session", "fact")]}
_TARGETS = ("session", "fact", "speaker", "since", "until")


def _only(name: str, *others: str) -> Schema:
    """A body of a deletion with one target; ``others`` may be given with it."""
    body = _given(name, *(each for each in _TARGETS if each not in (name, *others)))
    body["properties"] |= {} if name == "session" else {"turns": {"maxItems": 0}}
    body["properties"] |= {"everything": {"const": name == "everything"}}
    return body


_BODIES: Mapping[str, Schema] = {
    "recall": {
        "oneOf": [_given("question", "vector"), _given("vector", "question")],
        "anyOf": [_given("owner"), _given("owners")],
    },
    "summarize": {"oneOf": [_given("day", "session"), _given("session", "day")]},
    "topic_rate": {"oneOf": [_given("importance", "useful"), _given("useful", "importance")]},
    "lifecycle.forget": {
        "oneOf": [*map(_only, ("session", "fact", "speaker", "until", "everything")), _only("since", "until")]
    },
    "lifecycle.pin": _ONE_PIN,
    "lifecycle.unpin": _ONE_PIN,
    "lifecycle.correct": {"anyOf": [_given(name) for name in ("text", "start", "end", "value")]},
    "lifecycle.set_policy": {"anyOf": [_given(name) for name in ("max_facts", "max_bytes", *_AGES)]},
}
"""Which values of a body go together, by the name of the route."""


def of_value(route: str, name: str) -> Schema | None:
    """What the library takes for one argument, as keywords of its JSON Schema."""
    return _VALUES.get(f"{route}.{name}", _VALUES.get(name))


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
    title = "".join(part.capitalize() for part in name.replace(".", "_").split("_"))
    config = ConfigDict(extra="forbid", json_schema_extra=shown | _BODIES.get(name, {}))
    return create_model(f"{title}Request", __config__=config, **fields)


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

    Messages of chat APIs have others, and null; the library reads them or says which it does not know.
    """
    fields = {name: NotRequired[wired(type_) | None] for name, type_ in get_type_hints(hint).items()}
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
