"""When a scope deserves a tree: before that it is a candidate, whose members wait without leaves."""

from __future__ import annotations

from dataclasses import dataclass

from memforest_core.domain.scopes import TreeKind
from memforest_core.settings import ReduceSettings


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a scope: how many facts, from how many sessions."""

    facts: int = 0
    sessions: int = 0


NOTHING = Evidence()
"""That of a scope without members."""


def deserves_tree(kind: TreeKind, evidence: Evidence, rules: ReduceSettings, *, person: bool = False) -> bool:
    """Whether a scope has a tree from now on.

    A session always has one, and so has a ``person`` (the owner or a human speaker) from the first fact; other entities
    at 3 facts from 2 sessions (artifact), scenes at 3 facts: one of one or two says no more than its facts do.
    """
    match kind:
        case TreeKind.SESSION:
            return True
        case TreeKind.ENTITY:
            enough = evidence.facts >= rules.entity_min_facts and evidence.sessions >= rules.entity_min_sessions
            return person or enough
        case TreeKind.SCENE:
            return evidence.facts >= rules.scene_min_facts
