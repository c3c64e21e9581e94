"""Pages of a list that is longer than an answer, and the cursors between them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar
from uuid import UUID

from memforest_core.errors import InvalidInput

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
    """A place in a list as text: plain values."""
    return base64.urlsafe_b64encode(json.dumps(list(place)).encode()).decode().rstrip("=")


def from_cursor(cursor: str, *kinds: type) -> list[object]:
    """The values of ``to_cursor``, which have these types. Raises InvalidInput."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, TypeError):
        values = None
    if not isinstance(values, list) or [type(value) for value in values] != list(kinds) or not all(map(_fits, values)):
        raise invalid_cursor()
    return values


def _fits(value: object) -> bool:
    """Whether the database can hold a value."""
    if isinstance(value, str):
        return "\x00" not in value and not any("\ud800" <= char <= "\udfff" for char in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def invalid_cursor() -> InvalidInput:
    """What is said of a cursor that no page ended with."""
    return InvalidInput("Give cursor as the page before returned it.", code="invalid_cursor")


def ordinal_in(value: object) -> int:
    """The place of a turn that a cursor holds. Raises InvalidInput."""
    if not isinstance(value, int) or not 0 <= value < 2**31:
        raise invalid_cursor()
    return value


def moment_in(cursor: str) -> datetime:
    """A moment that a cursor holds as text. Raises InvalidInput."""
    try:
        return datetime.fromisoformat(cursor).astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid_cursor() from None


def checked_id(text: str, name: str) -> UUID:
    """An id of ours that a caller gives back; ``name`` is the argument's. Raises InvalidInput."""
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(f"Give {name} as it was returned.", code=f"invalid_{name}") from None
