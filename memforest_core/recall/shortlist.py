"""Which cells are read: the best by what the search says of them and of the facts that are said in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from uuid import UUID

from memforest_core.domain.scoring import Scores, Weights, floor_of, fused
from memforest_core.recall.records import Link


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Keeps at most ``most`` cells beside those that are kept ``always``, which have no scores or must be there."""

    most: int
    cells: Scores
    facts: Scores
    weights: Weights
    always: Collection[UUID] = ()
    """Cells and facts."""

    def of(self, cells: Iterable[UUID], said: Sequence[Link]) -> list[UUID]:
        """Those of the ``cells``, and of the cells in which facts are ``said``, that are worth reading.

        A cell has its own score and that of its best fact, as it will when all signals vote; what stands above it and
        beside it lifts it later by less than the cells that are left out lack.
        """
        floor = floor_of([*self.cells.dense.values(), *self.facts.dense.values()])
        own, of_facts = fused(self.cells, self.weights, floor=floor), fused(self.facts, self.weights, floor=floor)
        scores = {cell: self.weights.cell * own.get(cell, 0.0) for cell in cells}
        best: dict[UUID, float] = {}
        kept: dict[UUID, None] = {cell: None for cell in scores if cell in self.always}
        for link in said:
            best[link.cell_id] = max(best.get(link.cell_id, 0.0), of_facts.get(link.fact_id, 0.0))
            if link.fact_id in self.always:
                kept[link.cell_id] = None
        for cell, score in best.items():
            scores[cell] = scores.get(cell, 0.0) + self.weights.fact * score
        if len(scores) <= self.most:
            return list(scores)
        return list(dict.fromkeys([*kept, *nlargest(self.most, scores, key=scores.__getitem__)]))
