"""Ids that a process meets again and again: each is made once, and looking it up costs what a number's does."""

from __future__ import annotations

from uuid import UUID, SafeUUID

CACHED_IDS = 300_000
"""Of one process, at some 450 bytes each."""

_new, _set = object.__new__, object.__setattr__


class KnownId(UUID):
    """A UUID, equal to every other one of its value, with its hash and its text.

    ``UUID.__hash__`` is a function in Python, and one recall would call it some thirty thousand times. Python calls
    the ``__hash__`` of the type: here that is a slot with a method of the number that is the hash.
    Copies and pickles are plain UUIDs.
    """

    __slots__ = ("__hash__", "_text")
    _text: str

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[type[UUID], tuple[str]]:
        return UUID, (str(self),)


def _made(text: str) -> KnownId:
    """The id of a text as Postgres writes it: small letters, with all hyphens."""
    number = int(text.replace("-", ""), 16)
    made = _new(KnownId)
    _set(made, "int", number)
    _set(made, "is_safe", SafeUUID.unknown)
    _set(made, "__hash__", hash(number).__index__)
    _set(made, "_text", text)
    return made


class KnownIds(dict[str, KnownId]):
    """Ids by their text, as Postgres writes it. Equal ids that come from here are one object, which is what comparing
    them checks first."""

    def __missing__(self, text: str) -> KnownId:
        if len(self) >= CACHED_IDS:
            self.clear()
        made = self[text] = _made(text)
        return made


KNOWN_IDS = KnownIds()
