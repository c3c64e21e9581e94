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

    questions: frozenset[str]
    statements: frozenset[str]


def question_attributes(question: Collection[str], words: Words = ENGLISH) -> tuple[Attribute, ...]:
    """The attributes that a question's terms ask for by the words of one language; empty for most questions.

    To live is said of much: with another attribute it means no residence ("which dog lived with her?").
    """
    wanted, stems = frozenset(question), _stems_of(words.language)
    found = tuple(attribute for attribute in Attribute if wanted & stems[attribute].questions)
    if len(found) > 1 and wanted & stems[Attribute.RESIDENCE].questions <= _living(words.language):
        return tuple(attribute for attribute in found if attribute is not Attribute.RESIDENCE)
    return found


def telling_terms(attributes: Collection[Attribute], words: Words = ENGLISH) -> frozenset[str]:
    """The terms that statements of these attributes are likely to hold in one language."""
    stems = _stems_of(words.language)
    return frozenset(term for attribute in attributes for term in stems[attribute].statements)


def answering_terms(question: Collection[str], spoken: Iterable[Words]) -> frozenset[str]:
    """The terms of statements that tell what a question's terms ask for, in each language that it may be in."""
    return frozenset(term for words in spoken for term in telling_terms(question_attributes(question, words), words))


@lru_cache
def _stems_of(language: str) -> Mapping[Attribute, _Stems]:
    words = words_in(language)
    return {
        attribute: _Stems(_stems(wording.question, words), _statement_stems(wording.statement, words))
        for attribute, wording in words.wordings.items()
    }


@lru_cache
def _living(language: str) -> frozenset[str]:
    words = words_in(language)
    return _stems(words.living, words)


def _stems(text: str, words: Words) -> frozenset[str]:
    return frozenset(terms(text, words.language) if words.spaced else text.split())


def _statement_stems(text: str, words: Words) -> frozenset[str]:
    """Under all terms that a turn may be indexed by: the language of a short one is often taken for English."""
    stems = _stems(text, words)
    return stems | frozenset(terms(text, IN_ENGLISH)) if words.spaced else stems
