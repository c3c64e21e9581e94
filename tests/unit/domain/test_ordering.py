"""What lies before, after, between, first and last is lifted; the rest keeps its score."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from memforest_core.domain.asked_order import Order
from memforest_core.domain.ordering import Told, Wanted, lift_ordered
from memforest_core.domain.scoring import Item, Voted

START = datetime(2024, 1, 1, tzinfo=UTC)
HOMES = ("live lagos", "live accra", "live nairobi", "choir sing")
LIVE = frozenset({"live"})


def told(day: int, words: str, score: float = 1.0, *, named: bool = False) -> Told:
    item = Item(place=(UUID(int=day + 1), 0, 0), cell=UUID(int=day + 1), facts=(), named_speaker=named)
    return Told(Voted(item, score, {"cell": score}), (START + timedelta(days=day), 0), frozenset(words.split()))


def ordered(wanted: Wanted, *texts: str, weight: float = 1.0) -> list[int]:
    """Days of the texts (one a day), best first."""
    pieces = [told(day, text) for day, text in enumerate(texts)]
    return [voted.item.place[0].int - 1 for voted in lift_ordered(pieces, wanted, weight)]


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        (Wanted(Order.FIRST, telling=LIVE), 0),
        (Wanted(Order.LATEST, telling=LIVE), 2),
        (Wanted(Order.BEFORE, frozenset({"nairobi"}), telling=LIVE), 1),
        (Wanted(Order.AFTER, frozenset({"lagos"}), telling=LIVE), 1),
        (Wanted(Order.BEFORE, telling=LIVE), 1),
        (Wanted(Order.BETWEEN, frozenset({"lagos"}), frozenset({"nairobi"}), telling=LIVE), 1),
    ],
)
def test_the_state_that_is_asked_for_comes_first(wanted: Wanted, first: int) -> None:
    assert ordered(wanted, *HOMES)[0] == first


def test_nearer_states_are_lifted_more() -> None:
    assert ordered(Wanted(Order.BEFORE, frozenset({"nairobi"}), telling=LIVE), *HOMES)[:2] == [1, 0]
    assert ordered(Wanted(Order.AFTER, frozenset({"lagos"}), telling=LIVE), *HOMES)[:2] == [1, 2]


def test_an_anchor_that_nobody_speaks_of_lifts_nothing() -> None:
    lifted = lift_ordered([told(0, "live lagos")], Wanted(Order.BEFORE, frozenset({"miami"}), telling=LIVE), 1.0)
    assert lifted[0].signals == {"cell": 1.0}


def test_what_is_lifted_says_so_and_nothing_else_changes() -> None:
    pieces = [told(day, text) for day, text in enumerate(HOMES)]
    by_day = {v.item.place[0].int - 1: v for v in lift_ordered(pieces, Wanted(Order.FIRST, telling=LIVE), 0.5)}
    assert by_day[0].signals["order"] == pytest.approx(0.5)
    assert by_day[0].score == pytest.approx(1.5)
    assert by_day[3] == pieces[3].voted


def test_without_words_for_the_state_good_pieces_are_states() -> None:
    pieces = [told(0, "opened shop", 0.9), told(1, "nice weather", 0.1), told(2, "passed exam", 1.0)]
    lifted = lift_ordered(pieces, Wanted(Order.FIRST), 1.0)
    assert lifted[0].item.place[0].int == 1
    assert "order" not in lifted[-1].signals


def test_what_the_named_person_told_goes_before_the_remarks_of_others() -> None:
    pieces = [told(0, "live wow"), told(1, "live lagos", named=True)]
    lifted = lift_ordered(pieces, Wanted(Order.FIRST, telling=LIVE), 1.0)
    assert [voted.signals.get("order") for voted in lifted] == [1.0, None]


@pytest.mark.parametrize("order", [Order.NONE, Order.DURATION])
def test_other_questions_have_no_order(order: Order) -> None:
    pieces = [told(0, "live lagos")]
    assert lift_ordered(pieces, Wanted(order, telling=LIVE), 1.0) == [pieces[0].voted]


def test_nothing_is_found_in_nothing() -> None:
    assert lift_ordered([], Wanted(Order.BEFORE, telling=LIVE), 1.0) == []
