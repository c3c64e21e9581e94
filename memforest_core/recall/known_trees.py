"""The nodes above pieces of evidence: leaves by what they hold, and the way up from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from memforest_core.domain.scopes import TreeKind
from memforest_core.recall.records import PlacedNode


@dataclass(slots=True)
class KnownTrees:
    """Nodes that were read: leaves by what they hold, and the way up from them."""

    nodes: dict[UUID, PlacedNode] = field(default_factory=dict)
    leaves: dict[UUID, list[PlacedNode]] = field(default_factory=lambda: defaultdict(list))

    def add(self, nodes: Iterable[PlacedNode]) -> None:
        """Remember leaves and ancestors; what is known already stays."""
        for node in nodes:
            if node.id not in self.nodes:
                self.nodes[node.id] = node
                if node.payload_id is not None:
                    self.leaves[node.payload_id].append(node)

    def path(self, leaf: PlacedNode) -> list[PlacedNode]:
        """The ancestors of a leaf, lowest first."""
        path: list[PlacedNode] = []
        above = self.nodes.get(leaf.parent_id) if leaf.parent_id else None
        while above is not None:
            path.append(above)
            above = self.nodes.get(above.parent_id) if above.parent_id else None
        return path

    def session_path(self, cell: UUID) -> list[PlacedNode]:
        """The nodes above a cell in its session's tree, lowest first; empty until it is placed."""
        for leaf in self.leaves.get(cell, ()):
            if leaf.kind is TreeKind.SESSION:
                return self.path(leaf)
        return []
