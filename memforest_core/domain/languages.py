"""The language of a text, by its script and its function words, and those words by language."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files

ENGLISH = "english"


def _table(name: str) -> dict[str, str]:
    """The lines ``language: words`` of a file of ``words``; an indented line goes on."""
    text = files("memforest_core.domain").joinpath(f"words/{name}.txt").read_text(encoding="utf-8")
    entries = re.sub(r"\n\s+", " ", text).splitlines()
    return {language: words for language, _, words in (entry.partition(": ") for entry in entries)}


_FUNCTION_WORDS = _table("function_words")
_ENGLISH_WORDS = frozenset(_FUNCTION_WORDS.pop("english elsewhere").split())
"""English words, or parts of names, that are function words elsewhere: they tell little about the language."""
COMMON = frozenset(_FUNCTION_WORDS.pop("english names").split())
"""English words that are names or handles too: in lower case they are taken for words."""
STOP_WORDS = {
    language: frozenset(unicodedata.normalize("NFKC", words).casefold().split())
    for language, words in _FUNCTION_WORDS.items()
}
"""Function words by Snowball language, casefolded: they carry no evidence. English has the rests of short forms too."""

_SCRIPTS = {
    "russian": "\u0400-\u052f",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "hindi": "\u0900-\u097f",
    "tamil": "\u0b80-\u0bff",
    "armenian": "\u0530-\u058f",
}
"""Scripts that have one Snowball language; words in them are stemmed by it, whatever surrounds them."""
_BY_SCRIPT = [(re.compile(f"[{letters}]"), language) for language, letters in _SCRIPTS.items()]
_OTHER = re.compile("[" + "".join(_SCRIPTS.values()) + "]")
_LATIN = re.compile("[a-zA-Z\u00c0-\u024f]")
LATIN = tuple(language for language in STOP_WORDS if language not in _SCRIPTS)
"""The languages in Latin letters, English first."""

_LETTERS = {"german": "ßẞä", "spanish": "ñ¿¡", "portuguese": "ãõ", "norwegian": "ø", "danish": "ø", "swedish": "åä"}
_LETTERS |= {"turkish": "ğışİ", "romanian": "ășțţ", "hungarian": "őű", "french": "çœ", "finnish": "ä"}
_BY_LETTER: dict[str, list[str]] = {}
for _language, _letters in _LETTERS.items():
    for _letter in _letters:
        _BY_LETTER.setdefault(_letter, []).append(_language)
_EVIDENCE_LETTER = re.compile("[" + "".join(_BY_LETTER) + "]")

_SHARED = 0.5
"""What a word speaks for each language when English has it as well; others speak for theirs with 1 to 2."""


def _telling_words() -> dict[str, tuple[tuple[str, float], ...]]:
    """For each function word its Latin languages; a word of few languages is stronger evidence than one of many."""
    speakers: dict[str, list[str]] = {"I": [ENGLISH]}
    for language in LATIN:
        for word in STOP_WORDS[language]:
            if len(word) > 1 or not word.isascii():
                speakers.setdefault(word, []).append(language)
    telling = {}
    for word, found in speakers.items():
        shared = word in _ENGLISH_WORDS or (ENGLISH in found and len(found) > 1)
        weight = _SHARED if shared else 1.0 + 1.0 / len(found)
        telling[word] = tuple((language, weight) for language in found)
    return telling


_EVIDENCE = _telling_words()
_FOREIGN_ONLY = frozenset(word for word, found in _EVIDENCE.items() if found[0][0] != ENGLISH and found[0][1] > _SHARED)
_ENGLISH_ONLY = frozenset(word for word, found in _EVIDENCE.items() if found[0][0] == ENGLISH and found[0][1] > _SHARED)
_SAMPLE = 600
"""Characters that are read: a paragraph is enough for its language."""
_RUN = re.compile(r"(?<![^\W_])[^\W\d_]+(?![^\W_])")
"""Letters next to a digit are part of an id, and no word."""
_OPENING = re.compile(r"(?:[^\W\d_][^:\n]{0,60}:)?[^\w\n]*([^\W\d_]+)(?![^\W_])")
"""The first word, perhaps after a speaker's name."""
_SURE = 2
"""Different function words that make a text another language than English."""
_CLOSE = 0.5
"""A question may be in any language with this share of the best one's score."""


def own_language(word: str, language: str) -> str:
    """What stems a word in a text of ``language``: the language of its script if that is not the text's."""
    other = None if word[0] < "\u0370" else _script(word)
    if other is None:
        return ENGLISH if language in _SCRIPTS else language
    return other if language in STOP_WORDS else language


def language_of(text: str) -> str:
    """The likeliest language of a text, by its first 600 characters: one of Snowball's, English when unsure.

    Other scripts tell it by themselves. Among Latin ones another language needs two of its function words and more
    of them than English ones. A capitalized word counts at the head of the text only, so that "Los Angeles" is no
    Spanish.
    """
    return guess(text) or ENGLISH


def guess(text: str) -> str | None:
    """As ``language_of``, but None where neither another language nor English shows itself."""
    return _guess(text[:_SAMPLE])


@lru_cache(maxsize=4_096)
def _guess(sample: str) -> str | None:
    if not sample.isascii() and _OTHER.search(sample):
        other = _script(sample)
        if other is not None:
            return other
    found = _words(sample)
    if _FOREIGN_ONLY.isdisjoint(found):
        return None if _ENGLISH_ONLY.isdisjoint(found) else ENGLISH
    scores, counts = _scores(found, sample)
    english = scores.get(ENGLISH, 0.0)
    best = max((language for language in scores if language != ENGLISH), key=scores.__getitem__, default=None)
    if best is not None and scores[best] > english and counts[best] >= _SURE:
        return best
    return ENGLISH if english > 0.0 and (best is None or english >= scores[best]) else None


def text_languages(text: str) -> list[str]:
    """The languages that the lines of a text show themselves to be in, in order of appearance, without English."""
    found = [guess(text), *(guess(line) for line in text.split("\n"))]
    return [language for language in dict.fromkeys(found) if language is not None and language != ENGLISH]


def plausible(text: str) -> tuple[str, ...]:
    """The languages in Latin letters that a short text, such as a question, may be in: likeliest first.

    English alone for plain English. Otherwise the best three with at least half of the best one's score, then English
    in any case: what was said may be in it. Every language when there is no function word to go by, English first.
    """
    sample = text[:_SAMPLE]
    scores, counts = _scores(_words(sample), sample)
    if not scores:
        return (ENGLISH, *LATIN[1:])
    english = scores.pop(ENGLISH, 0.0)
    best = max(scores.values(), default=0.0)
    close = [one for one in scores if scores[one] >= _CLOSE * max(best, english) and (counts[one] or best > english)]
    ranked = sorted(close, key=lambda language: -scores[language])[:3]
    return (ENGLISH, *ranked) if english >= best else (*ranked, ENGLISH)


def _words(sample: str) -> set[str]:
    """Words as they are written, but for the first: a name's capital excludes it."""
    found = set(_RUN.findall(sample))
    opening = _OPENING.match(sample)
    if opening:
        found.add(opening[1].lower())
    return found


def _scores(found: set[str], sample: str) -> tuple[dict[str, float], dict[str, int]]:
    """What function words and letters speak for each Latin language, and how many words do that English has not."""
    scores: dict[str, float] = {}
    counts: dict[str, int] = {}
    for word in found & _EVIDENCE.keys():
        for language, weight in _EVIDENCE[word]:
            scores[language] = scores.get(language, 0.0) + weight
            counts[language] = counts.get(language, 0) + (weight > _SHARED)
    if not sample.isascii():
        for letter in set(_EVIDENCE_LETTER.findall(sample)):
            for language in _BY_LETTER[letter]:
                if language in scores:
                    scores[language] += 1.0
                    counts[language] += 1
    if len(scores) > 1:
        # Sets have no order: equal scores must not depend on it.
        scores = {language: round(scores[language], 6) for language in LATIN if language in scores}
    return scores, counts


def _script(sample: str) -> str | None:
    """The language of the script that most letters are in, if it has one language."""
    latin = len(_LATIN.findall(sample))
    for script, language in _BY_SCRIPT:
        if len(script.findall(sample)) > latin:
            return language
    return None


_MONTH_NAMES = {language: tuple(names.split()) for language, names in _table("months").items()}


def month_name(month: int, language: str) -> str:
    """A month, 1 to 12, as a language writes it in dates; empty for a language whose months are not known here."""
    names = _MONTH_NAMES.get(language)
    return names[month - 1] if names else ""
