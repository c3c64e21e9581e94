"""What a file is converted into: values, sessions, turns, and refusals, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.text import clean
from memforest_core.domain.turns import TurnLimits
from memforest_core.errors import InvalidInput

MAX_BYTES = TurnLimits().max_turn_bytes
"""Longer texts become several turns."""
_MAX_CHARS = MAX_BYTES // 4
"""A character has at most four bytes in UTF-8."""


@dataclass(frozen=True, slots=True)
class Value:
    """One JSON value of a file; ``position`` counts lines, or the items of a list, from 1."""

    position: int
    content: object
    outer: Mapping[str, object] = field(default_factory=dict)
    """The other fields of the object whose list it is in, as far as they are before it."""


@dataclass(frozen=True, slots=True)
class Converted:
    """One session, as ``enqueue`` takes it."""

    position: int
    owner: str
    session_id: str
    turns: Sequence[TurnInput]
    started_at: object | None = None
    display_name: str | None = None
    channel: str | None = None
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class Wordless:
    """A session in which nobody says anything that can be remembered: no fault, and nothing to store."""

    position: int
    session_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An item, or one session of it, that can't be converted; nothing of it is stored."""

    position: int
    error: InvalidInput
    session_id: str | None = None


Item = Converted | Wordless | Refused


def bad_item(message: str) -> InvalidInput:
    """An item does not have its format's shape."""
    return InvalidInput(message, code="invalid_item")


def mapping_of(value: object, what: str) -> Mapping[str, object]:
    """A JSON object. Raises InvalidInput."""
    if not isinstance(value, dict):
        raise bad_item(f"{what} must be a JSON object.")
    return value


def list_of(value: object, what: str) -> list[object]:
    """A JSON list. Raises InvalidInput."""
    if not isinstance(value, list):
        raise bad_item(f"{what} must be a list.")
    return value


def name_of(value: object) -> str | None:
    """An id as text; some files hold numbers. None for what names nothing."""
    if isinstance(value, int | str) and not isinstance(value, bool):
        return clean(str(value)).strip() or None
    return None


def session_of(
    position: int, owner: str | None, name: str, turns: Sequence[TurnInput], started_at: object | None = None
) -> Item:
    """A session with these turns; wordless without any. Raises InvalidInput without an owner."""
    if owner is None:
        raise InvalidInput("Give --owner: the session does not say whose it is.", code="missing_owner")
    return Converted(position, owner, name, turns, started_at) if turns else Wordless(position, name)


def turns_of(
    role: str,
    content: str,
    *,
    id: str | None = None,
    metadata: Mapping[str, object] | None = None,
    timestamp: Any = None,
    name: str | None = None,
) -> list[TurnInput]:
    """One turn, several for a text beyond 256 KiB ("id", "id#2", ...), none for one without words. NUL and lone
    surrogates are left out."""
    made: list[TurnInput] = []
    for number, part in enumerate(_parts(clean(content).strip()), start=1):
        own = id if id is None or number == 1 else f"{id}#{number}"
        fields = {"id": own, "timestamp": timestamp, "name": name, "metadata": dict(metadata) if metadata else None}
        given = {key: value for key, value in fields.items() if value is not None}
        made.append(cast(TurnInput, {"role": role, "content": part, **given}))
    return made


def _parts(text: str) -> Iterator[str]:
    """The text in parts that fit, cut at the last white space of each where there is one."""
    while len(text) > _MAX_CHARS and len(text.encode()) > MAX_BYTES:
        head = text[:_MAX_CHARS]
        words = head.rsplit(maxsplit=1)
        part = words[0] if len(words) == 2 and words[0].strip() else head
        yield part.strip()
        text = text[len(part) :].strip()
    if text:
        yield text
