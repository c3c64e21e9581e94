"""The rules that a forest was materialized with, where they differ from the settings: its later sessions keep them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from memforest_core.errors import InvalidInput
from memforest_core.ingest.reduce.records import Rules
from memforest_core.settings import Settings

TREE_RULES = ("session_k", "entity_k", "scene_k")
"""How many children a node has at most, by the kind of tree."""
REDUCE_RULES = (
    "near_duplicate",
    "scene_assign",
    "scene_weak",
    "scene_merge",
    "scene_cap",
    "scene_min_facts",
    "entity_min_facts",
    "entity_min_sessions",
    "scene_time_bonus",
    "scene_time_days",
)
"""Thresholds of canonicalization and routing."""
RULES = (*TREE_RULES, *REDUCE_RULES)
WHOLE = frozenset({*TREE_RULES, "scene_cap", "scene_min_facts", "entity_min_facts", "entity_min_sessions"})
"""Rules that are whole numbers."""

HELD_S = 10 * 365 * 86_400.0
"""The trees of a held forest are not refreshed before all its cells are placed: each node costs one summary then."""


def ruled(settings: Settings, rules: Rules, *, held: bool = False) -> Settings:
    """The settings as a forest with these rules has them. Raises InvalidInput for an unknown or impossible rule."""
    unknown = sorted(set(rules) - set(RULES))
    if unknown:
        raise InvalidInput(f"There is no rule {unknown[0]!r:.40}: use {', '.join(RULES)}.", code="invalid_rule")
    groups = {"tree": _of(rules, TREE_RULES), "reduce": _of(rules, REDUCE_RULES)}
    if held:
        groups["refresh"] = {"quiet_s": HELD_S, "max_staleness_s": HELD_S}
    update: dict[str, object] = {}
    for name, given in groups.items():
        group = getattr(settings, name)
        try:
            update[name] = type(group).model_validate(group.model_dump() | given) if given else group
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise InvalidInput(
                f"The rule {first['loc'][0]} is impossible: {first['msg']}.", code="invalid_rule"
            ) from None
    changed = settings.model_copy(update=update)
    if changed.reduce.scene_weak > changed.reduce.scene_assign:
        raise InvalidInput("The rule scene_weak must not be above scene_assign.", code="invalid_rule")
    return changed


def deviating(settings: Settings, rules: Rules) -> dict[str, float]:
    """The rules that differ from the settings. Raises InvalidInput as ``ruled``."""
    ruled(settings, rules)
    usual = {name: getattr(settings.tree if name in TREE_RULES else settings.reduce, name) for name in RULES}
    return {name: value for name, value in rules.items() if value != usual[name]}


def _of(rules: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    return {name: rules[name] for name in names if name in rules}
