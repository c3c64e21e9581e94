"""Whether a question asks for the state that holds now, and for which attributes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memforest_core.domain.asked_order import Order, order_of
from memforest_core.domain.state_names import spellings
from memforest_core.domain.words import words_of
from memforest_core.domain.words.records import NowWords

MAX_WORDS = 64
"""Words of a question that are looked at."""
MAX_ATTRIBUTE_WORDS = 3

_POSSESSIVE = re.compile(r"['\u2019]s?\s")
_WORD = re.compile(r"[^\W_]+(?:['\u2019]\w+)?")


def asks_still(question: str) -> bool:
    """Whether a question asks if something goes on: a value may stand for its attribute ("still at Initech?")."""
    spoken = [words.now for words in words_of(question) if words.now.still.search(question)]
    return any(not _asks_otherwise(question, words) for words in spoken)


def asked_now(question: str) -> frozenset[str]:
    """The names, as facts may carry them, of the attributes whose present state a question asks for.

    Empty for a question that asks for something else: for the past or the future, for an order, for no state.
    """
    found = {attribute for words in words_of(question) for attribute in _asked_now(question, words.now)}
    return frozenset(name for attribute in found for name in spellings(attribute))


def asked_before(question: str) -> frozenset[str]:
    """The names of the attributes whose earlier state a question asks for: "where did I live before Miami"."""
    asked = order_of(question)
    if asked.order is not Order.BEFORE:
        return frozenset()
    rest = question.replace(asked.anchor, " ") if asked.anchor else question
    named = [pair for words in words_of(question) for pair in words.now.named]
    found = {attribute for attribute, pattern in named if pattern.search(rest)}
    return frozenset(name for attribute in found for name in spellings(attribute))


def _asked_now(question: str, words: NowWords) -> set[str]:
    """The attributes that a question names by the words of one language."""
    if _asks_otherwise(question, words):
        return set()
    found = {attribute for attribute, pattern in words.plain if pattern.search(question)}
    if words.now.search(question):
        found.update(attribute for attribute, pattern in words.named if pattern.search(question))
        found.update(_word_groups(_WORD.findall(question.casefold())[:MAX_WORDS]))
    asked = words.what_is.search(question)
    if asked is not None:
        what = _POSSESSIVE.split(asked["what"])[-1].strip().casefold()
        found.update(attribute for attribute, pattern in words.named if pattern.fullmatch(what))
        found.add(what)
    return found


def _asks_otherwise(question: str, words: NowWords) -> bool:
    return words.not_now.search(question) is not None or order_of(question).order not in {Order.NONE, Order.LATEST}


def _word_groups(words: Sequence[str]) -> set[str]:
    """What may be an attribute's own name: "rent", "blood pressure"."""
    return {
        " ".join(words[start : start + length])
        for length in range(1, MAX_ATTRIBUTE_WORDS + 1)
        for start in range(len(words) - length + 1)
    }
