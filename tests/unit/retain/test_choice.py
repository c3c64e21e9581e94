"""Which leaves a run takes: never more than needed."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from memforest_core.lifecycle.retain.records import Leaf
from memforest_core.lifecycle.retain.service import enough


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 40), st.integers(0, 500))
def test_the_choice_is_the_shortest_beginning_that_is_enough(sizes: list[int], count: int, size: int) -> None:
    given_ = [Leaf(UUID(int=number), each) for number, each in enumerate(sizes)]
    chosen = enough(given_, count, size)
    assert list(chosen) == given_[: len(chosen)]

    def suffices(part: list[Leaf]) -> bool:
        return len(part) >= count and sum(leaf.size for leaf in part) >= size

    assert suffices(list(chosen)) or len(chosen) == len(given_)
    assert not chosen or not suffices(list(chosen)[:-1])
