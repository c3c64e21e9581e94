"""States that people ask about, in the words they ask with and in those they tell them with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from memforest_core.domain.languages import ENGLISH as IN_ENGLISH
from memforest_core.domain.text import terms
from memforest_core.domain.words import ENGLISH, words_in
from memforest_core.domain.words.records import Attribute, Words


@dataclass(frozen=True, slots=True)
class _Stems:
    """The terms of one attribute in one language."""

    asked: frozenset[str]
    told: frozenset[str]


def asked_attributes(question: Collection[str], words: Words = ENGLISH) -> tuple[Attribute, ...]:
    """The attributes that a question's terms ask for by the words of one language; empty for most questions.

    To live is said of much: beside another attribute it asks for no residence ("which dog lived with her?").
    """
    wanted, stems = frozenset(question), _stems_of(words.language)
    asked = tuple(attribute for attribute in Attribute if wanted & stems[attribute].asked)
    if len(asked) > 1 and wanted & stems[Attribute.RESIDENCE].asked <= _living(words.language):
        return tuple(attribute for attribute in asked if attribute is not Attribute.RESIDENCE)
    return asked


def telling_terms(attributes: Collection[Attribute], words: Words = ENGLISH) -> frozenset[str]:
    """The terms that statements of these attributes are likely to hold in one language."""
    stems = _stems_of(words.language)
    return frozenset(term for attribute in attributes for term in stems[attribute].told)


def answering_terms(question: Collection[str], spoken: Iterable[Words]) -> frozenset[str]:
    """The terms of statements that tell what a question's terms ask for, in each language that it may be in."""
    return frozenset(term for words in spoken for term in telling_terms(asked_attributes(question, words), words))


@lru_cache
def _stems_of(language: str) -> Mapping[Attribute, _Stems]:
    words = words_in(language)
    return {
        attribute: _Stems(_stems(wording.asked, words), _told(wording.told, words))
        for attribute, wording in words.wordings.items()
    }


@lru_cache
def _living(language: str) -> frozenset[str]:
    words = words_in(language)
    return _stems(words.living, words)


def _stems(text: str, words: Words) -> frozenset[str]:
    return frozenset(terms(text, words.language) if words.spaced else text.split())


def _told(text: str, words: Words) -> frozenset[str]:
    """Under all terms that a turn may be indexed by: the language of a short one is often taken for English."""
    stems = _stems(text, words)
    return stems | frozenset(terms(text, IN_ENGLISH)) if words.spaced else stems
