"""How much has to go, and which leaves that takes: never more than a fraction, never more than needed."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from memforest_core.lifecycle.retain.choice import Excess, enough, excess_of
from memforest_core.lifecycle.retain.records import Leaf, Limits, Totals
from tests.harness.builders import NOON


def leaves(*sizes: int) -> list[Leaf]:
    return [Leaf(UUID(int=number), size, NOON) for number, size in enumerate(sizes)]


def totals(facts: int = 0, cells: int = 0, size: int = 0) -> Totals:
    return Totals(facts, 0, cells, 0, size)


def test_a_forest_under_its_budget_is_over_by_nothing() -> None:
    excess = excess_of(Limits(max_facts=100, max_bytes=5_000), totals(100, 50, 5_000))
    assert (excess.facts, excess.bytes) == (0, 0)


def test_what_is_not_limited_is_never_too_much() -> None:
    assert excess_of(Limits(max_age_days=1), totals(10**9, 10**9, 10**12)).facts == 0


def test_a_run_takes_at_most_its_fraction_and_at_least_one() -> None:
    assert excess_of(Limits(max_facts=10, fraction=0.1), totals(205, 99)) == Excess(195, 0, 20, 9)
    assert excess_of(Limits(max_facts=2, fraction=0.1), totals(3, 2)) == Excess(1, 0, 1, 1)


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
