"""Tree browse: a beam from the roots down, level by level, all trees at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from memforest_core.contexts.query.probe import Probe
from memforest_core.domain.ids import TreeId
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.scoring import Weights, fused
from memforest_core.domain.times import from_micros
from memforest_core.ports.index import PointKind
from memforest_core.ports.recall import PlacedNode, RecallRows

MAX_LEVELS = 64
"""No tree is higher: at three children a node that would be 3^64 leaves."""


class Reading(Protocol):
    """Opens a read transaction."""

    def __call__(self) -> AbstractContextManager[RecallRows]: ...


@dataclass(slots=True)
class Browsed:
    """Payloads of the leaves that the beams ended at."""

    cells: set[UUID] = field(default_factory=set)
    facts: set[UUID] = field(default_factory=set)
    levels: int = 0


def browse(reading: Reading, probe: Probe, roots: Sequence[UUID], beam: int, weights: Weights) -> Browsed:
    """Follow the ``beam`` best children per tree and level down to the leaves.

    One read and one vector call per level, for all trees together. Stops early when the index is away.
    """
    browsed = Browsed()
    frontier = list(roots)
    while frontier and browsed.levels < MAX_LEVELS:
        with reading() as rows:
            children = rows.children(frontier)
        children = [child for child in children if _within(child, probe.scope.overlaps)]
        probe.glance([_point(child) for child in children])
        if probe.failure is not None:
            break
        browsed.levels += 1
        frontier = []
        for child in _best(children, probe, beam, weights):
            if child.payload_id is None:
                frontier.append(child.id)
            elif child.kind is TreeKind.SESSION:
                browsed.cells.add(child.payload_id)
            else:
                browsed.facts.add(child.payload_id)
    return browsed


def _point(node: PlacedNode) -> UUID:
    """Leaves have no points of their own: their payload's stands for them."""
    return node.payload_id or node.id


def _kind(node: PlacedNode) -> PointKind:
    if node.payload_id is None:
        return PointKind.NODE
    return PointKind.CELL if node.kind is TreeKind.SESSION else PointKind.FACT


def _best(children: Sequence[PlacedNode], probe: Probe, beam: int, weights: Weights) -> list[PlacedNode]:
    """The best children of each tree; scores are scaled among this level's points of a kind."""
    scores: dict[UUID, float] = {}
    for kind in PointKind:
        ids = [_point(child) for child in children if _kind(child) is kind]
        scores |= fused(probe.of(kind).only(ids), weights)
    by_tree: dict[TreeId, list[PlacedNode]] = defaultdict(list)
    for child in children:
        by_tree[child.tree_id].append(child)
    kept: list[PlacedNode] = []
    for siblings in by_tree.values():
        siblings.sort(key=lambda child: -scores.get(_point(child), 0.0))
        kept.extend(siblings[:beam])
    return kept


def _within(node: PlacedNode, overlaps: tuple[float, float] | None) -> bool:
    if overlaps is None or node.time_start is None or node.time_end is None:
        return True
    first, last = overlaps
    return from_micros(node.time_start).timestamp() <= last and (from_micros(node.time_end).timestamp() >= first)
