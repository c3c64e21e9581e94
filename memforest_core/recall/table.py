"""The table of candidates of a recall: a column for each thing known of them, and one for what each signal adds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.ids import FactId
from memforest_core.domain.scoring import Scores, Weights, floor_of, fused
from memforest_core.domain.turns import Role
from memforest_core.recall.candidates import Scope
from memforest_core.recall.question import Question
from memforest_core.recall.records import FactHead, TurnHead, TurnKey
from memforest_core.recall.request import ALWAYS, touches

Column = NDArray[np.float64]
"""A number for each candidate."""
Place = tuple[UUID, int, int]
"""Session, ordinal of the turn, and offset in the turn: neighbours follow each other in it."""


class Row(NamedTuple):
    """A candidate: one entry of each list of a ``Table``."""

    scope: int
    place: Place
    cell: UUID
    facts: tuple[UUID, ...] = ()
    turn: TurnHead | None = None
    root: UUID | None = None
    named: bool = False
    in_time: bool = False
    position: int | None = None
    fact: UUID | None = None
    unread: bool = False
    answers: bool = False


@dataclass(slots=True)
class Table:
    """What can be evidence in one recall; each list has an entry for each candidate, in one order.

    ``score`` is the sum of the columns of ``signals``. ``lifted`` is the part of it that was added after the votes: of
    equal scores the candidate that was lifted more is first.
    """

    scope: list[int] = field(default_factory=list)
    """Position of its forest among those of the recall; -1 for an item of an external source."""
    place: list[Place] = field(default_factory=list)
    cell: list[UUID] = field(default_factory=list)
    facts: list[tuple[UUID, ...]] = field(default_factory=list)
    """The facts whose scores count for it."""
    turn: list[TurnHead | None] = field(default_factory=list)
    """None for an item of an external source."""
    root: list[UUID | None] = field(default_factory=list)
    """Of its session's tree."""
    named: list[bool] = field(default_factory=list)
    """The question names who said it."""
    in_time: list[bool] = field(default_factory=list)
    """It was said, or happened, in the time that the question names."""
    position: list[int | None] = field(default_factory=list)
    """Where a chat model ranked it among its siblings, 0 the best."""
    fact: list[UUID | None] = field(default_factory=list)
    """Set when this fact's sentence is the evidence, and not its turn."""
    unread: list[bool] = field(default_factory=list)
    """A tool's turn, or a part of a long one, that no model wrote a fact about: its cell's score counts as a fact's."""
    answers: list[bool] = field(default_factory=list)
    """The turn before it, by somebody else, ends with a question."""
    signals: dict[str, Column] = field(default_factory=dict)
    score: Column = field(default_factory=lambda: np.zeros(0))
    lifted: Column = field(default_factory=lambda: np.zeros(0))
    _ranking: list[int] | None = None
    _number: Column | None = None
    """Of each candidate its number in the order of ``place``."""

    def extend(self, rows: Collection[Row]) -> None:
        """Add candidates; only before the first signal."""
        if not rows:
            return
        columns: tuple[list[Any], ...] = (
            *(self.scope, self.place, self.cell, self.facts, self.turn, self.root),
            *(self.named, self.in_time, self.position, self.fact, self.unread, self.answers),
        )
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            column.extend(values)

    def append(self, *known: Any, **more: Any) -> None:
        """Add one candidate, as a ``Row``."""
        self.extend([Row(*known, **more)])

    def __len__(self) -> int:
        return len(self.cell)

    def zeros(self) -> Column:
        """A column of zeros."""
        return np.zeros(len(self))

    def key(self, at: int) -> TurnKey:
        """A candidate's turn, by session and ordinal."""
        session, ordinal, _ = self.place[at]
        return session, ordinal  # type: ignore[return-value]

    def add(self, signal: str, column: Column, *, lift: bool = False) -> None:
        """Add a column to the scores; ``lift`` for one that is added after the votes."""
        if len(self.score) != len(self):
            self.score, self.lifted = self.zeros(), self.zeros()
        if not column.any():
            return
        self.signals[signal] = self.signals[signal] + column if signal in self.signals else column
        self.score = self.score + column
        if lift:
            self.lifted = self.lifted + column
        self._ranking = None

    def ranking(self) -> list[int]:
        """All candidates, the best first."""
        if self._number is None:
            # Numbers compare in C, ids in Python.
            keys = [(session.int, turn, offset) for session, turn, offset in self.place]
            self._number = self.zeros()
            self._number[sorted(range(len(self)), key=keys.__getitem__)] = np.arange(len(self))
        if self._ranking is None:
            found: list[int] = np.lexsort((self._number, -self.lifted, -self.score)).tolist()
            self._ranking = found
        return self._ranking

    def ranking_of(self, scope: int) -> list[int]:
        """The same of the candidates of one forest."""
        return [at for at in self.ranking() if self.scope[at] == scope]

    @property
    def best(self) -> float:
        """The best score; 0 without candidates."""
        return float(self.score.max(initial=0.0))

    def signals_of(self, at: int) -> dict[str, float]:
        """What each signal added to a candidate's score, without signals that added nothing."""
        return {name: value for name, column in self.signals.items() if (value := float(column[at])) > 0.0}


def add_candidates(table: Table, number: int, scope: Scope, question: Question) -> None:
    """Add the candidates of a forest within its bounds.

    A turn competes with its own text; in addition each sentence that a model wrote about it competes for itself.
    """
    candidates, bounds, given = scope.candidates, scope.bounds, scope.browsed.positions
    said, turns = candidates.facts_by_turn(), candidates.turns
    named: dict[tuple[str, str], bool] = {}
    timed, limited = bounds.between != ALWAYS or bounds.about != ALWAYS, bounds.limited
    rows: list[Row] = []
    for cell in candidates.cells.values():
        session, offset = cell.session_id, cell.char_start or 0
        root = candidates.roots.get(session)
        for ordinal in range(cell.first_turn, cell.last_turn + 1):
            head = turns.get((session, ordinal))
            if head is None or (limited and not bounds.allow(head)):
                continue
            facts: Sequence[FactId] = said.get((session, ordinal), ())
            written = [fact for fact in facts if candidates.writes(fact)] if candidates.sentences else []
            pointing = [fact for fact in facts if not candidates.writes(fact)] if written else facts
            who = (head.speaker_id, head.name)
            if who not in named:
                own = question.first_person and head.speaker_id == scope.forest.owner
                named[who] = own or question.names(head.name)
            before = turns.get((session, ordinal - 1))
            answers = before is not None and before.is_question and before.speaker_id != head.speaker_id
            long = head.role == Role.TOOL or cell.char_start is not None
            for fact, voices in ((None, pointing), *((fact, [fact]) for fact in written)):
                spans = list(_spans(head, [candidates.heads.get(voice) for voice in voices])) if timed else []
                if timed and not touches(spans, bounds.between):
                    continue
                place, position = (session, ordinal, offset), _position(given, (cell.id, *voices)) if given else None
                in_time, unread = (
                    timed and bounds.about != ALWAYS and touches(spans, bounds.about),
                    long and not written,
                )
                of = (number, place, cell.id, tuple(voices), head, root)
                rows.append(Row(*of, named[who], in_time, position, fact, unread and fact is None, answers))
    table.extend(rows)


def _position(given: Mapping[UUID, int], points: Iterable[UUID]) -> int | None:
    return min((given[id_] for id_ in points if id_ in given), default=None)


def _spans(head: TurnHead, facts: Sequence[FactHead | None]) -> Iterator[tuple[datetime, datetime]]:
    """When a turn was said, and when what its facts say happened."""
    yield head.occurred_at, head.occurred_at
    for fact in facts:
        if fact is not None and fact.time_start is not None and fact.time_end is not None:
            yield fact.time_start, fact.time_end


class Votes:
    """What the signals read: the weights for this question, and scaled scores of points.

    Lists are scaled among the points of the table, each level by itself; cosines count from the floor of all cells and
    facts that were scored.
    """

    def __init__(self, table: Table, cells: Scores, facts: Scores, nodes: Scores, weights: Weights) -> None:
        self.weights = weights
        floor = floor_of([*cells.dense.values(), *facts.dense.values()])
        self.cells = fused(cells, weights, table.cell, floor)
        self.facts = fused(facts, weights, [fact for own in table.facts for fact in own], floor)
        self.roots = fused(nodes, weights, [root for root in table.root if root], floor)


Signal = Callable[[Table, Votes], Column]
SIGNALS: dict[str, Signal] = {}
"""The signals that vote, in their order: each gives the column that is added to the scores so far."""


def signal(function: Signal) -> Signal:
    """Register a signal under its name; its weights are in the setting ``recall.weights``."""
    SIGNALS[function.__name__] = function
    return function


@signal
def cell(table: Table, votes: Votes) -> Column:
    """The score of its cell."""
    return votes.weights["cell"] * _of(votes.cells, table.cell)


@signal
def fact(table: Table, votes: Votes) -> Column:
    """The score of its best fact."""
    best = [max([votes.facts.get(fact, 0.0) for fact in own], default=0.0) for own in table.facts]
    return votes.weights["fact"] * np.array(best)


@signal
def unread(table: Table, votes: Votes) -> Column:
    """By how much its cell's score, in the place of a fact's, is better than what its best fact adds."""
    if not any(table.unread):
        return table.zeros()
    own = votes.weights["fact"] * _of(votes.cells, table.cell)
    return np.where(table.unread, np.maximum(0.0, own - table.signals.get("fact", 0.0)), 0.0)


@signal
def session(table: Table, votes: Votes) -> Column:
    """The score of the root of its session's tree."""
    return votes.weights["root"] * _of(votes.roots, table.root)


@signal
def speaker(table: Table, votes: Votes) -> Column:
    """The question names who said it."""
    return votes.weights["speaker"] * np.array(table.named, float)


@signal
def time(table: Table, votes: Votes) -> Column:
    """It was said, or happened, in the time that the question names."""
    return votes.weights["time"] * np.array(table.in_time, float)


@signal
def ranked(table: Table, votes: Votes) -> Column:
    """Where a chat model ranked it among its siblings."""
    weight = votes.weights["ranked"]
    if not any(position is not None for position in table.position):
        return table.zeros()
    return np.array([0.0 if position is None else weight / (1 + position) for position in table.position])


@signal
def next_but_one(table: Table, votes: Votes) -> Column:
    """A part of how much better the better turn next but one is.

    Only what is near something better is lifted, so that good pairs do not push single hits down.
    """
    sessions: dict[UUID, int] = {}
    step = 8 + max((turn for _, turn, _ in table.place), default=0)
    turns = np.array([step * sessions.setdefault(of, len(sessions)) + turn for of, turn, _ in table.place])
    known, inverse = np.unique(turns, return_inverse=True)
    best = np.zeros(len(known))
    np.maximum.at(best, inverse, table.score)
    found = np.zeros(len(turns))
    for wanted in (turns - 2, turns + 2):
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = np.maximum(found, np.where(known[at] == wanted, best[at], 0.0))
    return votes.weights["next_but_one"] * np.maximum(found - table.score, 0.0)


@signal
def answer(table: Table, votes: Votes) -> Column:
    """A part of what its question's turn has by its cell and its best fact: "Three times a week" names nothing of
    "How often do you run?"."""
    found = table.zeros()
    if any(table.answers):
        own = table.signals.get("cell", found) + table.signals.get("fact", found)
        best: dict[TurnKey, float] = {}
        for at, score in enumerate(own.tolist()):
            best[table.key(at)] = max(best.get(table.key(at), 0.0), score)
        for at in np.flatnonzero(table.answers).tolist():
            session, ordinal = table.key(at)
            found[at] = votes.weights["answer"] * best.get((session, ordinal - 1), 0.0)
    return found


def _of(scores: Mapping[UUID, float], points: Iterable[UUID | None]) -> Column:
    return np.array([0.0 if point is None else scores.get(point, 0.0) for point in points])
