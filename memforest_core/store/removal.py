"""What taking facts out of a forest needs from the store; the caller holds the forest's row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, TreeId
from memforest_core.domain.scopes import TreeKind
from memforest_core.memtree import Diff, Node, TreeHead


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


class RemovalRows(Protocol):
    """Rows of one transaction that takes something out."""

    def retire_superseded(self, forest: ForestId, cells: Sequence[CellId], model: str) -> Retired:
        """Drop the candidates of these cells that lie below item 0, with their occurrences, and the facts that have no
        other; their placements and points go too. Their leaves are named, and still there.

        ``model`` is the embedding model, by whose routing vectors scenes forget them.
        """
        ...

    def superseded_only(self, cells: Sequence[CellId]) -> frozenset[FactId]:
        """Facts that rest on nothing but candidates of these cells below item 0: they are about to go."""
        ...

    def shrinking(self, trees: Sequence[TreeId]) -> dict[TreeId, ShrinkingTree]:
        """The heads of these trees."""
        ...

    def load_leaves(self, leaves: Sequence[NodeId]) -> dict[TreeId, list[Node]]:
        """For each tree what ``memtree.delete`` needs to remove these leaves: a constant number of statements."""
        ...

    def load_children(self, parents: Sequence[NodeId]) -> list[Node]:
        """All children of these nodes."""
        ...

    def write_trees(
        self, changes: Sequence[TreeChange], quiet_s: float, stale_s: float, absorbed: Sequence[TreeId] = ()
    ) -> None:
        """Write structure and leaves, and mark the trees due for refresh; trees that were ``absorbed`` by others end.

        All node rows are locked in one statement: refresh saves nodes without the forest's lock.
        """
        ...

    def drop_empty(self, trees: Sequence[TreeId]) -> None:
        """Take the roots of these trees, which have no leaf, and make them scopes without a tree."""
        ...

    def mark_cells(self, cells: Sequence[CellId]) -> None:
        """The texts of these cells changed: everything above their leaves is to be summarized again."""
        ...
