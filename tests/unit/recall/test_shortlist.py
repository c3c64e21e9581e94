"""Of many cells the best are read, and those that have no score yet."""

from __future__ import annotations

from uuid import UUID, uuid4

from memforest_core.domain.scoring import Scores
from memforest_core.recall.candidates import shortlist
from tests.harness.weights import weights

WEIGHTS = weights()


def cosines(ids: list[UUID], best: float = 0.9) -> dict[UUID, float]:
    """The first is the best."""
    return {id_: best - 0.01 * at for at, id_ in enumerate(ids)}


def test_the_best_cells_are_read() -> None:
    """Given ten cells that were found, when four are wanted, then these are the four with the best scores."""
    cells = [uuid4() for _ in range(10)]
    found = shortlist(4, cells[::-1], [], (Scores(dense=cosines(cells)), Scores()), WEIGHTS, ())
    assert found == cells[:4]


def test_a_fact_brings_its_cell() -> None:
    """Given a cell that no search found, when the best of all facts is said in it, then it is read before the cells
    that were found alone."""
    cells, facts, other = [uuid4() for _ in range(10)], [uuid4() for _ in range(3)], uuid4()
    scores = Scores(dense=cosines(cells)), Scores(dense=cosines(facts))
    links = [(facts[0], other), (facts[1], cells[5])]
    assert shortlist(2, cells, links, scores, WEIGHTS, ()) == [cells[5], other]


def test_what_has_no_score_yet_is_read_in_addition_to_the_best() -> None:
    """Given a cell that the index has not seen, and a fact of a current state, then both cells are read, and as many of the
    others as ever."""
    cells, unseen, fact, its = [uuid4() for _ in range(10)], uuid4(), uuid4(), uuid4()
    scores = Scores(dense=cosines(cells)), Scores()
    found = shortlist(3, [*cells, unseen], [(fact, its)], scores, WEIGHTS, {unseen, fact})
    assert set(found) == {*cells[:3], unseen, its}


def test_few_cells_are_all_read() -> None:
    """Given no more cells than may be read, then all are."""
    cells = [uuid4() for _ in range(3)]
    assert set(shortlist(3, cells, [], (Scores(), Scores()), WEIGHTS, ())) == set(cells)
