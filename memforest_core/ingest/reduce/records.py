"""Records of the reducer (waiting cells, scopes, members), and where a forest's rules differ from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from memforest_core.domain.facts import Candidate
from memforest_core.domain.ids import CellId, ForestId, PayloadId, SessionId, TreeId, TreeKind
from memforest_core.errors import InvalidInput
from memforest_core.memtree import TreeHead
from memforest_core.models.calls import Vectors
from memforest_core.settings import ReduceSettings, Settings, TreeSettings

if TYPE_CHECKING:
    from memforest_core.store.trees import SceneSpan

Rules = Mapping[str, float]
"""Branching factors and thresholds of one forest, under the names they have in the settings."""

HELD = "held"
"""A key among the rules of a hidden forest: its trees are not refreshed before the rebuild is complete."""


@dataclass(frozen=True, slots=True)
class WaitingCandidate:
    """A candidate with its cell's ordinal and the vectors of its text and routing (``models/statement_vectors.py``);
    None for one that is missing, as something with the same text was erased meanwhile: it is embedded again."""

    candidate: Candidate
    vector: Vectors | None
    routing_vector: Vectors | None
    cell_ordinal: int


@dataclass(frozen=True, slots=True)
class WaitingCell:
    """An extracted cell that is not in the trees yet."""

    id: CellId
    session_id: SessionId
    session_label: str
    ordinal: int
    first_turn: int
    char_start: int
    time_start: datetime
    time_end: datetime
    candidates: tuple[WaitingCandidate, ...]
    trace: str | None = None
    """The W3C traceparent that its session was accepted under."""
    reopened: bool = False
    """It was in the trees before: its earlier candidates are to be replaced."""
    note: bool = False
    """Its session is a note: its facts are pinned."""


@dataclass(frozen=True, slots=True)
class WaitingForest:
    """A forest with extracted cells, and which."""

    forest_id: ForestId
    owner: str
    cells: tuple[CellId, ...]
    extracted_at: Mapping[CellId, datetime]
    """When each was extracted: another time means that it was extracted again."""


@dataclass(frozen=True, slots=True)
class ReduceBatch:
    """Waiting cells of one forest."""

    forest_id: ForestId
    owner: str
    cells: tuple[WaitingCell, ...]
    rules: Rules = field(default_factory=dict)
    """Where the forest's differ from the settings."""
    held: bool = False
    """The forest is being rebuilt while the live one is in use: its summaries wait until it is whole."""


@dataclass(frozen=True, slots=True)
class ScopeDraft:
    """A scope as it should be stored; ``span`` is that of a scene."""

    id: TreeId
    kind: TreeKind
    key: str
    label: str
    k: int
    session_id: SessionId | None = None
    domain: str = ""
    span: SceneSpan | None = None
    person: bool = False
    """The owner or a human speaker: the label follows the newest name."""


@dataclass(frozen=True, slots=True)
class ScopeHead:
    """A stored scope: its kind, its label and, when it is active, its tree."""

    kind: TreeKind
    label: str
    head: TreeHead | None


@dataclass(frozen=True, slots=True)
class Member:
    """A payload of a scope and the session it came from."""

    tree_id: TreeId
    payload_id: PayloadId
    session_id: SessionId


RULES: Mapping[str, tuple[str, bool]] = {
    name: (group, field.annotation is int)
    for group, kind in (("tree", TreeSettings), ("reduce", ReduceSettings))
    for name, field in kind.model_fields.items()
}
"""How many children a node has, and thresholds of canonicalization and routing: the group of settings that each rule is
of, and whether it is a whole number."""
WHOLE = frozenset(name for name, (_, whole) in RULES.items() if whole)

HELD_S = 10 * 365 * 86_400.0
"""The trees of a held forest are not refreshed before all its cells are placed: each node costs one summary then."""


def ruled(settings: Settings, rules: Rules, *, held: bool = False) -> Settings:
    """The settings as a forest with these rules has them. Raises InvalidInput for an unknown or impossible rule."""
    unknown = sorted(set(rules) - set(RULES))
    if unknown:
        raise InvalidInput(f"There is no rule {unknown[0]!r:.40}: use {', '.join(RULES)}.", code="invalid_rule")
    groups: dict[str, dict[str, float]] = {"tree": {}, "reduce": {}}
    for name, value in rules.items():
        groups[RULES[name][0]][name] = value
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
    return {name: value for name, value in rules.items() if value != getattr(getattr(settings, RULES[name][0]), name)}
