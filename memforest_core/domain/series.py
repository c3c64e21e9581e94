"""Statements about one thing in the order of time, whatever it is: the last one holds now, the first one was first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memforest_core.domain.asked_series import Series
from memforest_core.domain.ordering import Moment
from memforest_core.domain.scoring import Voted, best_first

SIGNAL = "series"
ALIKE = 0.45
"""Statements at least this near to the question, as a share of the nearest one, are about what it asks for."""
SURE = 0.7
"""The same of the ends of what lasted: how long is said of one thing only."""
FADING = 0.4
"""How much less each statement gets than the one after it, when the last is asked for."""


class Stated(NamedTuple):
    """A piece with when it was said, and how near it is to the question: 1 for the nearest of all."""

    voted: Voted
    moment: Moment
    near: float
    often: bool = False
    """Whether it tells how often something happens."""


def lift_series(pieces: Sequence[Stated], series: Series, anchor: Moment | None, weight: float) -> list[Voted]:
    """The pieces, best first: what is about the thing asked for is lifted to what its nearness is worth, and by its
    place in the order of time ``weight`` times the best score times its nearness more.

    Before and after are counted from the ``anchor``, or from the last statement without one.
    """
    best = max((piece.voted.score for piece in pieces), default=0.0)
    shares = _shares([piece for piece in pieces if piece.near >= ALIKE], series, anchor)
    voted = []
    for piece in pieces:
        one, share = piece.voted, shares.get(id(piece))
        if share is not None:
            added = max(0.0, best * piece.near - one.score) + weight * best * piece.near * share
            one = one.raised_by(added, SIGNAL)
        voted.append(one)
    return best_first(voted)


def _shares(alike: Sequence[Stated], series: Series, anchor: Moment | None) -> Mapping[int, float]:
    """Of the lifted statements, by their ids, the share of the weight."""
    order = sorted(alike, key=lambda piece: piece.moment)
    if not order:
        return {}
    at = order[-1].moment if anchor is None else anchor
    match series:
        case Series.LATEST:
            return _fading(order[::-1])
        case Series.FIRST:
            return _fading(order)
        case Series.BEFORE:
            return _fading([piece for piece in reversed(order) if piece.moment < at])
        case Series.AFTER:
            return _fading([piece for piece in order if piece.moment > at])
        case Series.ENDS:
            return {id(piece): 1.0 for piece in order if piece.near >= SURE}
        case Series.ALL:
            return {id(piece): 1.0 for piece in order}
        case Series.OFTEN:
            return {id(piece): 1.0 for piece in order if piece.often}


def _fading(order: Sequence[Stated]) -> Mapping[int, float]:
    return {id(piece): FADING**rank for rank, piece in enumerate(order)}
