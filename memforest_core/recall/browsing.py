"""Browses trees from the roots down, level by level, all trees at once, and follows the best nodes of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from uuid import UUID

from memforest_core.domain.ids import NodeId, TreeId
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.scoring import Weights, fused
from memforest_core.domain.times import from_micros
from memforest_core.index.vector_index import PointKind
from memforest_core.recall.index_search import IndexSearch
from memforest_core.recall.ranking import CHILD_CHARS, NO_TEXT, Child, LlmRanker, Siblings, Tally
from memforest_core.recall.records import PlacedNode
from memforest_core.recall.rows.reading import RecallRows

MAX_LEVELS = 64
"""No tree is higher: at three children a node that would be 3^64 leaves."""


Reading = Callable[[], AbstractContextManager[RecallRows]]
"""Opens a read transaction."""


@dataclass(slots=True)
class Browsed:
    """Payloads of the leaves that the beams ended at."""

    cells: set[UUID] = field(default_factory=set)
    facts: set[UUID] = field(default_factory=set)
    levels: int = 0
    positions: dict[UUID, int] = field(default_factory=dict)
    """Payloads that a ranker chose, with their best position among siblings, 0 the best; empty without one."""
    calls: int = 0
    """Calls made to a chat model."""
    degraded: list[str] = field(default_factory=list)
    """One sentence when a ranker could not rank some nodes."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """How a ranker ordered the children of one level."""

    positions: Mapping[UUID, Mapping[UUID, int]] = field(default_factory=dict)
    """By parent, its chosen children with their positions."""
    shown: frozenset[UUID] = frozenset()
    """The children that it saw."""
    single: frozenset[UUID] = frozenset()
    """Parents of an only child, which needs no ranking."""


UNRANKED = Ranked()


def browse(
    reading: Reading,
    search: IndexSearch,
    roots: Sequence[UUID],
    beam: int,
    weights: Weights,
    ranker: LlmRanker | None = None,
    questions: Mapping[UUID, str] | None = None,
) -> Browsed:
    """Follow the ``beam`` best children per tree and level down to the leaves.

    One read and one vector call per level, for all trees together. Stops early when the index is away.

    A ranker chooses among the children of each node for its tree's question, found by root in ``questions``; a tree
    without one is browsed by scores. Scores are gathered all the same: they decide where the ranker gave no order (it
    failed for that node, or a child has no text yet) and between equal positions. While the index is away only what the
    ranker chose is followed.
    """
    browsed = Browsed()
    guide = None if ranker is None else _Guide(ranker, dict(questions or {}))
    frontier = list(roots)
    while frontier and browsed.levels < MAX_LEVELS:
        with reading() as rows:
            children = rows.children(frontier)
            children = [child for child in children if _within(child, search.scope.overlaps)]
            families = guide.families(rows, children) if guide is not None else []
        search.glance({_point(child): _kind(child) for child in children})
        ranked = guide.rank(families) if guide is not None else UNRANKED
        if search.failure is not None:
            children = [c for c in children if c.parent_id in ranked.positions or c.parent_id in ranked.single]
            if not children:
                break
        browsed.levels += 1
        frontier = []
        for child in _best(children, search, beam, weights, ranked):
            if child.payload_id is None:
                frontier.append(child.id)
                continue
            (browsed.cells if child.kind is TreeKind.SESSION else browsed.facts).add(child.payload_id)
            _note(browsed.positions, child, ranked)
    if guide is not None:
        guide.tell(browsed, index_away=search.failure is not None)
    return browsed


class _Guide:
    """Asks the ranker during one browse: knows each tree's question, and counts the calls."""

    def __init__(self, ranker: LlmRanker, questions: Mapping[UUID, str]) -> None:
        self._ranker = ranker
        self._of_root = questions
        self._of_tree: dict[TreeId, str] = {}
        self._tally = Tally()

    def families(self, rows: RecallRows, children: Sequence[PlacedNode]) -> list[Siblings]:
        """The children of each node of trees that have a question, with the texts that they are ranked by."""
        asked: dict[UUID, list[PlacedNode]] = defaultdict(list)
        for child in children:
            if child.parent_id is None:
                continue
            if child.parent_id in self._of_root:
                self._of_tree[child.tree_id] = self._of_root[child.parent_id]
            if child.tree_id in self._of_tree:
                asked[child.parent_id].append(child)
        wanted = [child for siblings in asked.values() if len(siblings) > 1 for child in siblings]
        summaries = rows.summaries([child.id for child in wanted if child.payload_id is None], CHILD_CHARS)
        leaves = rows.texts([child.payload_id for child in wanted if child.payload_id is not None], CHILD_CHARS)
        return [
            Siblings(parent, self._of_tree[siblings[0].tree_id], siblings[0].label, _shown(siblings, summaries, leaves))
            for parent, siblings in asked.items()
        ]

    def rank(self, families: Sequence[Siblings]) -> Ranked:
        """The ranker's order of the children that have a text."""
        single = frozenset(family.parent for family in families if len(family.children) == 1)
        to_rank = []
        for family in families:
            if family.parent in single:
                continue
            told = [child for child in family.children if child.text]
            self._tally.nodes += 1
            if len(told) < 2:
                self._tally.fallen[NO_TEXT] += 1
            else:
                to_rank.append(Siblings(family.parent, family.question, family.tree, tuple(told)))
        shown = frozenset(child.id for family in to_rank for child in family.children)
        return Ranked(self._ranker.rank(to_rank, self._tally), shown, single)

    def tell(self, browsed: Browsed, *, index_away: bool) -> None:
        """Add how many calls were made, and how many nodes could not be ranked."""
        browsed.calls = self._tally.calls
        told = self._tally.sentence("not followed" if index_away else "ranked by scores, not by the model")
        browsed.degraded += [told] if told else []


def _shown(
    siblings: Sequence[PlacedNode], summaries: Mapping[NodeId, str], leaves: Mapping[UUID, str]
) -> tuple[Child, ...]:
    def text(node: PlacedNode) -> str:
        return summaries.get(node.id, "") if node.payload_id is None else leaves.get(node.payload_id, "")

    return tuple(Child(child.id, text(child).strip(), child.time_start, child.time_end) for child in siblings)


def _note(positions: dict[UUID, int], leaf: PlacedNode, ranked: Ranked) -> None:
    """Keep the best position of a leaf's payload, if a ranker gave it one."""
    order = ranked.positions.get(leaf.parent_id) if leaf.parent_id is not None else None
    if order is not None and leaf.payload_id is not None and leaf.id in order:
        positions[leaf.payload_id] = min(order[leaf.id], positions.get(leaf.payload_id, order[leaf.id]))


def _point(node: PlacedNode) -> UUID:
    """The point that a node is scored by; a leaf has none of its own, so its payload's is used."""
    return node.payload_id or node.id


# Python finds a member of an enumeration ten times slower than a name of the module.
_NODE, _CELL, _FACT, _SESSION = PointKind.NODE, PointKind.CELL, PointKind.FACT, TreeKind.SESSION


def _kind(node: PlacedNode) -> PointKind:
    if node.payload_id is None:
        return _NODE
    return _CELL if node.kind is _SESSION else _FACT


def _best(
    children: Sequence[PlacedNode], search: IndexSearch, beam: int, weights: Weights, ranked: Ranked
) -> list[PlacedNode]:
    """The best children of each tree; scores are scaled among this level's points of a kind."""
    points: dict[PointKind, list[UUID]] = defaultdict(list)
    for child in children:
        points[_kind(child)].append(_point(child))
    scores: dict[UUID, float] = {}
    for kind, ids in points.items():
        scores |= fused(search.of(kind), weights, ids)
    by_tree: dict[TreeId, list[PlacedNode]] = defaultdict(list)
    for child in children:
        by_tree[child.tree_id].append(child)
    kept: list[PlacedNode] = []
    for siblings in by_tree.values():
        siblings.sort(key=lambda child: -scores.get(_point(child), 0.0))
        if any(child.parent_id in ranked.positions for child in siblings):
            siblings = _by_position(siblings, ranked)
        kept.extend(siblings[:beam])
    return kept


def _by_position(children: Sequence[PlacedNode], ranked: Ranked) -> list[PlacedNode]:
    """Children of one tree, given by score, in order of their positions among siblings.

    What a ranker was shown and did not choose is left out; what it was not shown, or could not rank, has the position
    of its score.
    """
    placed: list[tuple[int, PlacedNode]] = []
    counted: Counter[UUID | None] = Counter()
    for child in children:
        order = None if child.parent_id is None else ranked.positions.get(child.parent_id)
        if order is None or child.id not in ranked.shown:
            placed.append((counted[child.parent_id], child))
            counted[child.parent_id] += 1
        elif child.id in order:
            placed.append((order[child.id], child))
    placed.sort(key=lambda each: each[0])
    return [child for _, child in placed]


def _within(node: PlacedNode, overlaps: tuple[float, float] | None) -> bool:
    if overlaps is None or node.time_start is None or node.time_end is None:
        return True
    first, last = overlaps
    return from_micros(node.time_start).timestamp() <= last and (from_micros(node.time_end).timestamp() >= first)
