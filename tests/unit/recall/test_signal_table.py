"""Each signal is a column of the table; the rows are ranked by the sum."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.scoring import Scores, Weights
from memforest_core.recall.signal_table import SIGNALS, Candidate, Table, Votes
from tests.harness.weights import weights

SESSION = UUID(int=1000)
ONLY_OWN = weights(interval=0, root=0, neighbour=0, next_but_one=0, speaker=0)
NONE = Scores()


def ident(number: int) -> UUID:
    return UUID(int=number)


def row(ordinal: int, cell: int = 1, **changes: object) -> Candidate:
    values: dict[str, object] = {"scope": 0, "place": (SESSION, ordinal, 0), "cell": ident(cell), "facts": ()}
    return Candidate(**(values | changes))  # type: ignore[arg-type]


def vote(
    rows: Sequence[Candidate],
    cells: Scores = NONE,
    facts: Scores = NONE,
    nodes: Scores = NONE,
    chosen: Weights = ONLY_OWN,
) -> Table:
    table = Table(rows)
    votes = Votes(rows, cells, facts, nodes, chosen)
    for name, signal in SIGNALS.items():
        table.add(name, signal(table, votes))
    return table


def test_own_score_is_the_cell_and_the_best_fact() -> None:
    facts = Scores(dense={ident(11): 0.2, ident(12): 0.8})
    table = vote([row(0, facts=(ident(11), ident(12)))], Scores(dense={ident(1): 0.5}), facts)
    assert table.signals_of(0) == {"cell": 0.5, "fact": 1.0}
    assert table.score.tolist() == [1.5]


def test_what_extraction_does_not_read_counts_by_its_cell_where_that_is_better_than_its_fact() -> None:
    rows = [row(0, 1, facts=(ident(11),), unread=True), row(1, 2, facts=(ident(12),), unread=True)]
    cells = Scores(dense={ident(1): 0.8, ident(2): 0.4})
    table = vote(rows, cells, Scores(dense={ident(11): 0.2, ident(12): 0.8}))
    assert table.signals_of(0) == {"cell": 0.5, "fact": 0.25, "unread": 0.75}
    assert table.signals_of(1) == {"cell": 0.25, "fact": 1.0}


def test_a_turn_without_facts_has_its_cells_score() -> None:
    assert vote([row(0)], Scores(lexical={ident(1): 3.0})).signals_of(0) == {"cell": 0.5}


def test_ancestors_add_columns_of_their_own() -> None:
    nodes = Scores(dense={ident(21): 0.3, ident(22): 0.2})
    table = vote([row(0, interval=ident(21), root=ident(22))], Scores(dense={ident(1): 0.5}), NONE, nodes, weights())
    assert table.signals_of(0) == {"cell": 0.5, "interval": 0.5, "session": 0.5}


def test_ancestors_never_gate() -> None:
    cells = Scores(dense={ident(1): 0.9, ident(2): 0.2})
    table = vote([row(4, 2), row(0, 1, interval=ident(21))], cells, chosen=weights())
    assert table.ranking() == [1, 0]


def test_a_good_session_lifts_one_of_two_equal_turns() -> None:
    rows = [row(0, 1, root=ident(21)), row(4, 2, root=ident(22))]
    cells, nodes = Scores(dense={ident(1): 0.5, ident(2): 0.5}), Scores(dense={ident(21): 0.1, ident(22): 0.4})
    assert vote(rows, cells, NONE, nodes, weights()).ranking() == [1, 0]


def test_a_named_speaker_counts() -> None:
    cells = Scores(dense={ident(1): 0.5, ident(2): 0.5})
    table = vote([row(0, 1), row(4, 2, named_speaker=True)], cells, chosen=weights())
    assert table.ranking() == [1, 0]
    assert table.signals_of(1)["speaker"] == pytest.approx(0.3)


def test_points_of_no_row_do_not_set_the_scale() -> None:
    assert vote([row(0)], Scores(dense={ident(1): 0.5, ident(99): 5.0})).signals_of(0) == {"cell": 0.5}


def test_equal_scores_are_ranked_by_place_and_by_what_was_lifted_more() -> None:
    table = vote([row(6), row(2)])
    assert table.ranking() == [1, 0]
    table.add("series", np.array([1.0, 0.0]), lift=True)
    table.add("cell", np.array([0.0, 1.0]))
    assert table.ranking() == [0, 1]


def test_an_empty_table_has_no_ranking() -> None:
    table = vote([], chosen=weights())
    assert (table.ranking(), table.best, table.signals) == ([], 0.0, {})


@pytest.mark.parametrize(
    ("turns", "scores", "next_but_one", "lifts"),
    [
        ((0, 1), (1.0, 0.5), 0.0, (0.0, 0.1)),
        ((0, 2), (1.0, 0.5), 0.1, (0.0, 0.05)),
        ((0, 1, 2), (1.0, 0.8, 0.5), 0.1, (0.0, 0.04, 0.11)),
        ((0, 1, 2), (1.0, 0.5, 0.7), 0.0, (0.0, 0.1, 0.0)),
        ((0, 3), (1.0, 0.5), 0.2, (0.0, 0.0)),
    ],
    ids=["neighbour", "next but one", "near two better ones", "the better of both sides", "too far"],
)
def test_a_turn_is_lifted_towards_better_turns_near_it(
    turns: Sequence[int], scores: Sequence[float], next_but_one: float, lifts: Sequence[float]
) -> None:
    table = Table([row(turn) for turn in turns])
    table.add("cell", np.array(scores))
    chosen = weights(neighbour=0.2, next_but_one=next_but_one)
    assert SIGNALS["neighbour"](table, Votes(table.rows, NONE, NONE, NONE, chosen)).tolist() == pytest.approx(lifts)


def test_another_session_is_no_neighbour() -> None:
    table = Table([row(0), row(1, place=(UUID(int=2000), 1, 0))])
    table.add("cell", np.array([1.0, 0.5]))
    assert not SIGNALS["neighbour"](table, Votes(table.rows, NONE, NONE, NONE, weights())).any()


def answered(*rows: Candidate) -> Table:
    """A question of all words and an answer of few."""
    return vote(rows, Scores(lexical={ident(1): 4.0, ident(2): 1.0}), chosen=weights(answer=0.15))


def test_an_answer_gets_a_part_of_what_its_question_has() -> None:
    table = answered(row(0, 3, place=(SESSION, 0, 90)), row(0, 1), row(1, 2, answers=True))
    assert table.signals_of(2)["answer"] == pytest.approx(0.15 * table.signals_of(1)["cell"])
    assert "answer" not in table.signals_of(1)


@pytest.mark.parametrize(
    "rows",
    [(row(0, 1), row(1, 2)), (row(1, 2, answers=True),), (row(0, 1), row(2, 2, answers=True))],
    ids=["no answer", "no question among the candidates", "a turn between"],
)
def test_other_turns_get_nothing_for_an_answer(rows: tuple[Candidate, ...]) -> None:
    assert "answer" not in answered(*rows).signals
