"""What a policy takes: how much is too much, and which leaves go for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memforest_core.domain.ids import ForestId
from memforest_core.lifecycle.retain.records import Leaf, Limits, Totals, When
from memforest_core.lifecycle.retain.rows import RetentionRows


@dataclass(frozen=True, slots=True)
class Excess:
    """By how many facts and bytes a forest is over its budget, and how many facts and cells a run may take for it."""

    facts: int
    bytes: int
    fact_quota: int
    cell_quota: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run takes from one forest: what is too old (cells, facts besides theirs, and how many digests, compacted
    texts and items of windows), cells without facts for their bytes, and facts."""

    aged: tuple[Leaf, ...]
    aged_facts: tuple[Leaf, ...]
    digests: int
    windows: int
    window_items: int
    cells: tuple[Leaf, ...]
    facts: tuple[Leaf, ...]
    excess: Excess
    totals: Totals


def excess_of(limits: Limits, totals: Totals) -> Excess:
    """How far a forest is over its budget; at least one leaf may go in each run, so that small forests shrink too."""
    return Excess(
        facts=0 if limits.max_facts is None else max(0, totals.facts - limits.max_facts),
        bytes=0 if limits.max_bytes is None else max(0, totals.bytes - limits.max_bytes),
        fact_quota=max(1, int(limits.fraction * totals.facts)),
        cell_quota=max(1, int(limits.fraction * totals.cells)),
    )


def enough(leaves: Sequence[Leaf], count: int, size: int) -> tuple[Leaf, ...]:
    """The first leaves that are at least ``count``, and ``size`` bytes together; all of them if that is not enough."""
    freed = 0
    for place, leaf in enumerate(leaves):
        if place >= count and freed >= size:
            return tuple(leaves[:place])
        freed += leaf.size
    return tuple(leaves)


def plan_of(rows: RetentionRows, forest: ForestId, limits: Limits, when: When) -> Plan:
    """What a run that begins at this moment takes: the same store gives the same plan.

    Bytes are first sought in cells on which no fact rests, from which nothing was learned; facts go for what is still
    missing, and leave cells for the next run.
    """
    aged = tuple(rows.aged_cells(forest, when)) if when.cutoff is not None else ()
    faded = tuple(rows.aged_facts(forest, when)) if when.facts is not None else ()
    digests = rows.digests_left(forest, when) if when.digests is not None else 0
    texts, items = (
        (rows.windows_left(forest, when), rows.items_left(forest, when)) if when.windows is not None else (0, 0)
    )
    totals = rows.totals(forest, when, bytes_too=limits.max_bytes is not None)
    excess = excess_of(limits, totals)
    cells: tuple[Leaf, ...] = ()
    if excess.bytes:
        cells = enough(rows.least_cells(forest, when, excess.cell_quota), 0, excess.bytes)
    missing = max(0, excess.bytes - sum(leaf.size for leaf in cells))
    facts: tuple[Leaf, ...] = ()
    if excess.facts or missing:
        facts = enough(rows.least_facts(forest, when, excess.fact_quota), excess.facts, missing)
    return Plan(aged, faded, digests, texts, items, cells, facts, excess, totals)
