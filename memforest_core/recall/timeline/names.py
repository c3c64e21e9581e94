"""Who is meant by a name, and what to say when nothing is known by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memforest_core.domain.ids import TreeId
from memforest_core.domain.state_names import canonical
from memforest_core.domain.text import normalize_name
from memforest_core.errors import InvalidInput
from memforest_core.recall.timeline.records import KnownChain

MAX_NAMED = 10
"""Names that an error lists."""


class Speakers:
    """Everybody who has spoken, under all names; ``owner_keys`` are the owner's (normalized)."""

    def __init__(self, owner: str, speakers: Iterable[tuple[str, str]]) -> None:
        self._persons: dict[str, str] = {}
        self._keys: dict[str, set[str]] = {}
        for speaker, name in [(owner, owner), *speakers]:
            for key in (normalize_name(speaker), normalize_name(name)):
                if key:
                    person = self._persons.setdefault(key, speaker)
                    self._keys.setdefault(person, set()).add(key)
        self.owner_keys: frozenset[str] = frozenset(self._keys.get(owner, ()))

    def person(self, key: str) -> str:
        """One key for all names of a speaker; any other name is its own."""
        person = self._persons.get(key)
        return key if person is None else min(self._keys[person])

    def keys(self, name: str) -> frozenset[str]:
        """The normalized names of whom or what is called so."""
        key = normalize_name(name)
        person = self._persons.get(key)
        return frozenset({key}) if person is None else frozenset(self._keys[person])


def unknown_entity(name: str, chains: Sequence[KnownChain]) -> InvalidInput:
    """No states of such a subject."""
    known = dict.fromkeys(chain.subject for chain in chains)
    return InvalidInput(f"No states are known of {name!r:.80}. {_listed('Entities', known)}", code="unknown_entity")


def unknown_attribute(name: str, attributes: Iterable[str]) -> InvalidInput:
    """There is no such attribute among those that were looked through."""
    known = dict.fromkeys(canonical(attribute) for attribute in attributes if attribute)
    return InvalidInput(
        f"No states are known for {name!r:.80}. {_listed('Attributes', known)}", code="unknown_attribute"
    )


def unknown_scene(name: str, scenes: Sequence[tuple[TreeId, str]]) -> InvalidInput:
    """No scene has this label or id."""
    known = dict.fromkeys(label or str(tree) for tree, label in scenes)
    return InvalidInput(f"No scene is called {name!r:.80}. {_listed('Scenes', known)}", code="unknown_scene")


def _listed(what: str, names: Iterable[str]) -> str:
    known = list(names)
    if not known:
        return f"{what} appear once sessions are extracted: none are known yet."
    rest = f" and {len(known) - MAX_NAMED} more" if len(known) > MAX_NAMED else ""
    return f"{what}: {', '.join(f'{name:.80}' for name in known[:MAX_NAMED])}{rest}."
