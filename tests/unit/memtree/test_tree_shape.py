"""How children are grouped when a node overflows."""

from __future__ import annotations

import pytest

from memforest_core.memtree.shape import fill_right, least, split_evenly


def test_the_least_is_half_rounded_up() -> None:
    assert [least(k) for k in (3, 4, 5, 8, 10, 11)] == [2, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("k", range(3, 13))
def test_every_part_of_an_even_split_is_within_bounds(k: int) -> None:
    for count in range(k + 1, 20 * k):
        parts = split_evenly(range(count), k)
        assert [item for part in parts for item in part] == list(range(count))
        assert all(least(k) <= len(part) <= k for part in parts)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_what_fits_stays_together() -> None:
    assert split_evenly("abc", 3) == ["abc"]
    assert fill_right("abc", 3) == ["abc"]
    assert split_evenly("", 3) == fill_right("", 3) == [""]


def test_the_right_edge_takes_the_rest() -> None:
    assert fill_right("abcdefg", 3) == ["abc", "def", "g"]
    assert split_evenly("abcdefg", 3) == ["abc", "de", "fg"]
