"""Answers from the order of time: what lies before, after or between others, and the first or the last of all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from memforest_core.domain.asked_order import Order
from memforest_core.domain.scoring import Voted, best_first, coverage

SAME_ANCHOR = 0.8
"""Texts that hold this share of the best one's anchor words speak of the anchor too; the earliest of them counts."""
LEAST_ANCHOR = 0.34
"""An anchor of which no text holds this much is not known; then nothing is lifted."""
GOOD = 0.5
"""Without words for the state asked for, pieces with this share of the best score are its states."""
NEARER = 0.8
"""How much less each further state gets than the one before it."""

Moment = tuple[datetime, int]
"""When something was said, and its place in that session."""


@dataclass(frozen=True, slots=True)
class Told:
    """A scored piece with when it was said and its terms."""

    voted: Voted
    moment: Moment
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a question asks for in the order of time, in terms."""

    order: Order
    anchor: frozenset[str] = frozenset()
    other: frozenset[str] = frozenset()
    """The second anchor of BETWEEN."""
    telling: frozenset[str] = frozenset()
    """Words of which a text that tells the state holds one; empty when the question names no known state."""


def lift_ordered(pieces: Sequence[Told], wanted: Wanted, weight: float) -> list[Voted]:
    """The pieces, best first, with ``weight`` added for what lies where the question asks for it.

    Half of it for the right side of the anchor, the other half less with each state that lies nearer. An anchor that
    no text speaks of lifts nothing.
    """
    states = sorted(_states(pieces, wanted.telling), key=lambda piece: piece.moment)
    lifted = {id(piece): weight * share for piece, share in _shares(pieces, states, wanted)}
    voted = []
    for piece in pieces:
        added = lifted.get(id(piece), 0.0)
        one = piece.voted
        if added > 0.0:
            one = one.raised_by(added, "order")
        voted.append(one)
    return best_first(voted)


def _states(pieces: Sequence[Told], telling: Collection[str]) -> list[Told]:
    """What tells a state: told by whom the question names, if by anybody; the listener only remarks on it."""
    pieces = [piece for piece in pieces if piece.voted.item.named_speaker] or pieces
    if telling:
        return [piece for piece in pieces if not piece.words.isdisjoint(telling)]
    best = max((piece.voted.score for piece in pieces), default=0.0)
    return [piece for piece in pieces if piece.voted.score >= GOOD * best]


def _shares(pieces: Sequence[Told], states: Sequence[Told], wanted: Wanted) -> list[tuple[Told, float]]:
    """The lifted states, each with its share of the weight."""
    match wanted.order:
        case Order.FIRST:
            return _fading(states)
        case Order.LATEST:
            return _fading(states[::-1])
        case Order.BEFORE | Order.AFTER:
            at = anchor_moment(pieces, wanted.anchor) if wanted.anchor else states[-1].moment if states else None
            if at is None:
                return []
            if wanted.order is Order.BEFORE:
                return _fading([state for state in reversed(states) if state.moment < at])
            return _fading([state for state in states if state.moment > at])
        case Order.BETWEEN:
            ends = [anchor_moment(pieces, wanted.anchor), anchor_moment(pieces, wanted.other)]
            known = sorted(end for end in ends if end is not None)
            if len(known) < len(ends):
                return []
            return [(state, 1.0) for state in states if known[0] < state.moment < known[-1]]
        case _:
            return []


def _fading(states: Sequence[Told]) -> list[tuple[Told, float]]:
    return [(state, (1.0 + NEARER**rank) / 2) for rank, state in enumerate(states)]


def anchor_moment(pieces: Sequence[Told], anchor: Collection[str]) -> Moment | None:
    """When the anchor is first spoken of; None when it is not."""
    shares = coverage(anchor, [piece.words for piece in pieces])
    best = max(shares, default=0.0)
    if best < LEAST_ANCHOR:
        return None
    return min(piece.moment for piece, share in zip(pieces, shares, strict=True) if share >= SAME_ANCHOR * best)
