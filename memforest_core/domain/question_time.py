"""The time words of a question, as the period that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from memforest_core.domain.dates import MAX_PHRASE_CHARS, find_date_phrases, resolve
from memforest_core.domain.periods import COUNT, HOLIDAYS, MONTH, UNIT, VAGUE, WEEKDAY, YEAR, count

MAX_CHARS = 8_192
"""Only the beginning of a longer text is read."""

_INSTANT = timedelta(microseconds=1)
_HALF_YEAR = timedelta(days=182)
_FARTHEST = timedelta(days=36_525)
_NEAR_CHARS = 40
"""How far before a date the words are that belong to it."""
_UNIT_DAYS = {"hour": 1, "day": 1, "night": 1, "week": 7, "weekend": 7, "fortnight": 14, "month": 31, "year": 366}
_UNIT_DAYS |= {"decade": 3653}
_SLACK_DAYS = {"day": 1, "night": 1, "week": 3, "fortnight": 3, "month": 7, "year": 31, "decade": 366}
"""How many days before and after the one that is counted may be meant: "three weeks before" is seldom to the day."""
_NEXT_DAYS = 2
"""Up to so many days off, all of them from the date on are meant."""


@dataclass(frozen=True, slots=True)
class NamedPeriod:
    """The time a question names, in UTC: from ``first`` to ``last``, both in it; None is an open end."""

    first: datetime | None
    last: datetime | None
    explicit: bool
    """An absolute date was given with a word that limits to it ("since 2021"); anything else is rather a hint."""
    phrase: str
    """The words that name it, as they stand in the question."""


class _Found(NamedTuple):
    """A part of the question that names a time, as a range in UTC."""

    start: int
    end: int
    first: datetime | None
    last: datetime | None
    explicit: bool


class _Phrase(NamedTuple):
    start: int
    end: int


class _Clock(NamedTuple):
    """The timestamp of the question, what open dates are counted from, and whether they lie ahead."""

    now: datetime
    known: datetime
    ahead: bool


_AHEAD = re.compile(
    r"\b(?:will|won't|going\s+to|gonna|upcoming|coming\s+up|plan(?:s|ning)?\s+(?:to|for|on)|planned|scheduled)\b|'ll\b",
    re.I,
)
_BACK = re.compile(r"\b(?:did|didn't|was|were|had)\b", re.I)
_LATELY = re.compile(
    rf"(?<![\w-])(?:(?:in|over|during|within|for)\s+)?(?:the\s+|these\s+)?(?:last|past)\s+(?:few|couple(?:\s+of)?|several|{COUNT})"
    r"\s+(?:day|night|week|month|year)s?(?!\w)",
    re.I,
)
_RELATIVE = re.compile(
    r"\b(?:last|next|this|past|ago|yesterday|today|tonight|tomorrow|previous|coming|upcoming|following|earlier|other)\b"
    r"|weekend\b",
    re.I,
)
_HAS_YEAR = re.compile(rf"(?<![\d.,/]){YEAR}(?!\d)")
_OF_A_DAY = re.compile(
    rf"\b{MONTH}\s+(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{MONTH}(?!\w)", re.I
)
_LIMIT = re.compile(
    r"(?:back\s+)?(?P<word>before|prior\s+to|after|since|until|till|by|between|from|in|on|during|over|at|around|of|for)\b",
    re.I,
)
_LIMIT_AHEAD = re.compile(r"\b(?P<word>prior\s+to|before|after|since|until|till|by|between|from)\s+(?:the\s+)?$", re.I)
_LIMITING = frozenset(
    {"between", "from", "in", "on", "at", "during", "before", "prior to", "until", "till", "by", "after", "since"}
)
_JOIN = re.compile(r"\s*(?:,?\s+(?:and|to|until|till|through|up\s+to)\s+|[-–]\s*)(?:the\s+)?", re.I)
_YEAR_BEHIND = re.compile(rf",?\s*(?:of\s+)?{YEAR}(?![,.]?\d|%|\w)")
_DAY_AND_YEAR_BEHIND = re.compile(
    rf"(?:\s+(?:the\s+)?[0-3]?\d(?:st|nd|rd|th)?(?![\w:/]))?(?:{_YEAR_BEHIND.pattern})?", re.I
)
_MONTH_NAME = re.compile(rf"\b{MONTH}(?!\w)", re.I)
_DAY_AHEAD = re.compile(
    r"\b(?:from|between)\s+(?:the\s+)?(?P<day>[0-3]?\d(?:st|nd|rd|th)?)\s+(?:to|and|until|till|through)\s+(?:the\s+)?$",
    re.I,
)
_DAY_BEHIND = re.compile(
    r"\s+(?:to|and|until|till|through)\s+(?:the\s+)?(?P<day>[0-3]?\d(?:st|nd|rd|th)?)(?![\w:/])", re.I
)
_ONWARDS = re.compile(r"\s+on(?:wards?)?\b(?!\s+(?:the|a|\d))", re.I)
_DISTANCE = re.compile(
    rf"(?:\b(?P<within>within|during|over|in|throughout)\s+)?(?P<the>\bthe\s+)?(?:(?:\b(?P<n>{COUNT})\s+)|(?<=the\s))"
    rf"(?P<u>{UNIT}|weekend)s?\s+$",
    re.I,
)
_OF_EVENT = re.compile(
    r"\b(?P<word>before|after|prior\s+to)\s+(?:(?:the|my|our|your|his|her|its|their)|[^\W\d_]+['\u2019]s)\s+(?:[^\W\d_][\w'-]*\s+){1,4}$",
    re.I,
)
"""Words before the date of an event that is counted from: "two weeks after her birthday on 3 June"."""
_BARE_NAME = re.compile(rf"(?:the\s+)?(?:{WEEKDAY}|{'|'.join(re.escape(name) for name in HOLIDAYS)})(?:\s+\w+)?", re.I)


_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
"""Any timestamp: whether words are a date does not depend on it."""


def named_period(question: str, asked_at: datetime, *, known_until: datetime | None = None) -> NamedPeriod | None:
    """The time that a question's words name, or None when it names none.

    ``asked_at`` is aware and in the asker's zone, whose days count. A date without a year is the last one: before
    ``asked_at``, or before ``known_until`` (the end of what is stored) where that is earlier; it is the next one in a
    question about what is to come. Several dates make one range. Raises ValueError for a naive time, on no text.
    """
    if asked_at.tzinfo is None:
        raise ValueError("asked_at is an aware datetime")
    text = _straight(question)
    found = list(_times_in(text, _clock(text, asked_at, known_until)))
    if not found:
        return None
    bounded = [each for each in found if each.first is not None and each.last is not None]
    found = bounded or found
    firsts = [each.first for each in found if each.first is not None]
    lasts = [each.last for each in found if each.last is not None]
    first = (min if bounded else max)(firsts, default=None)
    last = (max if bounded else min)(lasts, default=None)
    if first is not None and last is not None and last < first:
        return None
    phrase = ", ".join(text[each.start : each.end].strip() for each in found)
    return NamedPeriod(first, last, all(each.explicit for each in found), phrase)


@lru_cache(maxsize=1_024)
def without_dates(question: str) -> str:
    """The beginning of a question with blanks for its dates and plain apostrophes, each character at its place."""
    text = _straight(question)
    for found in _times_in(text, _clock(text, _ANY_MOMENT, None)):
        text = text[: found.start] + " " * (found.end - found.start) + text[found.end :]
    return text


def _straight(question: str) -> str:
    """The text with plain apostrophes, each character at its place."""
    return question[:MAX_CHARS].replace("’", "'").replace("‘", "'")


def _clock(text: str, asked_at: datetime, known_until: datetime | None) -> _Clock:
    known = asked_at
    if known_until is not None and known_until < asked_at:
        known = known_until.astimezone(asked_at.tzinfo)
    return _Clock(asked_at, known, _AHEAD.search(text) is not None and _BACK.search(text) is None)


def _times_in(text: str, clock: _Clock) -> Iterator[_Found]:
    """The times a text names, in order: single dates, and two that make a range."""
    phrases = [part for part in _phrases(text) if _dates(text, part, clock)]
    at = 0
    while at < len(phrases):
        joined = _joined(text, phrases[at : at + 2], clock)
        if joined is not None:
            yield joined
            at += 2
            continue
        named = _two_days(text, phrases[at], clock) or _named(text, phrases[at], clock)
        if named is not None:
            yield named
        at += 1


def _phrases(text: str) -> list[_Phrase]:
    """Where date phrases stand, without overlaps."""
    phrases = [_Phrase(*found.span()) for found in _LATELY.finditer(text)]
    at = 0
    for phrase in find_date_phrases(text):
        start = text.find(phrase, at)
        if start < 0:
            continue
        at = start + len(phrase)
        if not _HAS_YEAR.search(phrase) and _MONTH_NAME.search(phrase):
            # A second preposition hides the rest of "for in July 2022" and "of May 3".
            rest = (_YEAR_BEHIND if any(map(str.isdigit, phrase)) else _DAY_AND_YEAR_BEHIND).match(text, at)
            at = rest.end() if rest else at
        if not any(start < part.end and part.start < at for part in phrases):
            phrases.append(_Phrase(start, at))
    return sorted(phrases)


def _dates(text: str, part: _Phrase, clock: _Clock) -> bool:
    """Whether a part that looks like a date is one in a question: no duration, and no name such as "Super Sunday"."""
    phrase, rest = text[part.start : part.end], text[part.end :]
    if re.match(rf"(?:within\s+)?in\s+(?:about\s+)?(?:{COUNT}|{VAGUE})\s", phrase, re.I):
        return clock.ahead
    if _BARE_NAME.fullmatch(phrase):
        before = text[: part.start].split()
        named_after = bool(before) and before[-1][:1].isupper() and len(before) > 1
        return not named_after and re.fullmatch(r"\s*[?.!,;)]*\s*", rest) is not None
    return True


def _resolved(phrase: str, clock: _Clock) -> tuple[datetime, datetime] | None:
    """The first and last moment of a phrase, in UTC; read on a clock without a zone, so that the asker's may be of any
    kind."""
    relative = _RELATIVE.search(phrase) is not None
    said_at = clock.now if relative or clock.ahead else clock.known
    if not relative and not clock.ahead and _OF_A_DAY.search(phrase) and not _HAS_YEAR.search(phrase):
        # Such a day is read as the nearest one; the nearest to half a year ago is the last one.
        said_at = _shifted(said_at, -_HALF_YEAR)
    span = resolve(phrase.replace(",", ", "), said_at.replace(tzinfo=UTC), "UTC", (), future=clock.ahead or None)
    if span.start is None or span.end is None:
        return None
    zone = clock.now.tzinfo
    try:
        first = span.start.replace(tzinfo=zone).astimezone(UTC)
        last = span.end.replace(tzinfo=zone).astimezone(UTC)
    except (OverflowError, ValueError):
        return None
    return first, max(first, last - _INSTANT)


def _shifted(moment: datetime, by: timedelta) -> datetime:
    try:
        return moment + by
    except OverflowError:
        return moment


def _joined(text: str, pair: list[_Phrase], clock: _Clock) -> _Found | None:
    """Two dates as one range: "between ... and ...", "from ... to ..."."""
    if len(pair) < 2 or not _JOIN.fullmatch(text, pair[0].end, pair[1].start):
        return None
    start = _range_start(text, pair[0])
    phrase = "" if start is None else text[start : pair[1].end]
    if start is None or len(phrase) > MAX_PHRASE_CHARS:
        return None
    dated = _OF_A_DAY.search(phrase) or _HAS_YEAR.search(phrase) or _MONTH_NAME.search(phrase)
    ends = (_resolved(phrase, clock) if dated else None) or _between(text, pair, clock)
    return None if ends is None else _Found(start, pair[1].end, *ends, _absolute(phrase))


def _ahead(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """What a pattern finds right before a place."""
    return pattern.search(text, max(0, start - _NEAR_CHARS), start)


def _range_start(text: str, part: _Phrase) -> int | None:
    """The position of the "between" or "from" of a date, if it has one."""
    for limit in (_LIMIT.match(text, part.start), _ahead(_LIMIT_AHEAD, text, part.start)):
        if limit is not None and limit["word"].casefold() in {"between", "from"}:
            return limit.start()
    return None


def _between(text: str, pair: list[_Phrase], clock: _Clock) -> tuple[datetime, datetime] | None:
    """From one date to another; when the first would come after the second, it is the last one before that."""
    one, other = (text[part.start : part.end] for part in pair)
    ending = _resolved(other, clock)
    if ending is None:
        return None
    beginning = _resolved(one, clock)
    if beginning is not None and ending[1] < beginning[0]:
        beginning = _resolved(one, clock._replace(now=ending[0].astimezone(clock.now.tzinfo), known=ending[0]))
    if beginning is None or ending[1] < beginning[0]:
        return None
    return beginning[0], ending[1]


def _two_days(text: str, part: _Phrase, clock: _Clock) -> _Found | None:
    """Two days of one month: "from 3 to 5 May", "between May 3 and 5"."""
    phrase = text[part.start : part.end]
    ahead, behind = _ahead(_DAY_AHEAD, text, part.start), _DAY_BEHIND.match(text, part.end)
    if not _OF_A_DAY.search(phrase):
        return None
    if ahead is not None:
        ends = _resolved(f"{ahead['day']} to {phrase}", clock)
        return None if ends is None else _Found(ahead.start(), part.end, *ends, True)
    start = _range_start(text, part)
    if behind is None or start is None:
        return None
    ends = _resolved(f"{_LIMIT.sub('', phrase, count=1).strip()} to {behind['day']}", clock)
    return None if ends is None else _Found(start, behind.end(), *ends, True)


def _counted(text: str, start: int, end: int, word: str, first: datetime, last: datetime) -> _Found | None:
    """What is counted from a date, or from an event with its date: "three weeks before 20 May" is about 29 April, "the
    week before 20 May" and "in the three weeks before 20 May" all days in between. None when nothing is counted.
    """
    if word not in {"before", "prior to", "after"}:
        event = _ahead(_OF_EVENT, text, start) if word in {"", "on", "in", "at"} else None
        if event is None:
            return None
        start, word = event.start(), " ".join(event["word"].casefold().split())
    distance = _ahead(_DISTANCE, text, start)
    if distance is None:
        return None
    unit, number = distance["u"].casefold(), count((distance["n"] or "a").casefold())
    offset = timedelta(days=_UNIT_DAYS[unit] * number)
    if offset > _FARTHEST:
        return None
    between = (
        (_shifted(first, -offset), first - _INSTANT) if word != "after" else (last + _INSTANT, _shifted(last, offset))
    )
    day = timedelta(days=_SLACK_DAYS.get(unit, 0))
    near = offset <= timedelta(days=_NEXT_DAYS) or not day
    if not distance["n"] or distance["the"] or distance["within"] or near:
        return _Found(distance.start(), end, *between, False)
    middle = between[0] if word != "after" else between[1] - timedelta(days=1) + _INSTANT
    return _Found(
        distance.start(), end, _shifted(middle, -day), _shifted(middle, timedelta(days=1) + day) - _INSTANT, False
    )


def _absolute(phrase: str) -> bool:
    """Whether a phrase says a year or a day of a month, at any timestamp of the question."""
    return _RELATIVE.search(phrase) is None and (_HAS_YEAR.search(phrase) or _OF_A_DAY.search(phrase)) is not None


def _named(text: str, part: _Phrase, clock: _Clock) -> _Found | None:
    """One date with the word that limits to it, if there is one."""
    start, phrase = part.start, text[part.start : part.end]
    limit, bare = _LIMIT.match(phrase), phrase
    if limit is None:
        limit = _ahead(_LIMIT_AHEAD, text, start)
        start = limit.start() if limit else start
    elif limit["word"].casefold() in {"before", "after"}:
        bare = phrase[limit.end() :].strip()
    word = " ".join(limit["word"].casefold().split()) if limit else ""
    ends = _resolved(bare, clock)
    if ends is None:
        return None
    (first, last), end = ends, part.end
    if word == "from" and (onwards := _ONWARDS.match(text, end)):
        word, end = "since", onwards.end()
    explicit = _absolute(bare) and word in _LIMITING
    counted = _counted(text, start, end, word, first, last)
    if counted is not None:
        return counted
    match word:
        case "since":
            return _Found(start, end, first, None, explicit)
        case "after":
            return _Found(start, end, last + _INSTANT, None, explicit)
        case "before" | "prior to":
            return _Found(start, end, None, first - _INSTANT, explicit)
        case "until" | "till" | "by":
            return _Found(start, end, None, last, explicit)
        case _:
            return _Found(start, end, first, last, explicit)
