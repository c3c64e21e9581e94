"""Browses trees from the roots down, level by level, all trees at once, and follows the best nodes of each."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from uuid import UUID

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import NodeId, TenantId, TreeId, TreeKind
from memforest_core.domain.scoring import Weights, fused
from memforest_core.domain.times import from_micros
from memforest_core.index.vector_index import PointKind
from memforest_core.recall.index_search import IndexSearch
from memforest_core.recall.ranking import CHILD_CHARS, NO_TEXT, Child, LlmRanker, Siblings, Tally
from memforest_core.recall.records import Below, TreeChild, TreeRoot
from memforest_core.recall.rows.recall_rows import RecallRows

MAX_LEVELS = 64
"""No tree is higher: at three children a node that would be 3^64 leaves."""
CACHED_CHILDREN = 200_000
"""Of one process, at some 500 bytes each; 2,700 are read at most by a question to a forest of 100,000 facts."""
AHEAD = 256
"""Points that are scored ahead of the levels that may need them. A call of the index costs what some 200 more points in
one do (docs/adr/0031-what-recall-caches.md)."""


Reading = Callable[[], AbstractContextManager[RecallRows]]
"""Opens a read transaction."""


@renewed_in_child
class TreeCache:
    """Children by node and the node's version, the least recently used dropped first. Thread-safe.

    Whatever changes below a node raises its version, so that children of the right version are those of now. Nothing
    here has texts: ids, times and versions only.
    """

    def __init__(self) -> None:
        self._nodes: OrderedDict[tuple[TenantId, UUID], Below] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    def known(self, tenant: TenantId, versions: Mapping[UUID, int]) -> dict[UUID, Below]:
        """The cached children of these nodes at these versions."""
        found: dict[UUID, Below] = {}
        with self._lock:
            for node, version in versions.items():
                below = self._nodes.get((tenant, node))
                if below is not None and below.version == version:
                    found[node] = below
                    self._nodes.move_to_end((tenant, node))
        return found

    def unknown(self, tenant: TenantId, nodes: Iterable[UUID]) -> list[UUID]:
        """Those of these nodes that are cached at no version."""
        with self._lock:
            return [node for node in nodes if (tenant, node) not in self._nodes]

    def store(self, tenant: TenantId, read: Iterable[Below]) -> None:
        """Store what was read, each in place of another version of it."""
        with self._lock:
            for below in read:
                former = self._nodes.pop((tenant, below.parent), None)
                self._count += len(below.children) - (0 if former is None else len(former.children))
                self._nodes[tenant, below.parent] = below
            while self._count > CACHED_CHILDREN:
                self._count -= len(self._nodes.popitem(last=False)[1].children)


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
    roots: Sequence[TreeRoot],
    beam: int,
    weights: Weights,
    cache: TreeCache,
    ranker: LlmRanker | None = None,
    questions: Mapping[UUID, str] | None = None,
) -> Browsed:
    """Follow the ``beam`` best children per tree and level down to the leaves.

    One vector call for all that is cached below the roots, if that is little; else one per level, for all trees
    together, and one read of what is not cached. Stops early when the index is unavailable.

    A ranker chooses among the children of each node for its tree's question, found by root in ``questions``; a tree
    without one is browsed by scores. Scores are gathered all the same: they decide where the ranker gave no order (it
    failed for that node, or a child has no text yet) and between equal positions. While the index is unavailable only
    what the ranker chose is followed."""
    browsed = Browsed()
    trees = {root.tree_id: root for root in roots}
    guide = None if ranker is None else _Guide(ranker, dict(questions or {}), trees)
    frontier: dict[UUID, int] = {root.id: root.version for root in roots}
    search.look_ahead(_cached_below(cache, search.scope.tenant, trees, frontier))
    while frontier and browsed.levels < MAX_LEVELS:
        level = _Level(trees, search.scope.overlaps)
        ranked = UNRANKED
        if guide is None:
            level.add(_children(reading, cache, search.scope.tenant, frontier))
            search.glance(level.points())
        else:
            with reading() as rows:
                level.add(_children(reading, cache, search.scope.tenant, frontier, rows))
                families = guide.families(rows, level.children)
            search.glance(level.points())
            ranked = guide.rank(families)
        if search.failure is not None:
            level = level.ordered_by(ranked)
            if not level.children:
                break
        browsed.levels += 1
        frontier = {}
        for child in level.best(search, beam, weights, ranked):
            if child.payload_id is None:
                frontier[child.id] = child.version
                continue
            (browsed.cells if trees[child.tree_id].kind is _SESSION else browsed.facts).add(child.payload_id)
            _note(browsed.positions, child, ranked)
    if guide is not None:
        guide.report(browsed, index_unavailable=search.failure is not None)
    return browsed


def _children(
    reading: Reading, cache: TreeCache, tenant: TenantId, nodes: Mapping[UUID, int], opened: RecallRows | None = None
) -> list[Below]:
    """What is below these nodes, given with their versions, in their order; read in an ``opened`` transaction if there
    is one."""
    found = cache.known(tenant, nodes)
    missing = [node for node in nodes if node not in found]
    if missing:
        with reading() if opened is None else nullcontext(opened) as rows:
            read = rows.one(rows.children(missing))
        cache.store(tenant, read)
        found |= {below.parent: below for below in read}
    return [found[node] for node in nodes if node in found]


def _cached_below(
    cache: TreeCache, tenant: TenantId, trees: Mapping[TreeId, TreeRoot], roots: Mapping[UUID, int]
) -> dict[UUID, PointKind]:
    """What the nodes below these roots are scored by, as far as they are cached; nothing when that is one level alone,
    or more than AHEAD points."""
    points: dict[UUID, PointKind] = {}
    frontier, levels = dict(roots), 0
    while frontier and (found := cache.known(tenant, frontier)):
        frontier, levels = {}, levels + 1
        for below in found.values():
            kind = _kind_of(below.children, trees)
            points.update((child.point, kind) for child in below.children)
            if kind is _NODE:
                frontier.update((child.id, child.version) for child in below.children)
        if len(points) > AHEAD:
            return {}
    return points if levels > 1 else {}


def _kind_of(children: Sequence[TreeChild], trees: Mapping[TreeId, TreeRoot]) -> PointKind:
    """What the children of a node are scored as, of which there is one at least."""
    if children[0].payload_id is None:
        return _NODE
    return _CELL if trees[children[0].tree_id].kind is _SESSION else _FACT


# Python finds a member of an enumeration ten times slower than a name of the module.
_NODE, _CELL, _FACT, _SESSION = PointKind.NODE, PointKind.CELL, PointKind.FACT, TreeKind.SESSION


class _Level:
    """The children that one step of all beams has to choose from, those of a tree in key order."""

    def __init__(self, trees: Mapping[TreeId, TreeRoot], overlaps: tuple[float, float] | None) -> None:
        self._trees = trees
        self._overlaps = overlaps
        self.children: list[TreeChild] = []
        self._at: dict[TreeId, list[int]] = defaultdict(list)
        self._ids: dict[PointKind, list[UUID]] = defaultdict(list)

    def add(self, nodes: Iterable[Below]) -> None:
        """Add the children of nodes, as far as they touch the range of time, in seconds since 1970, if there is one."""
        for below in nodes:
            children: Sequence[TreeChild] = below.children
            if self._overlaps is not None:
                children = [child for child in children if _within(child, self._overlaps)]
            if children:
                self._take(children)

    def _take(self, children: Sequence[TreeChild]) -> None:
        tree, kind = children[0].tree_id, _kind_of(children, self._trees)
        first = len(self.children)
        self.children.extend(children)
        self._at[tree].extend(range(first, len(self.children)))
        self._ids[kind].extend([child.point for child in children])

    def ordered_by(self, ranked: Ranked) -> _Level:
        """The same without the children of parents for which a ranker has no order."""
        rest = _Level(self._trees, None)
        for child in self.children:
            if child.parent_id in ranked.positions or child.parent_id in ranked.single:
                rest._take([child])
        return rest

    def points(self) -> dict[UUID, PointKind]:
        """What the children are scored by. A leaf has no point of its own, so its payload's is used."""
        return {id_: kind for kind, ids in self._ids.items() for id_ in ids}

    def best(self, search: IndexSearch, beam: int, weights: Weights, ranked: Ranked) -> list[TreeChild]:
        """The best children of each tree, in key order; scores are scaled among this level's points of a kind."""
        scores: dict[UUID, float] = {}
        for kind, ids in self._ids.items():
            scores |= fused(search.of(kind), weights, ids)
        child_scores = [scores.get(child.point, 0.0) for child in self.children]
        chosen: list[TreeChild] = []
        for positions in self._at.values():
            order = sorted(positions, key=child_scores.__getitem__, reverse=True)
            if ranked.positions and any(self.children[at].parent_id in ranked.positions for at in order):
                order = _by_position(self.children, order, ranked)
            chosen += [self.children[at] for at in sorted(order[:beam])]
        return chosen


class _Guide:
    """Calls the ranker during one browse: knows each tree's question, and counts the calls."""

    def __init__(self, ranker: LlmRanker, questions: Mapping[UUID, str], trees: Mapping[TreeId, TreeRoot]) -> None:
        self._ranker = ranker
        self._trees = trees
        self._of_tree = {tree: questions[root.id] for tree, root in trees.items() if root.id in questions}
        self._tally = Tally()

    def families(self, rows: RecallRows, children: Sequence[TreeChild]) -> list[Siblings]:
        """The children of each node of trees that have a question, with the texts that they are ranked by."""
        families: dict[UUID, list[TreeChild]] = defaultdict(list)
        for child in children:
            if child.tree_id in self._of_tree:
                families[child.parent_id].append(child)
        wanted = [child for siblings in families.values() if len(siblings) > 1 for child in siblings]
        summaries = rows.summaries([child.id for child in wanted if child.payload_id is None], CHILD_CHARS)
        payloads = [child.payload_id for child in wanted if child.payload_id is not None]
        leaves = rows.one(rows.texts(payloads, CHILD_CHARS))
        return [
            Siblings(parent, self._of_tree[tree], self._trees[tree].label, _shown(siblings, summaries, leaves))
            for parent, siblings in families.items()
            for tree in (siblings[0].tree_id,)
        ]

    def rank(self, families: Sequence[Siblings]) -> Ranked:
        """The ranker's order of the children that have a text."""
        single = frozenset(family.parent for family in families if len(family.children) == 1)
        to_rank = []
        for family in families:
            if family.parent in single:
                continue
            with_text = [child for child in family.children if child.text]
            self._tally.nodes += 1
            if len(with_text) < 2:
                self._tally.fallen[NO_TEXT] += 1
            else:
                to_rank.append(Siblings(family.parent, family.question, family.tree, tuple(with_text)))
        shown = frozenset(child.id for family in to_rank for child in family.children)
        return Ranked(self._ranker.rank(to_rank, self._tally), shown, single)

    def report(self, browsed: Browsed, *, index_unavailable: bool) -> None:
        """Add how many calls were made, and how many nodes could not be ranked."""
        browsed.calls = self._tally.calls
        sentence = self._tally.sentence("not followed" if index_unavailable else "ranked by scores, not by the model")
        browsed.degraded += [sentence] if sentence else []


def _shown(
    siblings: Sequence[TreeChild], summaries: Mapping[NodeId, str], leaves: Mapping[UUID, str]
) -> tuple[Child, ...]:
    def text(node: TreeChild) -> str:
        return summaries.get(node.id, "") if node.payload_id is None else leaves.get(node.payload_id, "")

    return tuple(Child(child.id, text(child).strip(), child.time_start, child.time_end) for child in siblings)


def _note(positions: dict[UUID, int], leaf: TreeChild, ranked: Ranked) -> None:
    """Keep the best position of a leaf's payload, if a ranker gave it one."""
    order = ranked.positions.get(leaf.parent_id)
    if order is not None and leaf.payload_id is not None and leaf.id in order:
        positions[leaf.payload_id] = min(order[leaf.id], positions.get(leaf.payload_id, order[leaf.id]))


def _by_position(children: Sequence[TreeChild], positions: Sequence[int], ranked: Ranked) -> list[int]:
    """Positions in the list of the children of one tree, given by score, in order of the children's positions among
    siblings.

    What a ranker was shown and did not choose is left out; what it was not shown, or could not rank, has the position
    of its score.
    """
    placed: list[tuple[int, int]] = []
    counted: Counter[UUID] = Counter()
    for at in positions:
        child = children[at]
        order = ranked.positions.get(child.parent_id)
        if order is None or child.id not in ranked.shown:
            placed.append((counted[child.parent_id], at))
            counted[child.parent_id] += 1
        elif child.id in order:
            placed.append((order[child.id], at))
    placed.sort(key=lambda each: each[0])
    return [at for _, at in placed]


def _within(node: TreeChild, overlaps: tuple[float, float]) -> bool:
    if node.time_start is None or node.time_end is None:
        return True
    first, last = overlaps
    return from_micros(node.time_start).timestamp() <= last and (from_micros(node.time_end).timestamp() >= first)
