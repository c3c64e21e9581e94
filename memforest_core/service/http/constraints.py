"""What the OpenAPI document says of values that the library itself checks: its refusals say what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memforest_core.assistant.conversation_window.naming import MAX_ITEMS
from memforest_core.assistant.conversation_window.service import MAX_BUDGET, MAX_LAST_TURNS
from memforest_core.assistant.profile.forgetting import MAX_WORDS_CHARS
from memforest_core.assistant.profile.intents import MAX_CHARS
from memforest_core.client.producer import WAIT_STAGES
from memforest_core.domain.evidence import Mode
from memforest_core.domain.ids import TreeKind
from memforest_core.domain.pages import MAX_LIMIT, MOST_LISTED
from memforest_core.domain.tags import MAX_TAG_CHARS
from memforest_core.domain.turns import MAX_CHANNEL_CHARS, MAX_ID, Role
from memforest_core.lifecycle.correct.records import MAX_TEXT
from memforest_core.lifecycle.merge.service import MAX_SOURCES
from memforest_core.lifecycle.retain import records as retention
from memforest_core.lifecycle.retain.records import Order
from memforest_core.models.calls import Step
from memforest_core.observe.webhooks.addresses import MAX_URL
from memforest_core.observe.webhooks.records import Event
from memforest_core.observe.webhooks.service import MAX_DESCRIPTION
from memforest_core.recall import request
from memforest_core.recall.question import MAX_QUESTION_CHARS
from memforest_core.work.dead import SHORTEST_PREFIX
from memforest_core.work.jobs import WorkState

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
_AGES = ("max_age_days", "facts_max_age_days", "digests_max_age_days", "window_max_age_days")
_MERGES = ("merge", "merge_conflicts")
_VALUES: Mapping[str, Schema] = {
    **dict.fromkeys(_ONE_NAME.split(), _NAME),
    **dict.fromkeys(["sessions", "exclude_sessions", "speakers", "lifecycle.forget.turns"], _NAMES),
    "question": _text(MAX_QUESTION_CHARS),
    **dict.fromkeys(["max_age_days", "facts_max_age_days", "digests_max_age_days", "window_max_age_days"], _DAYS),
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


def of_body(route: str) -> Schema:
    """Which arguments of a body go together, as keywords of its JSON Schema."""
    return _BODIES.get(route, {})
