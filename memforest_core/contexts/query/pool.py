"""What a recall has gathered from the store: candidate cells, their facts and turns, and the trees above them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from memforest_core.domain.ids import FactId
from memforest_core.domain.ids import ForestId, NodeId
from memforest_core.domain.scopes import TreeKind
from memforest_core.ports.recall import (
    CellRef,
    FactHead,
    Link,
    PlacedNode,
    RecallRows,
    TurnHead,
    TurnKey,
)

OCCURRENCES_PER_FACT = 4
"""A fact that was said often brings the cells where it was said last."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a recall needs to know of its candidates beyond their cells and turns."""

    fact_heads: bool
    """Whether facts are delivered or filtered, and not only scored."""
    session_paths: bool
    """Whether session trees vote."""
    topics: bool
    """Whether entity and scene trees vote."""


@dataclass(slots=True)
class Pool:
    """Candidates of one recall; grows as the search goes on, and reads each row once."""

    reads: Reads
    cells: dict[UUID, CellRef] = field(default_factory=dict)
    facts: set[UUID] = field(default_factory=set)
    heads: dict[UUID, FactHead] = field(default_factory=dict)
    turns: dict[TurnKey, TurnHead] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    trees: TreeIndex = field(default_factory=lambda: TreeIndex())

    def gather(
        self, rows: RecallRows, forest: ForestId, cells: Collection[UUID], facts: Collection[UUID]
    ) -> None:
        """Add candidates: the cells, the cells of the facts, and all facts of those cells."""
        said = rows.links_of_facts(_new(facts, self.facts), OCCURRENCES_PER_FACT)
        wanted = _new([*cells, *(link.cell_id for link in said)], self.cells)
        found: dict[UUID, CellRef] = {cell.id: cell for cell in rows.cells(forest, wanted)}
        links = rows.links_of_cells(list(found))
        told = _new([link.fact_id for link in links], self.facts)
        spoken = dict.fromkeys(key for cell in found.values() for key in cell_turns(cell))
        for turn in rows.turns([key for key in spoken if key not in self.turns]):
            self.turns[turn.session_id, turn.ordinal] = turn
        if self.reads.fact_heads:
            for head in rows.fact_heads(told):
                self.heads[head.id] = head
        above = [*(found if self.reads.session_paths else ()), *(told if self.reads.topics else ())]
        self.trees.add(rows.paths(above))
        self.cells |= found
        self.facts.update(told)
        self.links += links

    def facts_by_turn(self) -> dict[TurnKey, list[FactId]]:
        """Which facts each turn says."""
        said: dict[TurnKey, list[FactId]] = defaultdict(list)
        for link in self.links:
            for ordinal in link.turn_ordinals:
                said[link.session_id, ordinal].append(link.fact_id)
        return said

    def voters(self) -> set[UUID]:
        """Every point whose score counts for some candidate."""
        voters: set[UUID] = self.cells.keys() | self.facts
        for cell in self.cells:
            path = self.trees.session_path(cell)
            voters.update(node.id for node in (path[:1] + path[-1:]))
        if self.reads.topics:
            voters.update(self.trees.topics(self.facts))
        return voters


@dataclass(slots=True)
class TreeIndex:
    """Known nodes: leaves by what they hold, and the way up from them."""

    nodes: dict[UUID, PlacedNode] = field(default_factory=dict)
    leaves: dict[UUID, list[PlacedNode]] = field(default_factory=lambda: defaultdict(list))

    def add(self, nodes: Collection[PlacedNode]) -> None:
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
        # Read in one statement, a path can't turn in circles; a bound costs nothing.
        while above is not None and len(path) < MAX_HEIGHT:
            path.append(above)
            above = self.nodes.get(above.parent_id) if above.parent_id else None
        return path

    def session_path(self, cell: UUID) -> list[PlacedNode]:
        """The nodes above a cell in its session's tree, lowest first; empty until it is placed."""
        for leaf in self.leaves.get(cell, ()):
            if leaf.kind is TreeKind.SESSION:
                return self.path(leaf)
        return []

    def topics(self, facts: Collection[UUID]) -> tuple[NodeId, ...]:
        """The lowest nodes above these facts in entity and scene trees."""
        found = (
            leaf.parent_id
            for fact in facts
            for leaf in self.leaves.get(fact, ())
            if leaf.kind is not TreeKind.SESSION
        )
        return tuple(dict.fromkeys(node for node in found if node is not None))


MAX_HEIGHT = 64
"""No tree is higher: at three children a node that would be 3^64 leaves."""


def cell_turns(cell: CellRef) -> list[TurnKey]:
    """The turns of a cell."""
    return [
        (cell.session_id, ordinal) for ordinal in range(cell.first_turn, cell.last_turn + 1)
    ]


def _new(ids: Collection[UUID], known: Collection[UUID]) -> list[UUID]:
    return list(dict.fromkeys(id_ for id_ in ids if id_ not in known))
