"""From facts to the states that they say: chains of (subject, attribute), and the speakers that a name may mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from memforest_core.domain.chain import ChainState, states_of, wrong_states
from memforest_core.domain.ids import FactId, TreeId
from memforest_core.domain.people import People
from memforest_core.domain.state_names import canonical
from memforest_core.domain.state_order import Mention, Said, StoredState, placed
from memforest_core.domain.text import normalize_name
from memforest_core.errors import InvalidInput
from memforest_core.recall.rows.timeline import TimelineRows
from memforest_core.recall.timeline.states import KnownChain

MAX_NAMED = 10
"""Names that an error lists."""
MAX_MENTIONS = 256
"""Mentions of one fact that are read: the first and the last ones."""

Chain = tuple[str, str]
"""One key for all names of a subject, and the attribute's own name."""


class Speakers:
    """Everybody who has spoken, under all names; ``owner_keys`` are the owner's (normalized)."""

    def __init__(self, owner: str, speakers: Iterable[tuple[str, str]]) -> None:
        self.people = People(owner, speakers)
        self.owner_keys: frozenset[str] = self.people.owner.keys

    def person(self, key: str) -> str:
        """One key for all names of a speaker; any other name is its own."""
        if key in self.owner_keys:
            return self.people.owner.key
        person = self.people.by_key(key)
        return key if person is None else person.key

    def keys(self, name: str) -> frozenset[str]:
        """The normalized names of whom or what is called so; a nickname or a mention means a speaker too."""
        person = self.people.who(name)
        return frozenset({normalize_name(name)}) if person is None else person.keys

    def named(self, words: str) -> frozenset[str]:
        """As ``keys``, for words of a question in lower case: a name or an id in full."""
        key = normalize_name(words)
        if key in self.owner_keys:
            return self.owner_keys
        person = self.people.by_key(key)
        return frozenset({key}) if person is None else person.keys


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


def chains_of(
    rows: TimelineRows, facts: Sequence[StoredState], speakers: Speakers, as_of: datetime | None
) -> tuple[dict[Chain, list[ChainState]], list[ChainState]]:
    """The states of each chain, each chain in the order of time, and the states that were corrected.

    Nothing that was said after ``as_of`` counts; plans count that were due by then, or by now. Raises StoreUnavailable.
    """
    now = datetime.now(UTC) if as_of is None else as_of
    said: dict[FactId, list[Mention]] = defaultdict(list)
    for mention in rows.mentions([fact.id for fact in facts], as_of, MAX_MENTIONS):
        said[mention.fact_id].append(mention)
    chains: dict[Chain, list[Said]] = defaultdict(list)
    wrong: list[list[Said]] = []
    redated = _redated(facts)
    for fact in facts:
        said_facts = placed(replace(fact, redated=True) if fact.id in redated else fact, said[fact.id])
        if _known_wrong(fact, as_of):
            wrong.append(said_facts)
        else:
            chains[speakers.person(fact.subject_key), canonical(fact.attribute)].extend(said_facts)
    found = {chain: states_of(chain[1], each, now) for chain, each in chains.items()}
    return found, wrong_states(wrong, [state for states in found.values() for state in states])


def _redated(facts: Sequence[StoredState]) -> set[FactId]:
    """Facts that replace one of another time."""
    times = {fact.id: fact.statement.time for fact in facts}
    return {
        fact.superseded_by
        for fact in facts
        if fact.superseded_by in times and times[fact.superseded_by] != fact.statement.time
    }


def _known_wrong(fact: StoredState, as_of: datetime | None) -> bool:
    """Whether it had been corrected by then."""
    return fact.superseded_at is not None and (as_of is None or fact.superseded_at <= as_of)
