"""From facts to the states they tell: chains of (subject, attribute), each read by the rules of what holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memforest_core.domain.chain import ChainState, states_of, wrong_states
from memforest_core.domain.holding import Mention, Said, StoredState, placed
from memforest_core.domain.ids import FactId
from memforest_core.domain.state_names import canonical
from memforest_core.recall.rows.timeline import TimelineRows
from memforest_core.recall.timeline.names import Speakers

MAX_MENTIONS = 256
"""Mentions of one fact that are read: the first and the last ones."""

Chain = tuple[str, str]
"""One key for all names of a subject, and the attribute's own name."""


def chains_of(
    rows: TimelineRows, facts: Sequence[StoredState], speakers: Speakers, as_of: datetime | None
) -> tuple[dict[Chain, list[ChainState]], list[ChainState]]:
    """The states of each chain, each chain in the order of time, and the states that were corrected.

    Nothing that was said after ``as_of`` counts. Raises StoreUnavailable.
    """
    said: dict[FactId, list[Mention]] = defaultdict(list)
    for mention in rows.mentions([fact.id for fact in facts], as_of, MAX_MENTIONS):
        said[mention.fact_id].append(mention)
    chains: dict[Chain, list[Said]] = defaultdict(list)
    wrong: list[list[Said]] = []
    redated = _redated(facts)
    for fact in facts:
        stands = placed(replace(fact, redated=True) if fact.id in redated else fact, said[fact.id])
        if _known_wrong(fact, as_of):
            wrong.append(stands)
        else:
            chains[speakers.person(fact.subject_key), canonical(fact.attribute)].extend(stands)
    found = {chain: states_of(chain[1], each) for chain, each in chains.items()}
    return found, wrong_states(wrong, [state for states in found.values() for state in states])


def _redated(facts: Sequence[StoredState]) -> set[FactId]:
    """Facts that stand for one of another time."""
    times = {fact.id: fact.statement.time for fact in facts}
    return {
        fact.superseded_by
        for fact in facts
        if fact.superseded_by in times and times[fact.superseded_by] != fact.statement.time
    }


def _known_wrong(fact: StoredState, as_of: datetime | None) -> bool:
    """Whether it had been corrected by then."""
    return fact.superseded_at is not None and (as_of is None or fact.superseded_at <= as_of)
