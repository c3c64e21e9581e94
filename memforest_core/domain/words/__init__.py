"""What recall knows of languages: a module of words for each, and which of them a question is read by."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module

from memforest_core.domain.languages import LATIN, guess, plausible
from memforest_core.domain.words import english
from memforest_core.domain.words.records import Words

ENGLISH = english.WORDS
LANGUAGES = (ENGLISH.language, "german", "spanish", "chinese")
"""Another language is one more module of this package, and its name here."""
_SAMPLE = 600
"""Characters that are looked at, as in ``languages``."""
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA_OR_HANGUL = re.compile("[\u3040-\u30ff\uac00-\ud7a3]")


@lru_cache
def words_in(language: str) -> Words:
    """The words of one of ``LANGUAGES``, made at their first use, which takes 10 ms. Raises ModuleNotFoundError for
    another."""
    words: Words = import_module(f"{__name__}.{language}").WORDS
    return words


def words_of(text: str) -> tuple[Words, ...]:
    """The words that a question is read by: those of its language.

    A text that does not show its language is read by English and by the languages that it may be in; one in a language
    without words here by English. Han signs without kana and Hangul are Chinese.
    """
    return _words_of(text[:_SAMPLE])


@lru_cache(maxsize=4_096)
def _words_of(sample: str) -> tuple[Words, ...]:
    sure = guess(sample)
    if sure is not None:
        return (words_in(sure) if sure in LANGUAGES else ENGLISH,)
    if _HAN.search(sample) and not _KANA_OR_HANGUL.search(sample):
        return (words_in("chinese"),)
    likely = [one for one in plausible(sample) if one != ENGLISH.language] or LATIN
    return (ENGLISH, *(words_in(one) for one in likely if one in LANGUAGES and one != ENGLISH.language))
