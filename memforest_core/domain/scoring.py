"""How signals become one score: each list is scaled, lists are added with weights, ancestors and neighbours vote."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import add
from statistics import median
from typing import NamedTuple
from uuid import UUID

ENOUGH = 20
"""Cosines whose median tells in which band a model's cosines lie."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal counts; 0 switches one off. Every list is scaled to [0, 1] before."""

    lexical: float
    dense: float
    cell: float
    fact: float
    unread: float
    interval: float
    root: float
    topic: float
    chain: float
    neighbour: float
    next_but_one: float
    answer: float
    speaker: float
    time: float
    ranked: float


@dataclass(slots=True)
class Scores:
    """Raw scores of points of one sort: BM25 and cosine, by point id."""

    lexical: dict[UUID, float] = field(default_factory=dict)
    dense: dict[UUID, float] = field(default_factory=dict)

    def ids(self) -> set[UUID]:
        """Everything that has a score."""
        return self.lexical.keys() | self.dense.keys()

    def __or__(self, other: Scores) -> Scores:
        """The scores of both."""
        return Scores(self.lexical | other.lexical, self.dense | other.dense)


class Item(NamedTuple):
    """Something that can be evidence, with all that may vote for it.

    ``place`` is (session, turn ordinal, offset in the turn): neighbours follow each other in it. ``interval`` is the
    lowest node above its cell, ``root`` its session's root, ``topics`` the lowest nodes above its facts in entity and
    scene trees (a fact itself where no scene's tree has it), ``chained`` the states before and after its facts' own;
    ``in_time`` tells that it was said, or happened, when the question asks about; ``position`` is where a chat model
    ranked it among its siblings, 0 the best. ``fact`` is set when that fact's sentence is the evidence, and not its
    turn; ``unread`` for a tool's turn or a part of a long one that no model wrote a fact about: its cell's score counts
    as a fact's; ``answers`` when the turn before it, by somebody else, ends with a question.
    """

    place: tuple[UUID, int, int]
    cell: UUID
    facts: tuple[UUID, ...]
    interval: UUID | None = None
    root: UUID | None = None
    topics: tuple[UUID, ...] = ()
    chained: tuple[UUID, ...] = ()
    named_speaker: bool = False
    in_time: bool = False
    position: int | None = None
    fact: UUID | None = None
    unread: bool = False
    answers: bool = False


class Voted(NamedTuple):
    """An item's score and what each signal added to it; ``raised`` is what it was raised by after the votes."""

    item: Item
    score: float
    signals: Mapping[str, float]
    raised: float = 0.0

    def raised_by(self, added: float, signal: str) -> Voted:
        """The same with more, given after the votes: for its time, a code, because it holds, for a topic at hand."""
        signals = {**self.signals, signal: added}
        return self._replace(score=self.score + added, signals=signals, raised=self.raised + added)


def best_first(voted: Iterable[Voted]) -> list[Voted]:
    """The best first; of equal scores that which was raised more, so that a piece raised by the best score is ahead."""
    return sorted(voted, key=lambda one: (-one.score, -one.raised, one.item.place))


def scaled(scores: Sequence[float | None]) -> list[float]:
    """Scores divided by the best of their list; what is at or below 0, or has no score, gets 0.

    The best is 1, and equal scores stay equal, so a list of one or of constants is no special case.
    """
    best = max([score for score in scores if score is not None], default=0.0)
    if best <= 0.0 or not math.isfinite(best):
        return [0.0] * len(scores)
    return [score / best if score is not None and score > 0.0 else 0.0 for score in scores]


def floor_of(cosines: Collection[float]) -> float:
    """The cosine from which on a model tells texts apart: as far below the median of many as the best lies above it.

    Some embedding models give all cosines in a narrow band, such as 0.75 to 0.9. Divided by their best they would all
    be nearly 1 and tell nothing; above the floor the median has half of the best one's share. It is 0 where that is
    lower, as with a model that puts strangers near 0, and for too few cosines to know the band by.
    """
    if len(cosines) < ENOUGH:
        return 0.0
    return max(0.0, 2 * median(cosines) - max(cosines))


def fused(
    scores: Scores, weights: Weights, only: Iterable[UUID] | None = None, floor: float = 0.0
) -> dict[UUID, float]:
    """The weighted sum of both scaled lists, of all points or of those wanted ``only``; a point that one list lacks
    gets nothing from it, and one that both lack is left out. Cosines count from their ``floor`` on."""
    # Each look-up of an id costs its hash, and a recall makes thousands: every list is asked once for each point.
    ids = scores.ids() if only is None else dict.fromkeys(only)
    by_words, by_meaning = list(map(scores.lexical.get, ids)), list(map(scores.dense.get, ids))
    above = [None if cosine is None else cosine - floor for cosine in by_meaning] if floor else by_meaning
    return {
        id_: weights.lexical * one + weights.dense * other
        for id_, word, meaning, one, other in zip(
            ids, by_words, by_meaning, scaled(by_words), scaled(above), strict=True
        )
        if word is not None or meaning is not None
    }


def vote(items: Sequence[Item], cells: Scores, facts: Scores, nodes: Scores, weights: Weights) -> list[Voted]:
    """Score items, best first: their own score and their ancestors', then the lift of neighbours.

    Own: the cell's score and that of the best fact. Ancestors only add: an item without any keeps what it has. Lists
    are scaled among the points of the items that are scored, each level by itself; cosines count from the floor of all
    cells and facts that were scored.
    """
    floor = floor_of([*cells.dense.values(), *facts.dense.values()])
    cell_scores = fused(cells, weights, [item.cell for item in items], floor)
    fact_scores = fused(facts, weights, [fact for item in items for fact in (*item.facts, *item.chained)], floor)
    intervals = fused(nodes, weights, [i.interval for i in items if i.interval], floor)
    roots = fused(nodes, weights, [i.root for i in items if i.root], floor)
    topics = fused(nodes | facts, weights, [topic for item in items for topic in item.topics], floor)
    by_cell = [weights.cell * cell_scores.get(item.cell, 0.0) for item in items]
    by_fact = [weights.fact * _best(fact_scores, item.facts) for item in items]
    signals = {
        "cell": by_cell,
        "fact": by_fact,
        # By how much a cell's score, in the place of a fact's, is better than what the best fact adds.
        "unread": [
            weights.unread * cell_scores.get(item.cell, 0.0) - fact if item.unread else 0.0
            for item, fact in zip(items, by_fact, strict=True)
        ],
        "interval": [weights.interval * intervals.get(item.interval, 0.0) if item.interval else 0.0 for item in items],
        "session": [weights.root * roots.get(item.root, 0.0) if item.root else 0.0 for item in items],
        "topic": [weights.topic * _best(topics, item.topics) for item in items],
        "chain": [weights.chain * _best(fact_scores, item.chained) for item in items],
        "speaker": [weights.speaker if item.named_speaker else 0.0 for item in items],
        "time": [weights.time if item.in_time else 0.0 for item in items],
        "ranked": [0.0 if item.position is None else weights.ranked / (1 + item.position) for item in items],
    }
    added = _given(signals, len(items))
    own = [sum(each.values()) for each in added]
    lifts = lifted(items, own, weights.neighbour, weights.next_but_one)
    answers = answered(items, list(map(add, by_cell, by_fact)), weights.answer)
    voted = []
    for item, each, score, lift, answer in zip(items, added, own, lifts, answers, strict=True):
        if lift > 0.0:
            each["neighbour"] = lift
        if answer > 0.0:
            each["answer"] = answer
        voted.append(Voted(item, score + lift + answer, each))
    return best_first(voted)


def _given(signals: Mapping[str, Sequence[float]], count: int) -> list[dict[str, float]]:
    """What each of so many items gets of each signal, without what gives it nothing."""
    some = {name: values for name, values in signals.items() if max(values, default=0.0) > 0.0}
    return [
        {name: value for name, value in zip(some, values, strict=True) if value > 0.0}
        for values in (zip(*some.values(), strict=True) if some else repeat((), count))
    ]


def lifted(items: Sequence[Item], own: Sequence[float], weight: float, next_but_one: float) -> list[float]:
    """What neighbours add: a share of how much better the better turn beside is, and of the better one next but one.

    Only what stands near something better is lifted, so that good pairs do not push single hits down.
    """
    sessions: dict[UUID, dict[int, float]] = defaultdict(dict)
    # The turns of each item's session, so that a session is looked up once for each item.
    turns = [sessions[item.place[0]] for item in items]
    for item, score, at in zip(items, own, turns, strict=True):
        ordinal = item.place[1]
        if score > at.get(ordinal, 0.0):
            at[ordinal] = score
    lifts = []
    for item, score, at in zip(items, own, turns, strict=True):
        ordinal, there = item.place[1], at.get
        beside = max(there(ordinal - 1, 0.0), there(ordinal + 1, 0.0)) - score
        further = max(there(ordinal - 2, 0.0), there(ordinal + 2, 0.0)) - score
        lift = weight * beside if beside > 0.0 else 0.0
        lifts.append(lift + next_but_one * further if further > 0.0 else lift)
    return lifts


def answered(items: Sequence[Item], told: Sequence[float], weight: float) -> list[float]:
    """What an answer gets of the turn that asks for it: a share of what that turn has by its cell and its best fact,
    which is what each item has ``told``.

    "Three times a week" names nothing of the question "How often do you run?", which does.
    """
    if not any(item.answers for item in items):
        return [0.0] * len(items)
    asking: dict[tuple[UUID, int], float] = {}
    for item, score in zip(items, told, strict=True):
        turn = item.place[:2]
        if score > asking.get(turn, 0.0):
            asking[turn] = score
    return [weight * asking.get((item.place[0], item.place[1] - 1), 0.0) if item.answers else 0.0 for item in items]


def _best(scores: Mapping[UUID, float], ids: Sequence[UUID]) -> float:
    best = 0.0
    for id_ in ids:
        score = scores.get(id_, 0.0)
        if score > best:
            best = score
    return best


def coverage(question: Collection[str], texts: Sequence[Collection[str]]) -> list[float]:
    """How much of a question's terms each text holds, rare ones counting more: in [0, 1].

    Stands in for BM25 where no index knows the corpus: rarity (BM25's IDF) is that among the texts themselves.
    """
    wanted = frozenset(question)
    held = [wanted.intersection(text) for text in texts]
    frequency = Counter(term for terms in held for term in terms)
    rarity = {term: math.log(1 + (len(texts) - frequency[term] + 0.5) / (frequency[term] + 0.5)) for term in wanted}
    total = sum(rarity.values())
    if total <= 0.0:
        return [0.0] * len(texts)
    return [sum(rarity[term] for term in terms) / total for terms in held]


def same_words(one: frozenset[str], other: frozenset[str], overlap: float) -> bool:
    """Whether two sets of terms say the same: their intersection over their union reaches ``overlap``."""
    if not one or not other:
        return False
    return len(one & other) >= overlap * len(one | other)
