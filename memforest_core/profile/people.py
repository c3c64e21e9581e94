"""Whom a name means in a memory: its owner, somebody who speaks in it, or anybody else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memforest_core.domain.text import normalize_name
from memforest_core.domain.turns import checked_name
from memforest_core.store.owners import ForestRef


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody a note or a profile is about."""

    id: str
    """A speaker's id; of somebody who does not speak here the name."""
    name: str
    keys: frozenset[str]
    """All names, normalized."""
    owner: bool = False


def person_named(
    owner: str, forest: ForestRef | None, speakers: Iterable[tuple[str, str]], about: str | None
) -> Person:
    """Whom ``about`` (an id or a name; None is the owner) means. Raises InvalidInput for a name that is none."""
    known = list(speakers)
    called = (forest.display_name if forest is not None else None) or owner
    own = _keys(owner, called, *(name for speaker, name in known if speaker == owner))
    if about is None:
        return Person(owner, called, own, owner=True)
    about = checked_name(about, "about")
    key = normalize_name(about)
    if about == owner or key in own:
        return Person(owner, called, own, owner=True)
    for speaker, name in known:
        if about == speaker or (key and key in (normalize_name(speaker), normalize_name(name))):
            names = [other for id_, other in known if id_ == speaker]
            return Person(speaker, name, _keys(speaker, *names))
    return Person(about, about, _keys(about))


def _keys(*names: str) -> frozenset[str]:
    return frozenset({normalize_name(name) for name in names} - {""})
