"""When a scope deserves a tree: before that it is a candidate, whose members wait without leaves."""

from __future__ import annotations

from memforest_core.domain.scopes import TreeKind
from memforest_core.settings import ReduceSettings


def deserves_tree(kind: TreeKind, facts: int, sessions: int, rules: ReduceSettings, *, person: bool = False) -> bool:
    """Whether a scope of so many ``facts`` from so many ``sessions`` has a tree from now on.

    A session always has one, and so has a ``person`` (the owner or a human speaker) from the first fact; other entities
    at 3 facts from 2 sessions (artifact), scenes at 3 facts: one of one or two says no more than its facts do.
    """
    match kind:
        case TreeKind.SESSION:
            return True
        case TreeKind.ENTITY:
            enough = facts >= rules.entity_min_facts and sessions >= rules.entity_min_sessions
            return person or enough
        case TreeKind.SCENE:
            return facts >= rules.scene_min_facts
