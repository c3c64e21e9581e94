"""When two statements are one fact."""

from __future__ import annotations

from datetime import timedelta

from memforest_core.domain.facts import Change, Statement
from memforest_core.domain.ids import FactId, ForestId, fact_id
from memforest_core.domain.text import normalize_name, normalize_statement, numbers
from memforest_core.domain.times import Precision, TimeSpan


def identity_span(statement: Statement) -> TimeSpan:
    """The interval that is part of a fact's identity.

    The event's own where one was resolved. An undated event happened around the day it was told (Monday's gym is not
    Tuesday's); an undated state has none, so that it is the same fact whenever it is repeated.
    """
    if statement.time.known:
        return statement.time
    if statement.attribute and statement.change is Change.NONE:
        return statement.time
    day = statement.mentioned_at.replace(hour=0, minute=0, second=0, microsecond=0)
    return TimeSpan(day, day + timedelta(days=1), Precision.DAY)


def identify(forest: ForestId, statement: Statement) -> tuple[FactId, str]:
    """The canonical fact's id and the normalized text behind it."""
    normalized = normalize_statement(statement.text)
    span = identity_span(statement)
    ends = [moment.isoformat() if moment else "" for moment in (span.start, span.end)]
    return fact_id(forest, normalized, ends[0], ends[1]), normalized


def mergeable(one: Statement, other: Statement) -> bool:
    """Whether two statements of nearly the same wording may be one fact: nothing that matters differs."""
    if identity_span(one) != identity_span(other):
        return False
    if (one.polarity, one.modality, one.verbatim) != (other.polarity, other.modality, other.verbatim):
        return False
    if one.attribute != other.attribute or one.change is not other.change:
        return False
    for left, right in ((one.subject, other.subject), (one.value, other.value), (one.speaker, other.speaker)):
        if normalize_name(left) != normalize_name(right):
            return False
    if {normalize_name(name) for name in one.entities} != {normalize_name(name) for name in other.entities}:
        return False
    return numbers(one.text) == numbers(other.text)
