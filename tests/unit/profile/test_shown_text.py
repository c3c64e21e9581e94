"""What a profile shows of the sentence of a state."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from memforest_core.assistant.profile.describing import shown_text
from tests.harness.builders import NOON, day, statement

OSLO = ZoneInfo("Europe/Oslo")
RENNES = "Eva lives in Rennes now and Eva started a job at Acme."


@pytest.mark.parametrize(
    ("text", "value", "others", "shown"),
    [
        (RENNES, "Rennes", ["Eva started a job at Acme"], "Eva lives in Rennes."),
        ("Eva started a job at Acme", "Acme", [RENNES], "Eva started a job at Acme"),
        ("Eva lives in Rennes and works at Acme.", "Rennes", ["Eva works at Acme"], "Eva lives in Rennes."),
        ("Eva has a dog, a cat", "a cat", ["Eva has a dog"], "Eva has a dog, a cat"),
        ("Eva has a nowhere map;", "map", [], "Eva has a nowhere map"),
        ("Eva moved to Rennes in May 2021,", "Rennes", [], "Eva moved to Rennes in May 2021"),
        ("Eva moved to Rennes yesterday", "Rennes", [], "Eva moved to Rennes yesterday ({})"),
    ],
)
def test_a_state_shows_its_own_clause_and_day(text: str, value: str, others: list[str], shown: str) -> None:
    said = statement(text, subject="Eva", value=value, mentioned_at=NOON)

    assert shown_text(said, others, OSLO) == shown.format("Sunday 7 May 2023")


def test_the_day_is_the_one_that_was_stored() -> None:
    said = statement("Eva moved to Rennes last week,", subject="Eva", value="Rennes", time=day(2023, 4, 25))

    assert shown_text(said, (), ZoneInfo("UTC")) == "Eva moved to Rennes last week (Tuesday 25 April 2023)"
