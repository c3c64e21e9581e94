"""What a corrected fact says: sentence, value and names follow each other."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from memforest_core.domain.facts import Change, Statement
from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.correct.records import MAX_TEXT, corrected
from tests.harness.builders import day, statement

UTC = ZoneInfo("UTC")


def home(**changes: object) -> Statement:
    """Where Bob lives."""
    values = {
        "text": "Bob lives in Davis, near the river.",
        "attribute": "residence",
        "value": "Davis",
        "change": Change.NONE,
        "entities": ("Bob", "Davis"),
    }
    return replace(statement(), **(values | changes))  # type: ignore[arg-type]


def test_a_value_takes_the_place_of_the_old_one_in_sentence_and_names() -> None:
    found = corrected(home(), UTC, value="New York")
    assert found.text == "Bob lives in New York, near the river."
    assert (found.value, found.entities) == ("New York", ("Bob", "New York"))
    assert (found.change, found.time, found.subject) == (home().change, home().time, home().subject)


def test_a_sentence_brings_the_value_in_the_place_of_the_old_one() -> None:
    assert corrected(home(), UTC, text="Bob lives in Lima, near the river.").value == "Lima"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Bob lives in Davis, far from the river.", "Davis"),
        ("By the sea is where Bob lives.", ""),
        ("Bob lives in , near the river.", ""),
    ],
)
def test_an_unknown_value_is_none(text: str, value: str) -> None:
    assert corrected(home(), UTC, text=text).value == value


def test_a_value_given_with_a_sentence_is_taken_as_it_is() -> None:
    found = corrected(home(), UTC, text="Bob moved in with Clara.", value="Clara's flat")
    assert (found.text, found.value) == ("Bob moved in with Clara.", "Clara's flat")
    assert found.entities == ("Bob", "Clara's flat")


def test_names_that_are_not_named_any_more_are_gone_and_unnamed_ones_stay() -> None:
    old = home(entities=("Bob", "Davis", "California"))
    assert corrected(old, UTC, text="He lives in Lima, near the river.").entities == ("California",)


def test_only_whole_words_are_values() -> None:
    old = home(text="Bob's 8 cats weigh 81 kg and 8 more.", attribute="pet", value="8", entities=())
    assert corrected(old, UTC, value="9").text == "Bob's 9 cats weigh 81 kg and 9 more."


def test_another_time_alone_leaves_the_sentence() -> None:
    found = corrected(home(), UTC, start="2023-05-08")
    assert (found.text, found.value, found.time) == (home().text, home().value, day(2023, 5, 8))


def test_what_was_a_turn_word_by_word_is_a_sentence_now() -> None:
    assert not corrected(home(verbatim=True), UTC, text="Bob lives in Lima.").verbatim


@pytest.mark.parametrize(
    ("old", "wanted", "code"),
    [
        (home(), dict(), "nothing_to_correct"),
        (home(), dict(text=" "), "invalid_text"),
        (home(), dict(text="x" * (MAX_TEXT + 1)), "invalid_text"),
        (home(), dict(value=""), "invalid_value"),
        (home(attribute="", value=""), dict(value="Lima"), "no_value"),
        (home(value="California"), dict(value="Lima"), "no_value"),
    ],
)
def test_what_can_not_be_meant_is_refused(old: Statement, wanted: dict[str, str], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        corrected(old, UTC, **wanted)
    assert refused.value.code == code
