"""The vocabulary of trees: keys, nodes, the head of a tree, and the diff that a change leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memforest_core.domain.ids import NodeId, PayloadId, TreeId, leaf_id

MIN_BRANCHING = 3
"""Below 3 children a node can't be halved into nodes that still branch (DESIGN section 5)."""


class Key(NamedTuple):
    """A leaf's position in its tree; compared as a tuple, frozen when the leaf is inserted."""

    time: int
    """Microseconds since the epoch, negative before it; 0 in session trees."""
    ordinal: int
    """Ordinal of the cell, in a session tree of the cell's first turn."""
    item: int
    id: str
    """The payload's id as hex text: makes every key of a tree unique."""


@dataclass(frozen=True, slots=True)
class Node:
    """An internal node or a leaf, as stored. Times are microseconds since the epoch."""

    id: NodeId
    tree_id: TreeId
    parent_id: NodeId | None
    level: int
    """0 for leaves; one more than its children's."""
    key: Key | None
    """A leaf's frozen key, or an internal node's separator: the lower bound of what it may hold.

    The leftmost internal node of each level has none. The first child of an internal node above
    level 1 has its parent's separator, so one seek at level 1 finds what a descent would find.
    """
    time_start: int | None = None
    time_end: int | None = None
    leaf_count: int = 0
    version: int = 1
    clean_version: int = 0
    """The version that the node's summary was made from."""
    payload_id: PayloadId | None = None
    """A leaf's payload; None for internal nodes."""

    @property
    def dirty(self) -> bool:
        """The summary is older than what it should tell."""
        return self.version > self.clean_version


def span_of(nodes: Sequence[Node]) -> tuple[int | None, int | None]:
    """The interval of several nodes; unknown ends do not narrow it."""
    starts = [node.time_start for node in nodes if node.time_start is not None]
    ends = [node.time_end for node in nodes if node.time_end is not None]
    return min(starts, default=None), max(ends, default=None)


def leaf(
    tree: TreeId, payload: PayloadId, key: Key, start: int | None, end: int | None, id_: NodeId | None = None
) -> Node:
    """A leaf to insert. Times are microseconds since the epoch, None when unknown.

    It is clean: a leaf's text is its payload's, there is no summary to wait for.
    """
    own = leaf_id(tree, payload) if id_ is None else id_
    return Node(own, tree, None, 0, key, start, end, leaf_count=1, clean_version=1, payload_id=payload)


@dataclass(frozen=True, slots=True)
class TreeHead:
    """A tree's entry: its root, its branching ``k`` and its size.

    Raises ValueError when ``k`` is below 3 or the root would be a leaf.
    """

    tree_id: TreeId
    root_id: NodeId
    k: int
    height: int
    """The root's level, at least 1."""
    leaf_count: int

    def __post_init__(self) -> None:
        if self.k < MIN_BRANCHING:
            raise ValueError(f"k is {self.k}, but a tree needs at least {MIN_BRANCHING}")
        if self.height < 1:
            raise ValueError(f"height is {self.height}, but a root is at level 1 or above")


@dataclass(frozen=True, slots=True)
class Diff:
    """What a change did to a tree: nodes with their full new state, parents before children."""

    inserted: tuple[Node, ...]
    updated: tuple[Node, ...]
    """Existing nodes with any changed field."""
    deleted: tuple[NodeId, ...]
    head: TreeHead
