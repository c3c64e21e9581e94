"""Lists in pages with cursors between them, and results as plain JSON values."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from memforest_core.errors import InvalidInput


def plain(value: object) -> Any:
    """A value as JSON has it: dataclasses by their public fields, times as ISO 8601, ids and paths as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID | Path):
        return str(value)
    return value


class Document:
    """A result that is a dataclass, as JSON values by the names of its fields."""

    __slots__ = ()
    derived: ClassVar[tuple[str, ...]] = ()
    """Properties that its JSON has too."""

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values, by the names of the fields, with what is derived from them."""
        made: dict[str, Any] = plain(self)
        return made | {name: plain(getattr(self, name)) for name in self.derived}


T = TypeVar("T")
S = TypeVar("S")

MAX_LIMIT = 1_000
"""Items of one page."""
MOST_LISTED = 100_000
"""Items of a list that comes whole."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list, and where the next part begins."""

    items: tuple[T, ...]
    cursor: str | None = None
    """For the next call; None when nothing follows."""
    owner_known: bool = True
    """False when the owner has no memory yet."""


def checked_limit(limit: object, most: int = MAX_LIMIT, name: str = "limit") -> int:
    """A number of items. Raises InvalidInput."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
        raise InvalidInput(f"Set {name} to a whole number from 1 to {most:,}.", code=f"invalid_{name}")
    return limit


def page_of(rows: Sequence[S], limit: int, item: Callable[[S], T], place: Callable[[S], Sequence[object]]) -> Page[T]:
    """The first ``limit`` of rows that were read with one more than that; ``place`` is where in the list a row is."""
    shown = rows[:limit]
    cursor = to_cursor(place(shown[-1])) if len(rows) > limit else None
    return Page(tuple(map(item, shown)), cursor)


def to_cursor(place: Sequence[object]) -> str:
    """A place in a list as text: numbers, strings, datetimes and ids."""
    plain = [value.isoformat() if isinstance(value, date) else value for value in place]
    return base64.urlsafe_b64encode(json.dumps(plain, default=str).encode()).decode().rstrip("=")


def from_cursor(cursor: str | None, *kinds: type) -> tuple[Any, ...] | None:
    """The values of ``to_cursor``, which have these types; None without a cursor. Raises InvalidInput."""
    if cursor is None:
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return tuple(_READ[kind](value) for kind, value in zip(kinds, values, strict=True))
    except (binascii.Error, ValueError, TypeError, OverflowError):
        raise invalid_cursor() from None


class Ordinal(int):
    """The type of a turn's ordinal in a cursor."""


def _text(value: object) -> str:
    if not isinstance(value, str) or "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("not a text that the database can store")
    return value


def _number(value: object, least: int = -(2**63), most: int = 2**63) -> int:
    if type(value) is not int or not least <= value < most:
        raise ValueError("not a number that the database can store")
    return value


_READ: Mapping[type, Callable[[Any], Any]] = {
    str: _text,
    int: _number,
    Ordinal: lambda value: _number(value, 0, 2**31),
    datetime: lambda value: datetime.fromisoformat(_text(value)).astimezone(UTC),
    UUID: lambda value: UUID(_text(value)),
}


def invalid_cursor() -> InvalidInput:
    """The error for a cursor that no page ended with."""
    return InvalidInput("Give cursor as the page before returned it.", code="invalid_cursor")


def checked_id(text: str, name: str) -> UUID:
    """An id of ours that a caller gives back; ``name`` is the argument's. Raises InvalidInput."""
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(f"Give {name} as it was returned.", code=f"invalid_{name}") from None
