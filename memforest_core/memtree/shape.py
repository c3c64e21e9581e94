"""How children are grouped under parents: the arithmetic of splits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def least(k: int) -> int:
    """The fewest children of an internal node off the right spine that is not the root."""
    return -(-k // 2)


def fill_right(children: Sequence[T], k: int) -> list[Sequence[T]]:
    """Full groups of ``k``, the last takes the rest: for the right edge, where memory grows.

    No children make one empty group.
    """
    return [children[at : at + k] for at in range(0, max(len(children), 1), k)]


def split_evenly(children: Sequence[T], k: int) -> list[Sequence[T]]:
    """The fewest groups of at most ``k``, whose sizes differ by at most one.

    More than ``k`` children make groups of ``least(k)`` or more.
    """
    groups = max(-(-len(children) // k), 1)
    size, larger = divmod(len(children), groups)
    starts = [part * size + min(part, larger) for part in range(groups + 1)]
    return [children[start:end] for start, end in pairwise(starts)]
