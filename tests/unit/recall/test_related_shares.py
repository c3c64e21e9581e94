"""What related words gave a candidate is told apart, and adds up to what it was."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.domain.scoring import Item, Scores, vote
from memforest_core.recall.related.shares import told_apart
from tests.harness.weights import weights

CELL, OTHER, FACT, BETTER = (UUID(int=number) for number in range(1, 5))
ITEMS = [Item((UUID(int=9), 0, 0), CELL, (FACT, BETTER)), Item((UUID(int=9), 5, 0), OTHER, ())]
CELLS = Scores({CELL: 2.0, OTHER: 4.0}, {CELL: 0.5, OTHER: 0.25})
FACTS = Scores({FACT: 1.0, BETTER: 3.0}, {BETTER: 0.5})


def test_the_share_of_the_cell_and_of_the_best_fact_is_moved() -> None:
    """Given half of the cell's words and a third of the best fact's, then these parts of both signals are related's."""
    voted = vote(ITEMS, CELLS, FACTS, Scores(), weights())
    apart = told_apart(voted, {CELL: 0.5, BETTER: 1 / 3, FACT: 1.0}, CELLS, FACTS, weights())
    before, after = voted[0], apart[0]
    assert before.item.cell == CELL
    cell = weights().cell * weights().lexical * (2.0 / 4.0) * 0.5
    fact = weights().fact * weights().lexical * 1.0 / 3
    assert after.signals["related"] == pytest.approx(cell + fact)
    assert after.signals["cell"] == pytest.approx(before.signals["cell"] - cell)
    assert after.signals["fact"] == pytest.approx(before.signals["fact"] - fact)
    assert sum(after.signals.values()) == pytest.approx(after.score) == pytest.approx(before.score)


def test_what_has_no_share_stays_as_it_is() -> None:
    voted = vote(ITEMS, CELLS, FACTS, Scores(), weights())
    assert told_apart(voted, {CELL: 0.5}, CELLS, FACTS, weights())[1] == voted[1]


def test_nothing_is_divided_without_words() -> None:
    meant = Scores(dense={CELL: 0.5, OTHER: 0.2})
    voted = vote(ITEMS, meant, Scores(), Scores(), weights())
    assert told_apart(voted, {CELL: 1.0}, meant, Scores(), weights()) == voted
