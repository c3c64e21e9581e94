"""Which statements of a series a question is after: of those about one thing, in the order of time."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from functools import lru_cache

from memforest_core.domain.asked_now import asked_now
from memforest_core.domain.asked_order import Order, order_of
from memforest_core.domain.asked_times import without_dates
from memforest_core.domain.text import terms
from memforest_core.domain.words import words_of


class Series(StrEnum):
    """Which of several statements about one thing, in the order of time, a question is after."""

    FIRST = "first"
    LATEST = "latest"
    """The one that holds now."""
    BEFORE = "before"
    AFTER = "after"
    ENDS = "ends"
    """Those that tell of it at all: how long it lasted."""
    ALL = "all"
    """Each of them: which ones, how many."""
    OFTEN = "often"
    """Those that tell how often it happens."""


_OF_ORDER = {
    Order.FIRST: Series.FIRST,
    Order.LATEST: Series.LATEST,
    Order.BEFORE: Series.BEFORE,
    Order.AFTER: Series.AFTER,
    Order.DURATION: Series.ENDS,
}


SIDE_BY_SIDE = frozenset({"pet", "possession"})
"""Attributes of which several values hold: of a question about those that hold now not all of them are meant."""


@lru_cache(maxsize=1_024)
def series_of(question: str) -> Series | None:
    """What a question asks for of a series; None for most questions. Raises nothing."""
    text = without_dates(question)
    spoken = [words.series for words in words_of(question)]
    if any(words.often.search(text) for words in spoken):
        return Series.OFTEN
    order = order_of(question).order
    if order is not Order.NONE:
        return _OF_ORDER.get(order)
    if not SIDE_BY_SIDE.isdisjoint(asked_now(question)):
        return Series.LATEST
    return Series.ALL if any(words.every.search(text) for words in spoken) else None


def lists_all(question: str) -> bool:
    """Whether a question asks for all of several things, so that more of them are an answer too."""
    return series_of(question) is Series.ALL


def tells_how_often(text: str, question: str) -> bool:
    """Whether a text tells how often something happens, in the words of a question's language."""
    return any(words.series.frequency.search(text) for words in words_of(question))


def asks_what_happened(question: str, names: Collection[str]) -> bool:
    """Whether a question asks for nothing but a time: no term is left of it without dates, ``names`` and "happen"."""
    text = without_dates(question)
    if text == question:
        return False
    happening = {term for words in words_of(question) for term in terms(words.series.happening, words.language)}
    return frozenset(terms(text)) <= happening | set(names)


def as_told(question: str, names: Iterable[tuple[int, int]]) -> str:
    """The question as the one it asks about would ask it: "Where does Ann live now?" as "Where does I live now?".

    ``names`` are the places of that one's names in it. What people tell of themselves lies nearer to this, because it
    shares no name with everything else that they said.
    """
    words = words_of(question)[0].series
    text = question
    for start, end in sorted(names, reverse=True):
        of = words.possessive.match(text, end)
        text = text[:start] + (words.my if of else words.i) + text[of.end() if of else end :]
    text = words.theirs.sub(words.my, text)
    return _one_space(words.they.sub(words.i, text))


def _one_space(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
