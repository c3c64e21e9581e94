"""What a file is taken apart into: values, sessions, and what was refused, each with its place in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memforest_core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Value:
    """One JSON value of a file; ``position`` counts lines, or the items of a list, from 1."""

    position: int
    content: object


@dataclass(frozen=True, slots=True)
class Converted:
    """One session, as ``enqueue`` takes it."""

    position: int
    owner: str
    session_id: str
    turns: Sequence[object]
    started_at: object | None = None
    display_name: str | None = None


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
        return str(value).strip() or None
    return None


def each(values: Iterable[Value | Refused], take: Callable[[Value], Iterable[Item]]) -> Iterator[Item]:
    """What ``take`` makes of every value; one that it raises InvalidInput for is refused and the others go on."""
    for value in values:
        if isinstance(value, Refused):
            yield value
            continue
        try:
            yield from take(value)
        except InvalidInput as error:
            yield Refused(value.position, error)
