"""Identifiers: typed, and deterministic where the thing they name has an identity of its own."""

from __future__ import annotations

from typing import NewType
from uuid import UUID, uuid5

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
