"""Shares of a budget, and where goes what is not used."""

from __future__ import annotations

import pytest

from memforest_core.assistant.context.draft import ORDER, Budget, section_tokens
from memforest_core.assistant.context.records import Section
from memforest_core.errors import InvalidSettings
from memforest_core.settings import ContextSettings, load_settings


def test_shares_count_relative_to_their_sum() -> None:
    found = section_tokens(
        ContextSettings(fractions={"week": 0, "today": 0, "profile": 1, "evidence": 1, "window": 2}), 400
    )

    assert found == {"profile": 100, "week": 0, "today": 0, "evidence": 100, "window": 200}


def test_at_least_one_section_is_shown() -> None:
    zero = {"fractions": {section.value: 0.0 for section in Section}}
    with pytest.raises(InvalidSettings, match="at least one of the fractions"):
        load_settings(context=zero)


def test_what_is_not_used_goes_to_the_others_in_their_order() -> None:
    """Given a profile that needs little and no days, then the window may take what they leave, evidence what the window
    leaves, and at last the profile what is left of all."""
    budget = Budget(1_000, section_tokens(ContextSettings(), 1_000))
    assert sum(budget.section_tokens.values()) == 1_000
    budget.needs(Section.PROFILE, 50)
    budget.took(Section.TODAY, 0)
    budget.took(Section.WEEK, 0)
    budget.needs(Section.EVIDENCE, 600)

    assert budget.free(Section.WINDOW) == 1_000 - 50 - 250
    budget.took(Section.WINDOW, 300)
    assert budget.free(Section.EVIDENCE) == 1_000 - 50 - 300
    budget.took(Section.EVIDENCE, 600)
    assert budget.free(Section.PROFILE) == 100
    assert budget.sure(Section.PROFILE) == 50


def test_a_section_never_takes_what_is_another_ones() -> None:
    budget = Budget(1_000, section_tokens(ContextSettings(), 1_000))
    for section in ORDER:
        budget.needs(section, 10_000)

    assert {section: budget.free(section) for section in ORDER} == dict(budget.section_tokens)
