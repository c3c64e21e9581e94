"""Which of several states a question is after: before, after or between others, the first, the last, how long."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from memforest_core.domain.asked_times import without_dates
from memforest_core.domain.words import words_of
from memforest_core.domain.words.records import OrderWords


class Order(StrEnum):
    """Which of several states, in the order of time, a question is after."""

    BEFORE = "before"
    AFTER = "after"
    BETWEEN = "between"
    FIRST = "first"
    LATEST = "latest"
    """The last one, which holds now."""
    DURATION = "duration"
    """How long one lasted, or how long lies between two."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class AskedOrder:
    """What a question asks for in the order of time, and the words that name the states it starts from.

    Without an ``anchor``, BEFORE and AFTER are meant from the state that holds now. ``other`` is the second of two.
    """

    order: Order
    anchor: str = ""
    other: str = ""


NO_ORDER = AskedOrder(Order.NONE)


@lru_cache(maxsize=1_024)
def order_of(question: str) -> AskedOrder:
    """What a question asks for in the order of time; dates are ``asked_period``'s and no anchors. Raises nothing.

    "Where did I live before Miami?" is BEFORE with the anchor "Miami".
    """
    text = without_dates(question)
    found = (_order_in(text, words.asked_order) for words in words_of(question))
    return next((asked for asked in found if asked.order is not Order.NONE), NO_ORDER)


def _order_in(text: str, words: OrderWords) -> AskedOrder:
    """What a text without dates asks for by the words of one language."""
    duration = words.duration.search(text)
    if duration is not None:
        return _duration(duration["rest"], words)
    between = words.between.search(text)
    if between is None or words.not_time_between.search(text[: between.start()]):
        between = words.after_and_before.search(text)
    if between is not None:
        other = _clause(between["other"], between.start() == 0, words)
        return AskedOrder(Order.BETWEEN, _trimmed(between["one"]), _trimmed(other))
    for side in (found for pattern in words.sides for found in pattern.finditer(text)):
        anchor = _anchor(text, side, words)
        if anchor is not None:
            return AskedOrder(Order.AFTER if _is_after(side, words) else Order.BEFORE, anchor)
    for order, pattern in (
        (Order.BEFORE, words.before_words),
        (Order.AFTER, words.after_words),
        (Order.FIRST, words.first_words),
        (Order.LATEST, words.latest_words),
    ):
        if pattern.search(text):
            return AskedOrder(order)
    return NO_ORDER


def _duration(rest: str, words: OrderWords) -> AskedOrder:
    """How long: the words behind it name what lasted, or the two ends of what lies between."""
    between = words.between.search(rest)
    if between is not None:
        return AskedOrder(Order.DURATION, _trimmed(between["one"]), _trimmed(between["other"]))
    started = words.ends.search(rest)
    pair = words.pair.match(started["ends"]) if started else None
    if pair is not None:
        return AskedOrder(Order.DURATION, _trimmed(pair["one"]), _trimmed(pair["other"]))
    side = next((found for pattern in words.sides if (found := pattern.search(rest))), None)
    if side is not None and side["rest"].strip():
        anchor = _clause(side["rest"], True, words)
        what = rest[: side.start()] if rest[: side.start()].strip() else side["rest"][len(anchor) :]
        return AskedOrder(Order.DURATION, _trimmed(anchor), _trimmed(words.auxiliary.sub("", what, count=1)))
    return AskedOrder(Order.DURATION, _trimmed(words.auxiliary.sub("", rest, count=1)))


def _is_after(side: re.Match[str], words: OrderWords) -> bool:
    return side["word"].casefold().startswith(words.after)


def _anchor(text: str, side: re.Match[str], words: OrderWords) -> str | None:
    """What before or after starts from; empty when nothing is named, None when it is about no state."""
    before = text[: side.start()]
    if words.other_sense.search(text[: side.end("word")]):
        return None
    named = _trimmed(_clause(side["rest"], not before.strip(), words))
    if not named:
        return "" if not _is_after(side, words) and before.strip() else None
    if words.back.fullmatch(named):
        return ""
    return None if words.habit.fullmatch(named) or words.dated.fullmatch(named) else named


def _clause(text: str, fronted: bool, words: OrderWords) -> str:
    """The words up to where the clause ends; one at the head of the question ends where the question proper begins."""
    end = words.clause_end.search(text)
    if fronted:
        end = min((found for found in (end, words.inverted.search(text)) if found), key=re.Match.start, default=None)
    return text[: end.start()] if end else text


def _trimmed(words: str) -> str:
    return " ".join(words.split()).strip(" ,'\"()¿¡")
