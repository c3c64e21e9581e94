"""Which of several states a question is after: before, after or between others, the first, the last, how long."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from memforest_core.domain.asked_times import without_dates
from memforest_core.domain.date_words import MONTH, SEASON, UNIT, WEEKDAY, YEAR


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

_NOT_TIME_BETWEEN = re.compile(
    r"\b(?:differen\w+|relation\w*|cho(?:o|i|s)\w+|decid\w+|decision|distance|split\w*|balanc\w+|connection|torn|similar\w*"
    r"|compar\w+|conversation|talks?|match|games?|fight|links?|agreement|deal|bond|common|alternat\w+|argument|discuss\w*|topics?)\b[^?.!,;]*$",
    re.I,
)
_HABIT = re.compile(
    r"(?:(?:the|my|her|his|their)\s+)?(?:bed(?:time)?|breakfast|lunch|dinner|supper|work|school|class|sleep(?:ing)?|noon|midnight"
    r"|dawn|dusk|sunset|sunrise|dark|all|long|hours|meals?|(?:a|some)\s+(?:long\s+|little\s+)?(?:time|while|break)|that|this|it|then|these|those|now|day)\W*$",
    re.I,
)
_NAMED_AFTER = re.compile(
    r"\b(?:look\w*|nam(?:e|ed|ing)|tak(?:e|es|en|ing)|took|running|chas\w+|call(?:ed)?|day|week|time)\s+$", re.I
)
_INVERTED = re.compile(
    r",|\s+(?:where|what|who|whom|which|how|when|why)\b|\s+(?:did|do|does|was|were|is|are|has|have|had)\s+(?:i|you|he|she|it|we|they|my|his|her|our|their|the|[A-Z]\w*)\b",
)
_CLAUSE_END = re.compile(r"[?.!;]|\s+(?:and|or|but)\s+(?:before|after|then)\b|\s+(?:before|after)\s+", re.I)
_HOW_LONG = re.compile(
    rf"\bhow\s+(?:long(?!\s+(?:is|are|was|were)\s+the\s+(?!gap|time|period|break))|much\s+time|many\s+{UNIT}s)\b(?!\s+ago\b)(?P<rest>[^?.!;]*)",
    re.I,
)
_AUXILIARY = re.compile(
    r"\s*(?:(?:did|does|do|has|have|had|was|were|is|are|been|it|last|take|took|taken|passed|there|went\s+by|elapsed|lie|lay)\b\s*)*",
    re.I,
)
_PAIR = re.compile(r"^(?P<one>.+?)\s+(?:and|to|until|till)\s+(?P<other>.+)$", re.I)
_BETWEEN = re.compile(r"\b(?:in\s+)?between\s+(?P<one>[^?.!;]+?)\s+and\s+(?P<other>[^?.!;,]+)", re.I)
_SIDE = re.compile(r"\b(?P<word>before|prior\s+to|after)\b(?P<rest>[^?.!;]*)", re.I)
_AFTER_AND_BEFORE = re.compile(r"\bafter\s+(?P<one>[^?.!;,]+?)\s+(?:and|but)\s+before\s+(?P<other>[^?.!;,]+)", re.I)
_BEFORE_WORDS = re.compile(
    r"\b(?:previous(?:ly)?|prior|former(?:ly)?|used\s+to|earlier|ex-(?=\w)|in\s+the\s+past|no\s+longer|anymore)\b", re.I
)
_AFTER_WORDS = re.compile(
    r"\b(?:afterwards?|later(?!\s+(?:(?:on|in)\s+the|that)\b)(?:\s+on)?|subsequent(?:ly)?|following\s+that|next(?=\W*$))\b",
    re.I,
)
_FIRST_WORDS = re.compile(
    r"\b(?:first(?!\s+(?:names?|aid|class|floor|grade|language|lady|sight|hand|and\s+foremost)\b)|original(?:ly)?|initial(?:ly)?"
    r"|at\s+the\s+(?:very\s+)?(?:beginning|start|outset)|to\s+begin\s+with|earliest)\b",
    re.I,
)
_LATEST_WORDS = re.compile(
    r"\b(?:(?<!at\s)last(?!\s+(?:names?|seasons?|longer|minute|long|for)\b)(?!\W*$)|latest|most\s+recent(?:ly)?|current(?:ly)?|(?:right\s+)?now(?!here)"
    r"|nowadays|these\s+days|at\s+(?:the\s+moment|present)|presently|still|as\s+of\s+today|newest)\b",
    re.I,
)
_DATED = re.compile(rf"(?:the\s+)?(?:{SEASON}|{MONTH}|{WEEKDAY}|{YEAR})\W*", re.I)


def order_of(question: str) -> AskedOrder:
    """What a question asks for in the order of time; dates are ``asked_period``'s and no anchors. Raises nothing.

    "Where did I live before Miami?" is BEFORE with the anchor "Miami".
    """
    text = without_dates(question)
    duration = _HOW_LONG.search(text)
    if duration is not None:
        return _duration(duration["rest"])
    between = _BETWEEN.search(text)
    if between is None or _NOT_TIME_BETWEEN.search(text[: between.start()]):
        between = _AFTER_AND_BEFORE.search(text)
    if between is not None:
        other = _clause(between["other"], between.start() == 0)
        return AskedOrder(Order.BETWEEN, _trimmed(between["one"]), _trimmed(other))
    for side in _SIDE.finditer(text):
        anchor = _anchor(text, side)
        if anchor is not None:
            return AskedOrder(Order.AFTER if side["word"].casefold() == "after" else Order.BEFORE, anchor)
    for order, words in (
        (Order.BEFORE, _BEFORE_WORDS),
        (Order.AFTER, _AFTER_WORDS),
        (Order.FIRST, _FIRST_WORDS),
        (Order.LATEST, _LATEST_WORDS),
    ):
        if words.search(text):
            return AskedOrder(order)
    return NO_ORDER


def _duration(rest: str) -> AskedOrder:
    """How long: the words behind it name what lasted, or the two ends of what lies between."""
    between = _BETWEEN.search(rest)
    if between is not None:
        return AskedOrder(Order.DURATION, _trimmed(between["one"]), _trimmed(between["other"]))
    started = re.search(r"\bfrom\s+(?P<ends>.+)", rest, re.I)
    pair = _PAIR.match(started["ends"]) if started else None
    if pair is not None:
        return AskedOrder(Order.DURATION, _trimmed(pair["one"]), _trimmed(pair["other"]))
    side = _SIDE.search(rest)
    if side is not None and side["rest"].strip():
        anchor = _clause(side["rest"], True)
        what = rest[: side.start()] if rest[: side.start()].strip() else side["rest"][len(anchor) :]
        return AskedOrder(Order.DURATION, _trimmed(anchor), _trimmed(_AUXILIARY.sub("", what, count=1)))
    return AskedOrder(Order.DURATION, _trimmed(_AUXILIARY.sub("", rest, count=1)))


def _anchor(text: str, side: re.Match[str]) -> str | None:
    """What stands after before or after; empty when nothing does, None when it is about no state."""
    rest = side["rest"]
    before = text[: side.start()]
    if side["word"].casefold() == "after" and _NAMED_AFTER.search(before):
        return None
    named = _trimmed(_clause(rest, not before.strip()))
    if not named:
        return "" if side["word"].casefold() == "before" and before.strip() else None
    if re.fullmatch(r"(?:that|this|it|then)", named, re.I):
        return ""
    return None if _HABIT.fullmatch(named) or _DATED.fullmatch(named) else named


def _clause(text: str, fronted: bool) -> str:
    """The words up to where the clause ends; one at the head of the question ends where the question proper begins."""
    end = _CLAUSE_END.search(text)
    if fronted:
        end = min((found for found in (end, _INVERTED.search(text)) if found), key=re.Match.start, default=None)
    return text[: end.start()] if end else text


def _trimmed(words: str) -> str:
    return " ".join(words.split()).strip(" ,'\"()")
