"""Identifiers, deterministic where the thing they name has an identity of its own, and the three tree families."""

from __future__ import annotations

from enum import StrEnum
from typing import NewType
from uuid import UUID, SafeUUID, uuid5


class TreeKind(StrEnum):
    """The three tree families."""

    SESSION = "session"
    ENTITY = "entity"
    SCENE = "scene"


class ScopeState(StrEnum):
    """A scope is a candidate until it has enough evidence to deserve a tree."""

    CANDIDATE = "candidate"
    ACTIVE = "active"
    MERGED = "merged"


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


TenantId = NewType("TenantId", str)
ForestId = NewType("ForestId", UUID)
SessionId = NewType("SessionId", UUID)
CellId = NewType("CellId", UUID)
FactId = NewType("FactId", UUID)
TreeId = NewType("TreeId", UUID)
NodeId = NewType("NodeId", UUID)
PayloadId = NewType("PayloadId", UUID)
"""The payload of a leaf: a CellId in a session tree, a FactId in an entity or scene tree."""
WorkerId = NewType("WorkerId", UUID)
LeaseToken = NewType("LeaseToken", UUID)

_SPACE = UUID("5f0e9c1e-6f0b-5d4c-9d7a-6d656d666f72")


def session_id(forest: ForestId, external_id: str) -> SessionId:
    """The session that a caller named ``external_id`` inside a forest."""
    return SessionId(uuid5(_SPACE, f"session\x1f{forest}\x1f{external_id}"))


def cell_id(session: SessionId, ordinal: int) -> CellId:
    """The ``ordinal``-th cell of a session (from 0)."""
    return CellId(uuid5(_SPACE, f"cell\x1f{session}\x1f{ordinal}"))


def fact_id(forest: ForestId, normalized_text: str, start: str, end: str) -> FactId:
    """A canonical fact: the same words about another interval are another fact."""
    return FactId(uuid5(_SPACE, f"fact\x1f{forest}\x1f{start}\x1f{end}\x1f{normalized_text}"))


def tree_id(forest: ForestId, kind: str, key: str) -> TreeId:
    """The tree of a scope: its forest, kind and scope key."""
    return TreeId(uuid5(_SPACE, f"tree\x1f{forest}\x1f{kind}\x1f{key}"))


def leaf_id(tree: TreeId, payload: UUID) -> NodeId:
    """The one leaf that a payload has in a tree."""
    return NodeId(uuid5(_SPACE, f"leaf\x1f{tree}\x1f{payload}"))
