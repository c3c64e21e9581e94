"""Entity scopes of a fact: the owner, the speakers, and whom or what it names."""

from __future__ import annotations

from dataclasses import dataclass

from memforest_core.domain.facts import Statement
from memforest_core.domain.text import normalize_name

MAX_ENTITIES = 8
"""The most scopes that one fact joins; a list of twenty names is not about each of them."""


@dataclass(frozen=True, slots=True)
class EntityScope:
    """An entity a fact is about. ``person`` marks the owner and human speakers, whose trees exist at once."""

    key: str
    label: str
    person: bool


def entity_scopes(
    statement: Statement, owner: str, owner_names: frozenset[str], people: frozenset[str]
) -> tuple[EntityScope, ...]:
    """The entity scopes of a statement, the subject first.

    ``owner_names`` and ``people`` are normalized names: what the owner is called, and every human speaker of the
    forest. All names of the owner lead to one scope under the owner's id.
    """
    scopes: dict[str, EntityScope] = {}
    for name in (statement.subject, *statement.entities):
        key = normalize_name(name)
        if not key:
            continue
        if key in owner_names:
            scope = EntityScope(normalize_name(owner) or owner, owner, True)
        else:
            scope = EntityScope(key, name, key in people)
        scopes.setdefault(scope.key, scope)
    return tuple(scopes.values())[:MAX_ENTITIES]
