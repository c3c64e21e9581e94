"""Which of several states a question is after, and from which one it counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memforest_core.domain.temporal_question import NO_ORDER, Order, order_of
from tests.harness.tables import cases


def position(question: str) -> str:
    """A position in the order of time with its anchors."""
    found = order_of(question)
    return " ".join(f"{found.order.value} {found.anchor} {'/ ' * bool(found.other)}{found.other}".split())


@pytest.mark.parametrize(
    ("question", "order"),
    cases("""
Where did I live before Miami? => before Miami | Where did Ann live before moving to Miami? => before moving to Miami
Before I moved to Davis, where did I live? => before I moved to Davis
Before moving to Davis where did I live? => before moving to Davis
What was her job prior to the bakery? => before the bakery
What was my weight before I started running in 2022? => before I started running
Where did I work before that? => before | What was my previous job? => before
Where did she use to live, where was she formerly? => before
What did she do after quitting her job? => after quitting her job | Which city came after Lima in 2021? => after Lima
Once the mill had flooded, where did I move? => after the mill had flooded | Who replaced Ann? => after Ann
When Ann left, who did she hire next? => after Ann left | As soon as Rex died, what did I buy? => after Rex died
Which doctor followed Moss? => after Moss | What did I do next? => after | What was her first job? => first | Where did I live originally? => first
What was the last book I read? => latest | Where do I live now? => latest | What is my current weight? => latest
Does she still live in Paris? => latest | How long did I live in Davis? => duration
How long did it last? => duration | Where did I live between Boston and Miami? => between Boston / Miami
Which project came after Apollo and before Zeus? => between Apollo / Zeus
How many months passed between adopting Rex and adopting Bella? => duration
How much time from the interview to the offer? => duration
How many days after adopting Rex did I buy a house? => duration
"""),
)
def test_a_question_means_a_position_in_the_order(question: str, order: str) -> None:
    assert position(question) == order


@pytest.mark.parametrize(
    "question",
    [
        *cases("""
Where do I live? | Where did I live before June 2023? | What happened last week?
What happened between March and June 2022? | What happened in the first week of June?
What is the difference between tea and coffee? | What do I eat before bed? | Whom was I named after?
Who looked after the cat? | What is her first name? | How long is the rope? | What did she learn after a while?
Who followed me? | What do I do once a week? | When did I move, and where? | Have I once been to Rome?
"""),
        "",
    ],
)
def test_other_questions_ask_for_none(question: str) -> None:
    assert order_of(question) == NO_ORDER


_WORDS_TEXT = """
how long many days did I live in before after between and Boston Miami , . ? the first last now prior to passed
until from moved where what still May 2023 week
"""
_WORDS = _WORDS_TEXT.split()


@settings(max_examples=300)
@given(st.lists(st.sampled_from(_WORDS), max_size=14).map(" ".join) | st.text(st.characters(), max_size=200))
def test_any_text_has_an_order_or_none(question: str) -> None:
    found = order_of(question)
    assert found == order_of(question)
    assert found.order is not Order.NONE or found == NO_ORDER
    assert not found.other or found.order is Order.BETWEEN
