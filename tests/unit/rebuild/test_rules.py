"""Rules of a forest over the settings, and options as a task's arguments and back."""

from __future__ import annotations

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.ingest.reduce.records import RULES, WHOLE, deviating, ruled
from memforest_core.lifecycle.rebuild.records import Options, arguments_of, options_of, rules_of
from memforest_core.settings import Settings

SETTINGS = Settings()


def test_rules_change_what_they_name_and_nothing_else() -> None:
    changed = ruled(SETTINGS, {"session_k": 5, "scene_cap": 9, "near_duplicate": 0.99})
    assert (changed.tree.session_k, changed.reduce.scene_cap, changed.reduce.near_duplicate) == (5, 9, 0.99)
    assert changed.tree.entity_k == SETTINGS.tree.entity_k
    assert changed.model_dump(exclude={"tree", "reduce"}) == SETTINGS.model_dump(exclude={"tree", "reduce"})
    assert SETTINGS.tree.session_k == 3


def test_every_rule_names_a_setting() -> None:
    for name in RULES:
        value = getattr(getattr(SETTINGS, RULES[name][0]), name)
        assert isinstance(value, int) == (name in WHOLE)


def test_a_held_forest_is_refreshed_on_demand() -> None:
    held = ruled(SETTINGS, {}, held=True)
    assert min(held.refresh.quiet_s, held.refresh.max_staleness_s) > 365 * 86_400


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ({"scene_k": 2}, "The rule scene_k is impossible: Input should be greater than or equal to 3."),
        ({"scene_cap": 2.5}, "The rule scene_cap is impossible"),
        ({"near_duplicate": 1.5}, "The rule near_duplicate is impossible"),
        ({"scene_assign": 0.5}, "The rule scene_weak must not be above scene_assign."),
        ({"held": 1}, "There is no rule 'held'"),
    ],
)
def test_what_is_impossible_is_refused_in_one_sentence(rules: dict[str, float], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        ruled(SETTINGS, rules)


def test_a_rule_that_is_as_usual_is_none() -> None:
    assert deviating(SETTINGS, {"session_k": 3, "entity_k": 5}) == {"entity_k": 5}
    assert rules_of(SETTINGS, {"session_k": 6, "entity_k": 5, "held": 1}, {"session_k": 3, "scene_cap": 20}) == {
        "entity_k": 5,
        "scene_cap": 20,
    }


@pytest.mark.parametrize(
    "options", [Options(), Options({"session_k": 6, "scene_assign": 0.725}, extract=True), Options(summaries=True)]
)
def test_options_survive_as_arguments(options: Options) -> None:
    arguments = arguments_of(options)
    assert all(isinstance(value, str | int) for value in arguments.values())
    assert options_of(arguments) == options
    assert arguments_of(Options({"session_k": 6.0})) == arguments_of(Options({"session_k": 6}))
