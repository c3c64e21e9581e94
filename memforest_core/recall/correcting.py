"""What stands for what turns say wrongly: corrections are followed, also those of corrections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from uuid import UUID

from memforest_core.domain.evidence import day_label
from memforest_core.domain.ids import FactId, ForestId
from memforest_core.recall.records import FactText, RecallRows

LONGEST = 8
"""Corrections of corrections that are followed."""


def facts_with_successors(
    rows: RecallRows, forest: ForestId, ids: Iterable[UUID], until: datetime | None
) -> dict[UUID, FactText]:
    """These facts, and those that stand for the ones among them that are known by ``until`` to be wrong."""
    found: dict[UUID, FactText] = {}
    missing: list[UUID] = list(dict.fromkeys(ids))
    for _ in range(LONGEST):
        if not missing:
            break
        read = rows.facts(forest, missing, until)
        found |= {fact.id: fact for fact in read}
        missing = [fact.superseded_by for fact in read if fact.superseded_by and fact.superseded_by not in found]
    return found


def standing(corrections: Sequence[FactId], facts: Mapping[UUID, FactText]) -> Iterator[FactText]:
    """The facts at the ends of these corrections, each once; one that is not placed yet is not among them."""
    seen: set[UUID] = set()
    for right in corrections:
        fact = facts.get(right)
        while fact is not None and fact.superseded_by is not None and fact.id not in seen:
            seen.add(fact.id)
            fact = facts.get(fact.superseded_by)
        if fact is not None and fact.id not in seen:
            seen.add(fact.id)
            yield fact


def dated_text(fact: FactText, zone: tzinfo) -> str:
    """A sentence with its day: what was corrected may be the day."""
    return f"{fact.text} ({day_label(fact.time, zone)})" if fact.time.known else fact.text
