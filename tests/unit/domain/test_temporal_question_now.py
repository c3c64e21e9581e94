"""Which questions are about the current state, and about which attribute."""

from __future__ import annotations

import pytest

from memforest_core.domain.temporal_question import current_attributes
from tests.harness.tables import cases


@pytest.mark.parametrize(
    ("question", "attribute"),
    cases("""
Where does Ann live? => residence | Where do I live now? => residence | Where is Ann living these days? => residence
Which city does my sister live in? => residence | Where does Ann work? => job | What does Ann do for a living? => job
What does Ann do? => job | Does Ann still work at Initech? => job | What is my current job? => job
Is Ann married? => relationship | Who is Ann dating? => relationship | What pets does Ann have? => pet
Do I still have a car? => possession | What car does Ann drive? => possession | How much do I weigh? => weight
What is my rent? => rent | How is my blood pressure at the moment? => blood pressure
What's the current status of the Atlas project? => status
"""),
)
def test_a_question_about_now_names_its_attribute(question: str, attribute: str) -> None:
    assert attribute in current_attributes(question)


@pytest.mark.parametrize(
    "question",
    [
        *cases("""
Where did Ann live in 2019? | Where did I live before Bergen? | Where did I use to live?
Where will Ann live next year? | Where was Ann living? | What was my previous job? | How long have I lived in Bergen?
What does Ann do to relax after work? | Where did Ann first live? | Who visited Ann?
"""),
        "",
    ],
)
def test_other_questions_ask_for_no_present_state(question: str) -> None:
    assert current_attributes(question) == frozenset()


def test_synonyms_of_an_attribute_are_included() -> None:
    assert {"job", "occupation", "profession"} <= current_attributes("Where does Ann work?")


def test_a_long_question_is_read_in_bounded_time() -> None:
    assert current_attributes("what is my " + "rent now " * 900) >= {"rent"}
