"""Each signal is a column of the table; the candidates are ranked by the sum."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.ids import SessionId
from memforest_core.domain.scoring import Scores, Weights
from memforest_core.recall.records import TurnHead
from memforest_core.recall.score import _lift_questions, lift_recent
from memforest_core.recall.table import SIGNALS, Table, Votes
from tests.harness.weights import weights
from tests.unit.recall.memory import START

SESSION = UUID(int=1000)
ONLY_OWN = weights(root=0, next_but_one=0, speaker=0)
NONE = Scores()
Row = dict[str, Any]


def ident(number: int) -> UUID:
    return UUID(int=number)


def row(ordinal: int, cell: int = 1, **changes: object) -> Row:
    return {"scope": 0, "place": (SESSION, ordinal, 0), "cell": ident(cell), **changes}


def table_of(rows: Sequence[Row]) -> Table:
    table = Table()
    for each in rows:
        table.append(**each)
    return table


def vote(
    rows: Sequence[Row], cells: Scores = NONE, facts: Scores = NONE, nodes: Scores = NONE, chosen: Weights = ONLY_OWN
) -> Table:
    table = table_of(rows)
    votes = Votes(table, cells, facts, nodes, chosen)
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


def test_points_of_no_candidate_do_not_set_the_scale() -> None:
    assert vote([row(0)], Scores(dense={ident(1): 0.5, ident(99): 5.0})).signals_of(0) == {"cell": 0.5}


def test_a_session_lifts_and_never_gates() -> None:
    rows = [row(0, 1, root=ident(21)), row(4, 2, root=ident(22))]
    cells, nodes = Scores(dense={ident(1): 0.5, ident(2): 0.5}), Scores(dense={ident(21): 0.1, ident(22): 0.4})
    table = vote(rows, cells, NONE, nodes, weights())
    assert table.ranking() == [1, 0]
    assert table.signals_of(1) == {"cell": 0.5, "session": 0.5}
    better = Scores(dense={ident(1): 0.9, ident(2): 0.2})
    assert vote([row(4, 2, root=ident(22)), row(0, 1)], better, chosen=weights()).ranking() == [1, 0]


def test_a_named_speaker_counts() -> None:
    cells = Scores(dense={ident(1): 0.5, ident(2): 0.5})
    table = vote([row(0, 1), row(4, 2, named=True)], cells, chosen=weights())
    assert table.ranking() == [1, 0]
    assert table.signals_of(1)["speaker"] == pytest.approx(0.3)


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
    ("rows", "lifted"),
    [
        ([row(0, 3, place=(SESSION, 0, 90)), row(0, 1), row(1, 2, answers=True)], 0.15 * 0.5),
        ([row(0, 1), row(1, 2)], 0.0),
        ([row(0, 3), row(1, 2, answers=True)], 0.0),
        ([row(0, 1), row(2, 2, answers=True)], 0.0),
    ],
    ids=["an answer", "no answer", "the question has no score", "a turn between"],
)
def test_an_answer_gets_a_part_of_what_its_question_has(rows: Sequence[Row], lifted: float) -> None:
    """Given a question of all words and an answer of few."""
    table = vote(rows, Scores(lexical={ident(1): 4.0, ident(2): 1.0}), chosen=weights(answer=0.15))
    assert table.signals_of(len(rows) - 1).get("answer", 0.0) == pytest.approx(lifted)


@pytest.mark.parametrize(
    ("rows", "scores", "lifts"),
    [
        ([row(0), row(2)], (1.0, 0.5), (0.0, 0.05)),
        ([row(0), row(2), row(4)], (0.9, 0.5, 1.0), (0.0, 0.05, 0.0)),
        ([row(0), row(1)], (1.0, 0.5), (0.0, 0.0)),
        ([row(0), row(3)], (1.0, 0.5), (0.0, 0.0)),
        ([row(0), row(2, place=(UUID(int=2000), 2, 0))], (1.0, 0.5), (0.0, 0.0)),
    ],
    ids=["next but one", "the better of both sides", "next", "too far", "another session"],
)
def test_a_turn_is_lifted_towards_a_better_one_next_but_one(
    rows: Sequence[Row], scores: Sequence[float], lifts: Sequence[float]
) -> None:
    table = table_of(rows)
    table.add("cell", np.array(scores))
    votes = Votes(table, NONE, NONE, NONE, weights(next_but_one=0.1))
    assert SIGNALS["next_but_one"](table, votes).tolist() == pytest.approx(lifts)


def test_only_a_short_answer_lifts_the_best_candidate_of_the_turn_before_it() -> None:
    """Given short turns behind long ones, then a question and a sentence of a model lift nothing."""
    made = Table()
    short = ((1, False, None), (3, True, None), (5, False, UUID(int=1)))
    for ordinal, question, fact in short:
        for turn, offsets in ((ordinal - 1, (0, 900)), (ordinal, (0,))):
            head = TurnHead(SessionId(SESSION), turn, "", "", "ab"[turn % 2], "", START, True, "user")
            head = head._replace(is_question=turn == ordinal and question, short=turn == ordinal)
            for offset in offsets:
                made.append(0, (SESSION, turn, offset), SESSION, turn=head, fact=fact if turn == ordinal else None)
    made.add("cell", np.array([0.2, 0.1, 1.0] * 3))
    _lift_questions(made)
    assert made.score[:3].tolist() == pytest.approx([0.999, 0.1, 1.0])
    assert np.count_nonzero(made.lifted) == 1


def test_recency_lifts_a_relevant_piece_by_half_as_much_after_each_half_life() -> None:
    asked_at = datetime(2024, 5, 1, tzinfo=UTC)
    days = [asked_at - timedelta(days=age) for age in (0, 10, 20, -1)]
    heads = [TurnHead(SessionId(SESSION), 0, "turn", "chat", "bob", "Bob", day, True, "user") for day in days]
    table = table_of([*(row(number, turn=head) for number, head in enumerate(heads)), row(9)])
    table.add("cell", np.array([1.0, 1.0, 0.5, 1.0, 1.0]))
    lift_recent(table, 0.4, asked_at, 10.0)
    assert table.signals["recency"].tolist() == pytest.approx([0.4, 0.2, 0.05, 0.4, 0.0])
