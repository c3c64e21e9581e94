"""How children are grouped when a node overflows."""

from __future__ import annotations

import pytest

from memforest_core.memtree.paths import fill_right, least, split_evenly


@pytest.mark.parametrize("k", range(3, 13))
def test_every_part_of_an_even_split_is_within_bounds(k: int) -> None:
    for count in range(k + 1, 20 * k):
        parts = split_evenly(range(count), k)
        assert [item for part in parts for item in part] == list(range(count))
        assert all(least(k) <= len(part) <= k for part in parts)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_right_edge_takes_the_rest() -> None:
    assert fill_right("abcdefg", 3) == ["abc", "def", "g"]
    assert split_evenly("abcdefg", 3) == ["abc", "de", "fg"]
