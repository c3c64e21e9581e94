"""Tags of a topic: short names that a user gives it, stored as lines of one text."""

from __future__ import annotations

from collections.abc import Sequence

from memforest_core.errors import InvalidInput

MAX_TAGS = 20
MAX_TAG_CHARS = 60


def checked_tags(tags: object) -> tuple[str, ...]:
    """Tags as a user gives them, without repetitions, in order. Raises InvalidInput."""
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise InvalidInput("Give tags as a list of short names.", code="invalid_tags")
    cleaned = tuple(dict.fromkeys(tag.strip() if isinstance(tag, str) else "" for tag in tags))
    for tag in cleaned:
        if not tag or len(tag) > MAX_TAG_CHARS or not tag.isprintable():
            raise InvalidInput(
                f"Give each tag 1 to {MAX_TAG_CHARS} printable characters on one line.", code="invalid_tags"
            )
    if len(cleaned) > MAX_TAGS:
        raise InvalidInput(f"A topic has at most {MAX_TAGS} tags.", code="invalid_tags")
    return cleaned


def tags_of(stored: str | None) -> tuple[str, ...]:
    """The tags of a stored text."""
    return tuple(stored.split("\n")) if stored else ()


def stored_tags(tags: Sequence[str]) -> str | None:
    """Tags as they are stored; None for none."""
    return "\n".join(tags) or None


def united_tags(own: str | None, other: str | None) -> str | None:
    """The stored tags of two topics that become one; the first topic's come first, and stay where it is too many."""
    return stored_tags(tuple(dict.fromkeys((*tags_of(own), *tags_of(other))))[:MAX_TAGS])
