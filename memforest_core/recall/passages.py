"""Turns with a value of the kind that a question wants: "35." is about what was spoken of shortly before it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from memforest_core.recall.records import TurnKey

NEAR = 12
"""A turn has its topic from the turns of its session up to so many before it, and takes back no value before these."""
FADES = 0.97
"""The part of a topic that is left with each turn. 0.93 finds a third less."""
TOPIC = 0.8
"""A topic counts from this part of the best evidence on, so that small talk hands on nothing."""
ABOUT = 0.62
"""Statements with this part of the best one's evidence are about the subject of the question."""
OF_KIND = 0.2
"""Further evidence of a value of the kind. 0.25 does the same; at 0.5 LoCoMo's questions for a date lose 3 points of
mrr, as the date of a session answers many of them."""
CORRECTED = 0.03
"""How far a value is ahead of one that it corrects."""


def behind(topics: Iterable[TurnKey]) -> set[TurnKey]:
    """The turns that may have their topic from these."""
    return {(session, ordinal + step) for session, ordinal in topics for step in range(1, NEAR + 1)}


def with_topics(
    evidence: Mapping[TurnKey, float], valued: Collection[TurnKey], correcting: Collection[TurnKey]
) -> dict[TurnKey, float]:
    """The evidence of turns with a value: their own, or a part of that of the best turn shortly before them.

    A topic ends with the next value of the kind, unless that is taken back: what is ``correcting`` goes just before the
    value that was said before it. Evidence is 1 for the best of all.
    """
    found: dict[TurnKey, float] = {}
    for session, ordinal in sorted(valued):
        topic, last = 0.0, 0.0
        for step in range(1, NEAR + 1):
            before = session, ordinal - step
            topic = max(topic, FADES**step * evidence.get(before, 0.0))
            if before in found:
                last = found[before]
                break
        own = max(evidence.get((session, ordinal), 0.0), topic if topic >= TOPIC else 0.0)
        takes_back = (session, ordinal) in correcting and last >= ABOUT
        found[session, ordinal] = max(own, last + CORRECTED) if takes_back else own
    return found
