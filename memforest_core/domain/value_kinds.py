"""The kind of value that a question wants, such as an amount or a date, and whether a text has one of that kind."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache

from memforest_core.domain.codes import codes
from memforest_core.domain.text import parted
from memforest_core.domain.words import words_of
from memforest_core.domain.words.records import Words


class Kind(StrEnum):
    """A kind of value; of a question that has words of several the first counts."""

    CODE = "code"
    """What is read letter by letter: passwords, and numbers that name something."""
    DURATION = "duration"
    CLOCK = "clock"
    """A time of day."""
    DATE = "date"
    AMOUNT = "amount"
    """A number that counts or measures something."""


_QUERIES = re.compile(r"(?:^|(?<=[.!?\uff1f\u3002\n]))[^.!?\uff1f\u3002\n]*[?\uff1f]+")
_NUMBER = re.compile(r"(?<![\w.,:/-])[^\w\s]?\d+(?:[.,]\d+)*[^\W\d_]{0,3}(?![\w:/-])")
_TIME = re.compile(r"\b\d{1,2}(?:[:.]\d\d)?\s?[ap]\.?m\b|\b\d{1,2}:\d\d\b|\b\d+\s?min(?:s|ut\w+)?\b", re.IGNORECASE)


@lru_cache(maxsize=1_024)
def kind_of(question: str) -> Kind | None:
    """The kind of value that a question wants; None for most questions, and in a language without words for it."""
    spoken = [words.kinds for words in words_of(question)]
    return next((kind for kind in Kind if any(getattr(words, kind).search(question) for words in spoken)), None)


def has_value(text: str, kind: Kind, spoken: Collection[Words]) -> bool:
    """Whether a text states a value of a kind, by the words of these languages; a question states none."""
    said = _QUERIES.sub(" ", text)
    if kind is Kind.CODE:
        return bool(codes(said))
    kinds = [words.kinds for words in spoken]
    if kind is Kind.AMOUNT:
        for pattern in (_TIME, *(words.dates for words in kinds)):
            said = pattern.sub(" ", said)
        return any(words.numbers.search(said) for words in kinds) or _NUMBER.search(parted(said)) is not None
    return any(getattr(words, f"{kind}s").search(said) for words in kinds)


def corrects(text: str, spoken: Collection[Words]) -> bool:
    """Whether somebody says in a text, and does not ask, that what was said before it was wrong."""
    return any(words.kinds.corrections.search(_QUERIES.sub(" ", text)) for words in spoken)
