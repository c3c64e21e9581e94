"""Entity scopes of a fact: the owner, the speakers, and whom or what it names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from memforest_core.domain.facts import Origin, Statement
from memforest_core.domain.mentions import found_in
from memforest_core.domain.people import KnownPerson, People, called
from memforest_core.domain.text import normalize_name

MAX_ENTITIES = 8
"""The most scopes that one fact joins; a list of twenty names is not about each of them."""


@dataclass(frozen=True, slots=True)
class EntityScope:
    """An entity a fact is about. ``person`` marks the owner and human speakers, whose trees exist at once."""

    key: str
    label: str
    person: KnownPerson | None = None


def subject_of(name: str, people: People, teller: KnownPerson | None = None) -> KnownPerson | None:
    """The speaker whom the name of a fact's subject means: a name of ``teller``, who said it, means the teller."""
    if teller is not None and called(name, teller):
        return teller
    return people.who(name)


def subject_key(statement: Statement, people: People, teller: KnownPerson | None = None) -> str:
    """Under which key a fact's states are found: that of the speaker it is about, else the normalized name."""
    person = subject_of(statement.subject, people, teller)
    return normalize_name(statement.subject) if person is None else person.key


def entity_scopes(statement: Statement, people: People, teller: KnownPerson | None = None) -> tuple[EntityScope, ...]:
    """The entity scopes of a statement, the subject first; ``teller`` is the speaker who said it, if that is known.

    All names of a speaker lead to one scope under the speaker's id. The owner's takes all that is about the owner:
    also what names the owner, and what the owner says of no other speaker.
    """
    scopes: dict[str, EntityScope] = {}
    for name in (statement.subject, *statement.entities):
        person, key = subject_of(name, people, teller), normalize_name(name)
        if person is not None:
            scopes.setdefault(person.key, scope_of(person))
        elif key:
            scopes.setdefault(key, EntityScope(key, name))
    found = list(scopes.values())[:MAX_ENTITIES]
    own = scope_of(people.owner)
    if own not in found and _about_owner(statement, found, people, teller):
        found = [*found[: MAX_ENTITIES - 1], own]
    return tuple(found)


def scope_of(person: KnownPerson) -> EntityScope:
    """The scope of a speaker."""
    return EntityScope(person.key, person.name, person)


def continued(person: KnownPerson, stored: Mapping[str, int]) -> str:
    """The key of the tree that a speaker's facts go on in.

    The one under the id; where there is none the largest of those under the names, which is from before the id was
    known. ``stored`` are the keys of the trees that there are, with their sizes.
    """
    own = frozenset() if person.owner else person.keys & stored.keys()
    if person.key in own or not own:
        return person.key
    return min(own, key=lambda key: (-stored[key], key))


def _about_owner(
    statement: Statement, found: Collection[EntityScope], people: People, teller: KnownPerson | None
) -> bool:
    if any(one.person.owner for one in found_in(statement.text, people)):
        return True
    speaker = teller or people.who(statement.speaker)
    by_owner = speaker is not None and speaker.owner and statement.origin is Origin.USER
    return by_owner and all(scope.person is None for scope in found)
