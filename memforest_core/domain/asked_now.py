"""Whether a question asks for the state that holds now, and for which attributes (English)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memforest_core.domain.asked_order import Order, order_of
from memforest_core.domain.attributes import PETS
from memforest_core.domain.state_names import spellings

MAX_WORDS = 64
"""Words of a question that are looked at."""
MAX_ATTRIBUTE_WORDS = 3

_NOW = re.compile(
    r"\b(?:now|current(?:ly)?|still|nowadays|these\s+days|at\s+the\s+moment|at\s+present|presently|today|as\s+of\s+today)\b",
    re.I,
)
_STILL = re.compile(r"\bstill\b", re.I)
_NOT_NOW = re.compile(
    r"\b(?:did|was|were|had|will|would|going\s+to|plan(?:s|ning|ned)?\s+(?:to|on)|until\s+now|(?:from|by)\s+now)\b",
    re.I,
)
_PET_WORDS = "|".join(PETS)
_THING_WORDS = "car|bike|bicycle|motorcycle|truck|van|boat|laptop|phone|camera|guitar|piano|house|apartment"
_WHO = r"\s.{1,60}?\s"
_PAIRED = "partner|husband|wife|boyfriend|girlfriend|spouse|fianc\u00e9e?"
_PLAIN = (
    (
        "residence",
        rf"\bwhere\s+(?:do|does){_WHO}(?:live|reside)\b|\bwhere(?:['\u2019]s|\s+(?:is|are|am)){_WHO}(?:living|based|residing)\b"
        rf"|\b(?:what|which)\s+(?:city|town|country|state|place|neighbou?rhood)\b.{{0,40}}?\b(?:do|does|is|are|am){_WHO}(?:live|living|based)\b",
    ),
    (
        "job",
        rf"\b(?:where|who|(?:what|which)\s+(?:company|firm))\s+(?:do|does){_WHO}work\b"
        rf"|\bwhat\s+(?:do|does){_WHO}do(?:\s+for\s+(?:a\s+living|work))?\s*\??$"
        rf"|\bwhere(?:['\u2019]s|\s+(?:is|are|am)){_WHO}(?:working|employed)\b",
    ),
    (
        "relationship",
        rf"\b(?:is|are|am){_WHO}(?:married|single|divorced|separated|engaged|dating|in\s+a\s+relationship)\b"
        rf"|\bwho(?:['\u2019]s|\s+(?:is|are|am)){_WHO}(?:dating|married\s+to|engaged\s+to|seeing)\b",
    ),
    (
        "pet",
        rf"\b(?:what|which|how\s+many)(?:\s+kind\s+of)?\s+(?:pets?|animals?|(?:{_PET_WORDS})s?)\s+(?:do|does){_WHO}(?:have|own|keep)\b"
        rf"|\b(?:do|does){_WHO}(?:have|own)\s+(?:a|an|any)\s+(?:pets?|animals?|(?:{_PET_WORDS})s?)\b",
    ),
    (
        "possession",
        rf"\b(?:what|which)(?:\s+kind\s+of)?\s+(?:{_THING_WORDS})s?\s+(?:do|does){_WHO}(?:have|own|drive|ride|use)\b"
        rf"|\b(?:do|does){_WHO}(?:have|own)\s+(?:a|an|any)\s+(?:{_THING_WORDS})s?\b",
    ),
    ("weight", r"\bhow\s+(?:much|heavy)\s+(?:do|does|is|am|are)(?:\s.{1,60})\bweigh\b"),
)
_PLAINLY = tuple((attribute, re.compile(pattern, re.I)) for attribute, pattern in _PLAIN)
_WHAT_IS = re.compile(
    r"\bwhat(?:['\u2019]s|\s+(?:is|are))\s+(?:my|our|[\w.-]+['\u2019]s?|the)\s+(?P<what>[^?.!;]{1,60})", re.I
)
_POSSESSIVE = re.compile(r"['\u2019]s?\s")
_WORDS = (
    ("residence", r"live|lives|living|reside|residence|home|city|town|address|based"),
    ("job", r"job|work|works|working|profession|career|occupation|employed|employer|company|position"),
    ("employer", r"work|works|working|employer|company"),
    ("relationship", rf"relationship|dating|married|engaged|single|divorced|together|seeing|{_PAIRED}"),
    ("pet", rf"pets?|animals?|(?:{_PET_WORDS})s?"),
    ("possession", rf"(?:{_THING_WORDS})s?|own|owns|drive|drives"),
    ("weight", r"weigh|weighs|weight"),
    ("status", r"project|status|progress"),
    ("diet", r"diet|vegetarian|vegan"),
)
_NAMED = tuple((attribute, re.compile(rf"\b(?:{words})\b", re.I)) for attribute, words in _WORDS)
_WORD = re.compile(r"[^\W_]+(?:['\u2019]\w+)?")


def asks_still(question: str) -> bool:
    """Whether a question asks if something goes on: a value may stand for its attribute ("still at Initech?")."""
    return _STILL.search(question) is not None and not _asks_otherwise(question)


def asked_now(question: str) -> frozenset[str]:
    """The names, as facts may carry them, of the attributes whose present state a question asks for.

    Empty for a question that asks for something else: for the past or the future, for an order, for no state.
    """
    if _asks_otherwise(question):
        return frozenset()
    found = {attribute for attribute, pattern in _PLAINLY if pattern.search(question)}
    if _NOW.search(question):
        found.update(attribute for attribute, pattern in _NAMED if pattern.search(question))
        found.update(_word_groups(_WORD.findall(question.casefold())[:MAX_WORDS]))
    asked = _WHAT_IS.search(question)
    if asked is not None:
        what = _POSSESSIVE.split(asked["what"])[-1].strip().casefold()
        found.update(attribute for attribute, pattern in _NAMED if pattern.fullmatch(what))
        found.add(what)
    return frozenset(name for attribute in found for name in spellings(attribute))


def asked_before(question: str) -> frozenset[str]:
    """The names of the attributes whose earlier state a question asks for: "where did I live before Miami"."""
    asked = order_of(question)
    if asked.order is not Order.BEFORE:
        return frozenset()
    rest = question.replace(asked.anchor, " ") if asked.anchor else question
    found = {attribute for attribute, pattern in _NAMED if pattern.search(rest)}
    return frozenset(name for attribute in found for name in spellings(attribute))


def _asks_otherwise(question: str) -> bool:
    return _NOT_NOW.search(question) is not None or order_of(question).order not in {Order.NONE, Order.LATEST}


def _word_groups(words: Sequence[str]) -> set[str]:
    """What may be an attribute's own name: "rent", "blood pressure"."""
    return {
        " ".join(words[start : start + length])
        for length in range(1, MAX_ATTRIBUTE_WORDS + 1)
        for start in range(len(words) - length + 1)
    }
