"""A correction: the fact, where it was said, and what it says from then on: its sentence, value, time and names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from memforest_core.domain.facts import Source, Statement
from memforest_core.domain.ids import CellId, FactId
from memforest_core.domain.pages import plain
from memforest_core.domain.rendering import one_line
from memforest_core.domain.text import clean, normalize_name
from memforest_core.domain.times import Precision, TimeSpan
from memforest_core.domain.turns import parse_timestamp
from memforest_core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time that a fact was said: the cell, the turns in it, the quote."""

    cell_id: CellId
    turn_ordinals: tuple[int, ...]
    quote: str


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact to correct, with where it was said."""

    id: FactId
    statement: Statement
    sources: tuple[Occurrence, ...]
    superseded_by: FactId | None
    busy: bool
    """A cell that says it is being extracted, or was given up: what it says is not settled."""


@dataclass(frozen=True, slots=True)
class PinnedTurn:
    """A turn that no policy takes, by the caller's ids."""

    session_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class Pins:
    """What no policy takes from an owner's memory: sessions by the caller's ids, turns, and facts."""

    sessions: tuple[str, ...]
    turns: tuple[PinnedTurn, ...]
    facts: tuple[FactId, ...]

    def to_dict(self) -> dict[str, Any]:
        """The pins as JSON values, by the names of the fields."""
        made: dict[str, Any] = plain(self)
        return made


MAX_TEXT = 2_000
"""Characters of a sentence, as many as extraction stores."""

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")


def corrected(
    old: Statement,
    zone: ZoneInfo,
    *,
    text: str | None = None,
    value: str | None = None,
    start: object | None = None,
    end: object | None = None,
) -> Statement:
    """The statement with what is given in place of what it said; what it does to its state stays.

    A value alone changes the sentence that contains the old value. A sentence alone changes the value to what
    is in its place, or to none when that is unknown. Naive times are read in ``zone``. Raises
    InvalidInput.
    """
    if text is None and value is None and start is None and end is None:
        raise InvalidInput("Say what is to change: text, start, end or value.", code="nothing_to_correct")
    text = None if text is None else _checked(text, "text")
    value = None if value is None else _checked(value, "value")
    if value is not None and not old.attribute:
        raise InvalidInput("This fact sets no value: give text instead.", code="no_value")
    if text is None:
        text = old.text if value is None else _with_value(old, value)
    elif value is None:
        value = _value_in(old, text)
    value = old.value if value is None else value
    return replace(
        old,
        text=text,
        value=value,
        time=corrected_time(old.time, start, end, zone),
        entities=_entities(old, text, value),
        # It points to no turn any more: no turn says so.
        verbatim=False,
        source=Source.PERSON,
    )


def _checked(given: object, what: str) -> str:
    if not isinstance(given, str) or not (text := one_line(clean(given))):
        raise InvalidInput(f"{what} must be a non-empty string.", code=f"invalid_{what}")
    if len(text) > MAX_TEXT:
        raise InvalidInput(f"{what} must have at most {MAX_TEXT:,} characters.", code=f"invalid_{what}")
    return text


def _with_value(old: Statement, value: str) -> str:
    """The sentence with another value in it."""
    if not old.value or not _contains(old.text, old.value):
        raise InvalidInput("The old value does not stand in the fact's sentence: give text too.", code="no_value")
    return _word(old.value).sub(lambda _: value, old.text)


def _value_in(old: Statement, text: str) -> str | None:
    """The value in a new sentence: the old one, what is in its place, or an empty one; None without an old one."""
    if not old.value or _contains(text, old.value):
        return None
    found = _word(old.value).search(old.text)
    if found is None:
        return ""
    before, after = old.text[: found.start()], old.text[found.end() :]
    inside = len(text) > len(before) + len(after) and text.startswith(before) and text.endswith(after)
    return text[len(before) : len(text) - len(after)].strip() if inside else ""


def _entities(old: Statement, text: str, value: str) -> tuple[str, ...]:
    """The names that are still meant: those that the old sentence named and the new one does not are gone."""
    names = [name for name in old.entities if _contains(text, name) or not _contains(old.text, name)]
    if value and normalize_name(old.value) in {normalize_name(name) for name in old.entities}:
        names.append(value)
    return tuple(dict.fromkeys(names))


def _contains(text: str, words: str) -> bool:
    return _word(words).search(text) is not None


def _word(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)", re.IGNORECASE)


def corrected_time(old: TimeSpan, start: object | None, end: object | None, zone: ZoneInfo) -> TimeSpan:
    """The span from ``start`` to the end of ``end``, as coarse as the coarser of both.

    A start alone is all of its day, month or year, or a moment; an end alone ends the old span. Each is ISO text (a
    date may lack its day or month), a datetime or unix seconds; naive ones are read in ``zone``. Raises InvalidInput.
    """
    if start is None and end is None:
        return old
    first = old if start is None else _span(start, zone, "start")
    if end is None:
        return first
    last = _span(end, zone, "end")
    if first.start is None or last.end is None:
        raise InvalidInput("It is not known when this began: give start too.", code="missing_start")
    if last.end < first.start:
        raise InvalidInput("Set end to a time that is not before start.", code="invalid_range")
    return TimeSpan(first.start, last.end, min(first.precision, last.precision, key=list(Precision).index))


def _span(given: object, zone: ZoneInfo, where: str) -> TimeSpan:
    """The whole day, month or year that a date names, or one moment."""
    date = _DATE.fullmatch(given.strip()) if isinstance(given, str) else None
    if date is None:
        moment = parse_timestamp(given, zone, where)
        return TimeSpan(moment, moment, Precision.MINUTE)
    year, month, day = date.groups()
    first = parse_timestamp(f"{year}-{month or '01'}-{day or '01'}", zone, where)
    local = first.astimezone(zone).replace(fold=0)
    if day is not None:
        after, precision = local + timedelta(days=1), Precision.DAY
    elif month is not None:
        after, precision = (local + timedelta(days=31)).replace(day=1), Precision.MONTH
    else:
        after, precision = local.replace(year=local.year + 1), Precision.YEAR
    # Days of another length included: the local midnight, not so many hours later.
    return TimeSpan(first, parse_timestamp(after, zone, where), precision)
