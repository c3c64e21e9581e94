"""How much has to go, and which leaves that takes: never more than a fraction, never more than needed."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from memforest_core.lifecycle.retain.records import Leaf
from memforest_core.lifecycle.retain.service import enough, excess, quota
from tests.harness.builders import NOON


def leaves(*sizes: int) -> list[Leaf]:
    return [Leaf(UUID(int=number), size, NOON) for number, size in enumerate(sizes)]


def test_a_forest_under_its_budget_is_over_by_nothing() -> None:
    assert (excess(100, 100), excess(5_000, 1), excess(100, 295)) == (0, 0, 195)


def test_what_is_not_limited_is_never_too_much() -> None:
    assert excess(None, 10**9) == 0


def test_a_run_takes_at_most_its_fraction_and_at_least_one() -> None:
    assert [quota(0.1, size) for size in (205, 99, 3, 2)] == [20, 9, 1, 1]


def test_leaves_go_until_both_count_and_bytes_are_met() -> None:
    assert len(enough(leaves(10, 10, 10, 10), 2, 0)) == 2
    assert len(enough(leaves(10, 10, 10, 10), 0, 21)) == 3
    assert len(enough(leaves(10, 10, 10, 10), 1, 20)) == 2
    assert len(enough(leaves(10, 10), 9, 99)) == 2
    assert enough(leaves(10, 10), 0, 0) == ()


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 40), st.integers(0, 500))
def test_the_choice_is_the_shortest_beginning_that_is_enough(sizes: list[int], count: int, size: int) -> None:
    given_ = leaves(*sizes)
    chosen = enough(given_, count, size)
    assert list(chosen) == given_[: len(chosen)]

    def suffices(part: list[Leaf]) -> bool:
        return len(part) >= count and sum(leaf.size for leaf in part) >= size

    assert suffices(list(chosen)) or len(chosen) == len(given_)
    assert not chosen or not suffices(list(chosen)[:-1])
