"""How much something remembered is worth: it fades with time, and slower the more often it was recalled."""

from __future__ import annotations

import math

FIRST_HALF_LIFE_DAYS = 1.0
VISITS_PER_DOUBLING = 5
"""The half-life doubles with each fifth visit, from the fifth on (DESIGN 9)."""
LONGEST_HALF_LIFE_DAYS = 30.0

_MOST_DOUBLINGS = math.ceil(math.log2(LONGEST_HALF_LIFE_DAYS / FIRST_HALF_LIFE_DAYS))
"""More doublings than this only reach the longest half-life again."""


def half_life_days(visits: int) -> float:
    """Days in which something that was visited so often loses half of its weight, from 1 to 30."""
    doublings = min(visits // VISITS_PER_DOUBLING, _MOST_DOUBLINGS)
    return min(LONGEST_HALF_LIFE_DAYS, math.ldexp(FIRST_HALF_LIFE_DAYS, doublings))


def retention(visits: int, idle_days: float, *, pinned: bool = False) -> float:
    """What orders leaves when some must be forgotten, the lowest first; infinite for what is pinned.

    The logarithm to base 2 of ``(1 + visits) x 0.5^(idle days / half-life)`` (DESIGN 9): one more visit adds weight and
    may lengthen the half-life, each half-life without a visit takes 1. As a logarithm it orders leaves of any age: the
    product itself is 0.0 in floating point after three unvisited years. ``idle_days`` counts from the last visit, or
    from its mention time if that is later.
    """
    if pinned:
        return math.inf
    return math.log2(1.0 + visits) - max(0.0, idle_days) / half_life_days(visits)
