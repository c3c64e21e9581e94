"""The table of candidates of a recall, a row each, and the signals that vote for them, a column each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.ids import SessionId
from memforest_core.domain.scoring import Scores, Weights, floor_of, fused
from memforest_core.recall.records import TurnHead, TurnKey

Column = NDArray[np.float64]
"""A number for each row."""


class Candidate(NamedTuple):
    """A row of the table: something that can be evidence, with every point whose score counts for it."""

    scope: int
    """Position of its forest among those of the recall; -1 for an item of an external source."""
    place: tuple[UUID, int, int]
    """Session, ordinal of the turn, and offset in the turn: neighbours follow each other in it."""
    cell: UUID
    facts: tuple[UUID, ...]
    turn: TurnHead | None = None
    """None for an item of an external source."""
    interval: UUID | None = None
    """The lowest node above its cell in its session's tree."""
    root: UUID | None = None
    """The root of its session's tree."""
    named_speaker: bool = False
    in_time: bool = False
    """It was said, or happened, in the time that the question names."""
    position: int | None = None
    """Where a chat model ranked it among its siblings, 0 the best."""
    fact: UUID | None = None
    """Set when this fact's sentence is the evidence, and not its turn."""
    answers: bool = False
    """The turn before it, by somebody else, ends with a question."""
    unread: bool = False
    """A tool's turn, or a part of a long one, that no model wrote a fact about: its cell's score counts as a fact's."""

    @property
    def key(self) -> TurnKey:
        """Its turn, by session and ordinal."""
        session, ordinal, _ = self.place
        return SessionId(session), ordinal


class Table:
    """The candidates of one recall: ``score`` is the sum of the columns of ``signals``.

    ``lifted`` is the part of it that was added after the votes: of equal scores the row that was lifted more is first.
    """

    def __init__(self, rows: Sequence[Candidate]) -> None:
        self.rows = rows
        self.score: Column = np.zeros(len(rows))
        self.lifted: Column = np.zeros(len(rows))
        self.signals: dict[str, Column] = {}
        self._ranking: list[int] | None = None

    def add(self, signal: str, column: Column, *, lift: bool = False) -> None:
        """Add a column to the scores; ``lift`` for one that is added after the votes."""
        if not column.any():
            return
        self.signals[signal] = self.signals[signal] + column if signal in self.signals else column
        self.score = self.score + column
        if lift:
            self.lifted = self.lifted + column
        self._ranking = None

    def ranking(self) -> list[int]:
        """Positions of the rows, the best first."""
        if self._ranking is None:
            ties = [row.place for row in self.rows]
            keys = list(zip((-self.score).tolist(), (-self.lifted).tolist(), ties, strict=True))
            self._ranking = sorted(range(len(keys)), key=keys.__getitem__)
        return self._ranking

    def ranking_of(self, scope: int) -> list[int]:
        """The same of the candidates of one forest."""
        return [at for at in self.ranking() if self.rows[at].scope == scope]

    @property
    def best(self) -> float:
        """The best score; 0 without rows."""
        return float(self.score.max(initial=0.0)) if len(self.rows) else 0.0

    def signals_of(self, at: int) -> dict[str, float]:
        """What each signal added to a row's score, without signals that added nothing."""
        return {name: value for name, column in self.signals.items() if (value := float(column[at])) > 0.0}


class Votes:
    """What the signals read: raw scores of points, the weights for this question, and scaled scores made of both.

    Lists are scaled among the points of the rows, each level by itself; cosines count from the floor of all cells and
    facts that were scored.
    """

    def __init__(
        self, rows: Sequence[Candidate], cells: Scores, facts: Scores, nodes: Scores, weights: Weights
    ) -> None:
        self.raw_cells, self.raw_facts, self.weights = cells, facts, weights
        floor = floor_of([*cells.dense.values(), *facts.dense.values()])
        self.cells = fused(cells, weights, [row.cell for row in rows], floor)
        self.facts = fused(facts, weights, [fact for row in rows for fact in row.facts], floor)
        self.intervals = fused(nodes, weights, [row.interval for row in rows if row.interval], floor)
        self.roots = fused(nodes, weights, [row.root for row in rows if row.root], floor)

    def best_fact(self, row: Candidate) -> float:
        """The scaled score of the best of a row's facts."""
        return max([self.facts.get(fact, 0.0) for fact in row.facts], default=0.0)


Signal = Callable[[Table, Votes], Column]
SIGNALS: dict[str, Signal] = {}
"""The signals that vote, in their order: each gives the column that is added to the scores of the rows so far."""


def signal(function: Signal) -> Signal:
    """Register a signal under its name; its weights are in the setting ``recall.weights``."""
    SIGNALS[function.__name__] = function
    return function


@signal
def cell(table: Table, votes: Votes) -> Column:
    """The score of its cell."""
    return votes.weights["cell"] * np.array([votes.cells.get(row.cell, 0.0) for row in table.rows])


@signal
def fact(table: Table, votes: Votes) -> Column:
    """The score of its best fact."""
    return votes.weights["fact"] * np.array([votes.best_fact(row) for row in table.rows])


@signal
def unread(table: Table, votes: Votes) -> Column:
    """By how much its cell's score, in the place of a fact's, is better than what its best fact adds."""
    own = np.array([votes.cells.get(row.cell, 0.0) if row.unread else 0.0 for row in table.rows])
    facts = table.signals.get("fact", 0.0)
    return np.where([row.unread for row in table.rows], np.maximum(0.0, votes.weights["unread"] * own - facts), 0.0)


@signal
def interval(table: Table, votes: Votes) -> Column:
    """The score of the lowest node above its cell in its session's tree."""
    return votes.weights["interval"] * _of(votes.intervals, [row.interval for row in table.rows])


@signal
def session(table: Table, votes: Votes) -> Column:
    """The score of the root of its session's tree."""
    return votes.weights["root"] * _of(votes.roots, [row.root for row in table.rows])


@signal
def speaker(table: Table, votes: Votes) -> Column:
    """The question names who said it."""
    return votes.weights["speaker"] * np.array([row.named_speaker for row in table.rows], float)


@signal
def time(table: Table, votes: Votes) -> Column:
    """It was said, or happened, in the time that the question names."""
    return votes.weights["time"] * np.array([row.in_time for row in table.rows], float)


@signal
def ranked(table: Table, votes: Votes) -> Column:
    """Where a chat model ranked it among its siblings."""
    weight = votes.weights["ranked"]
    return np.array([0.0 if row.position is None else weight / (1 + row.position) for row in table.rows])


@signal
def neighbour(table: Table, votes: Votes) -> Column:
    """A part of how much better the better neighbouring turn is, and of the better turn next but one.

    Only what is near something better is lifted, so that good pairs do not push single hits down.
    """
    sessions: dict[UUID, int] = {}
    step = 8 + max((row.place[1] for row in table.rows), default=0)
    turns = np.array([step * sessions.setdefault(row.place[0], len(sessions)) + row.place[1] for row in table.rows])
    known, inverse = np.unique(turns, return_inverse=True)
    best = np.zeros(len(known))
    np.maximum.at(best, inverse, table.score)

    def better(distance: int) -> Column:
        """By how much the better of the turns at a distance on both sides is better."""
        found = np.zeros(len(turns))
        for wanted in (turns - distance, turns + distance):
            at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            found = np.maximum(found, np.where(known[at] == wanted, best[at], 0.0))
        return np.maximum(found - table.score, 0.0)

    return votes.weights["neighbour"] * better(1) + votes.weights["next_but_one"] * better(2)


@signal
def answer(table: Table, votes: Votes) -> Column:
    """A part of what its question's turn has by its cell and its best fact: "Three times a week" names nothing of
    "How often do you run?"."""
    found = np.zeros(len(table.rows))
    if any(row.answers for row in table.rows):
        own = table.signals.get("cell", found) + table.signals.get("fact", found)
        best: dict[tuple[UUID, int], float] = {}
        for row, score in zip(table.rows, own.tolist(), strict=True):
            best[row.key] = max(best.get(row.key, 0.0), score)
        for at, row in enumerate(table.rows):
            if row.answers:
                found[at] = votes.weights["answer"] * best.get((row.place[0], row.place[1] - 1), 0.0)
    return found


def _of(scores: Mapping[UUID, float], points: Iterable[UUID | None]) -> Column:
    return np.array([0.0 if point is None else scores.get(point, 0.0) for point in points])
