"""When two statements are one fact."""

from __future__ import annotations

from datetime import timedelta

from memforest_core.domain.facts import Change, Statement
from memforest_core.domain.ids import FactId, ForestId, fact_id
from memforest_core.domain.text import normalize_name, normalize_statement
from memforest_core.domain.times import Precision, TimeSpan
from memforest_core.domain.wording import same_wording


def identity_span(statement: Statement) -> TimeSpan:
    """The interval that is part of a fact's identity.

    The event's own where one was resolved. An undated event happened around the day of its turn (Monday's gym is not
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
    """Whether two statements are one fact: they say the same of the same, at the same time."""
    if identity_span(one) != identity_span(other):
        return False
    if (one.polarity, one.modality, one.verbatim) != (other.polarity, other.modality, other.verbatim):
        return False
    if one.change is not other.change or normalize_name(one.speaker) != normalize_name(other.speaker):
        return False
    if not (_alike(one.attribute, other.attribute) and _alike(one.value, other.value)):
        return False
    if one.attribute and not _alike(one.subject, other.subject):
        return False
    mine, theirs = _names(one), _names(other)
    # Without a state a name may be left out of the list where the sentence has it, never where it has a pronoun.
    if mine != theirs and (one.attribute or not (_has(one.text, mine - theirs) and _has(other.text, theirs - mine))):
        return False
    texts = (said.text.removeprefix(f"{said.speaker} said: ") for said in (one, other))
    return same_wording(*texts)


def _alike(one: str, other: str) -> bool:
    return normalize_name(one) == normalize_name(other) or same_wording(one, other)


def _names(said: Statement) -> frozenset[str]:
    return frozenset(map(normalize_name, said.entities if said.attribute else (said.subject, *said.entities)))


def _has(text: str, names: frozenset[str]) -> bool:
    return all(f" {name} " in f" {normalize_name(text)} " for name in names if name)
