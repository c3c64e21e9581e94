"""A state as people read it."""

from __future__ import annotations

import pytest

from memforest_core.domain.facts import Polarity, Source
from memforest_core.domain.rendering import by_rules, stated

YES, NO = Polarity.POSITIVE, Polarity.NEGATIVE


@pytest.mark.parametrize(
    ("attribute", "value", "polarity", "planned", "shown"),
    [
        ("diet", "vegan", YES, False, "vegan"),
        ("diet", "vegan", NO, False, "not vegan"),
        ("allergy", "nuts", NO, False, "not nuts"),
        ("preference", "fish", NO, False, "dislikes fish"),
        ("job", "Norvik", YES, True, "Norvik (as planned)"),
        ("", "", NO, False, "Kim does not smoke."),
    ],
)
def test_denials_and_plans_read_as_such(
    attribute: str, value: str, polarity: Polarity, planned: bool, shown: str
) -> None:
    assert stated(attribute, value, "Kim does not smoke.", polarity, planned) == shown


def test_rules_are_named_where_they_found_something() -> None:
    assert by_rules([Source.MODEL, Source.RULES]) == "Found by rules; a chat model finds more."
    assert by_rules([Source.MODEL, Source.PERSON, None]) == by_rules([]) == ""
