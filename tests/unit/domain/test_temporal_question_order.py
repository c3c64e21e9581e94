"""Which of several states a question is after, and from which one it counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memforest_core.domain.temporal_question import NO_ORDER, Order, OrderQuery, order_of
from tests.harness.tables import cases


@pytest.mark.parametrize(
    "question, order, anchor",
    [
        ("Where did I live before Miami?", Order.BEFORE, "Miami"),
        ("Where did Ann live before moving to Miami?", Order.BEFORE, "moving to Miami"),
        ("Before I moved to Davis, where did I live?", Order.BEFORE, "I moved to Davis"),
        ("Before moving to Davis where did I live?", Order.BEFORE, "moving to Davis"),
        ("What was her job prior to the bakery?", Order.BEFORE, "the bakery"),
        ("What was my weight before I started running in 2022?", Order.BEFORE, "I started running"),
        ("Where did I work before that?", Order.BEFORE, ""),
        ("What was my previous job?", Order.BEFORE, ""),
        ("Where did she use to live, where was she formerly?", Order.BEFORE, ""),
        ("What did she do after quitting her job?", Order.AFTER, "quitting her job"),
        ("Which city came after Lima in 2021?", Order.AFTER, "Lima"),
        ("What did I do next?", Order.AFTER, ""),
        ("What was her first job?", Order.FIRST, ""),
        ("Where did I live originally?", Order.FIRST, ""),
        ("What was the last book I read?", Order.LATEST, ""),
        ("Where do I live now?", Order.LATEST, ""),
        ("What is my current weight?", Order.LATEST, ""),
        ("Does she still live in Paris?", Order.LATEST, ""),
        ("How long did I live in Davis?", Order.DURATION, "I live in Davis"),
        ("How long did it last?", Order.DURATION, ""),
    ],
)
def test_a_question_means_a_position_in_the_order(question: str, order: Order, anchor: str) -> None:
    assert order_of(question) == OrderQuery(order, anchor)


@pytest.mark.parametrize(
    "question, order, anchor, other",
    [
        ("Where did I live between Boston and Miami?", Order.BETWEEN, "Boston", "Miami"),
        ("Which project came after Apollo and before Zeus?", Order.BETWEEN, "Apollo", "Zeus"),
        (
            "How many months passed between adopting Rex and adopting Bella?",
            Order.DURATION,
            "adopting Rex",
            "adopting Bella",
        ),
        ("How much time from the interview to the offer?", Order.DURATION, "the interview", "the offer"),
        ("How many days after adopting Rex did I buy a house?", Order.DURATION, "adopting Rex", "I buy a house"),
    ],
)
def test_two_states_enclose_the_wanted_one(question: str, order: Order, anchor: str, other: str) -> None:
    assert order_of(question) == OrderQuery(order, anchor, other)


@pytest.mark.parametrize(
    "question",
    [
        *cases("""
Where do I live? | Where did I live before June 2023? | What happened last week?
What happened between March and June 2022? | What happened in the first week of June?
What is the difference between tea and coffee? | What do I eat before bed? | Whom was I named after?
Who looked after the cat? | What is her first name? | How long is the rope? | What did she learn after a while?
"""),
        "",
    ],
)
def test_other_questions_ask_for_none(question: str) -> None:
    assert order_of(question) == NO_ORDER


_WORDS = [
    "how",
    "long",
    "many",
    "days",
    "did",
    "I",
    "live",
    "in",
    "before",
    "after",
    "between",
    "and",
    "Boston",
    "Miami",
    ",",
    ".",
    "?",
    "the",
    "first",
    "last",
    "now",
    "prior",
    "to",
    "passed",
    "until",
    "from",
    "moved",
    "where",
    "what",
    "still",
    "May",
    "2023",
    "week",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(_WORDS), max_size=14).map(" ".join) | st.text(st.characters(), max_size=200))
def test_any_text_has_an_order_or_none(question: str) -> None:
    found = order_of(question)
    assert found == order_of(question)
    assert found.order is not Order.NONE or found == NO_ORDER
    assert not found.other or found.order in {Order.BETWEEN, Order.DURATION}
