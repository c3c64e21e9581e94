"""What taking facts out of a forest needs from the store; the caller holds the forest's row."""

from __future__ import annotations

from dataclasses import dataclass

from memforest_core.domain.ids import NodeId, TreeId
from memforest_core.domain.scopes import TreeKind
from memforest_core.memtree import Diff, TreeHead


@dataclass(frozen=True, slots=True)
class TreeChange:
    """What a batch does to one tree."""

    tree_id: TreeId
    head: TreeHead
    diff: Diff


@dataclass(frozen=True, slots=True)
class Retired:
    """What superseded candidates leave behind: leaves to take out, by tree, and how much went already."""

    occurrences: int
    facts: int
    leaves: dict[TreeId, list[NodeId]]


@dataclass(frozen=True, slots=True)
class ShrinkingTree:
    """A tree that loses leaves."""

    kind: TreeKind
    head: TreeHead
