"""A title from the terms of some texts: those that are in many of them and in few others."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import log

from memforest_core.domain.indexed import TermCounts
from memforest_core.domain.languages import ENGLISH, language_of
from memforest_core.domain.lexical import term_index
from memforest_core.domain.periods import MONTHS, WEEKDAYS
from memforest_core.domain.text import NUMBER_WORDS, clipped, sentences, signs, terms

TITLE_CHARS = 80
"""Length of a title at most."""
TITLE_TERMS = 5
_MAX_LINES = 400
_MAX_WORD_CHARS = 30
_FILLERS = """said say tell told ask answer mention talk speak spoke think thought know guess mean get got gonna gotta
go goes gone went come came take took make made give gave put let keep want need try start begin began feel felt look
see saw hear use happen remember back thing everything something stuff lot bit little new good great nice big really
actually maybe also even still ever never always today yesterday tomorrow day week weekend month year hour minute
morning evening night time last next ago yes yeah okay oh well thanks"""
_IDLE = frozenset(terms(" ".join((_FILLERS, *NUMBER_WORDS, *MONTHS, *WEEKDAYS)), ENGLISH))
"""Stems that tell no topic from another: verbs of saying and doing, words of time, fillers."""
_SAID = re.compile(r"^[^:\n]{1,60} said: ")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def title_from_terms(texts: Sequence[str], others: Sequence[TermCounts]) -> str:
    """The most telling words of ``texts``, the best first, at most TITLE_TERMS in TITLE_CHARS characters.

    Words that tell no topic from another are left out, and those that most ``others`` have, such as the owner's name. A
    term is worth the sentences that have it, times log(1 + (n + 1) / (d + 1)): of the n ``others`` d have it too
    (TF-IDF). A word is shown as it is written most often. Texts without such words give the beginning of the first one.
    The same input gives the same title.
    """
    said = [_SAID.sub("", text) for text in texts]
    lines = [line for text in said for line in sentences(text)][:_MAX_LINES]
    held: Counter[str] = Counter()
    written: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        found = list(_words(line))
        held.update(list(dict.fromkeys(term for term, _ in found)))
        for term, word in found:
            written[term][word] += 1
    elsewhere = Counter(index for counts in others for index, _ in counts.counts)
    worth = {
        term: count * log(1 + (len(others) + 1) / (elsewhere[term_index(term)] + 1))
        for term, count in held.items()
        if 2 * elsewhere[term_index(term)] <= max(3, len(others))
    }
    chosen: list[str] = []
    # The order of insertion, which is that of the texts, decides between equals.
    for term in sorted(worth, key=lambda term: -worth[term])[:TITLE_TERMS]:
        shown = _shown(written[term])
        if len(", ".join([*chosen, shown])) <= TITLE_CHARS:
            chosen.append(shown)
    return ", ".join(chosen) or clipped(" ".join("".join(said[:1]).split()), TITLE_CHARS)


def _words(line: str) -> Iterator[tuple[str, str]]:
    """The terms of a line, each with how it is written there; numbers are left out."""
    language = language_of(line)
    for word in _WORD.findall(line):
        whole = signs([word])
        if whole:
            # Of a script without spaces: pairs of signs are what comes closest to words.
            yield from ((term, term) for term in whole if len(term) > 1)
            continue
        bare = word.replace("’", "'").split("'")[0]
        found = terms(word, language)
        if found and found[0] not in _IDLE and not word[0].isdigit() and 1 < len(bare) <= _MAX_WORD_CHARS:
            yield found[0], bare


def _shown(written: Counter[str]) -> str:
    """The form that is written most often; in lower case when it is written so anywhere: else it is a name."""
    word = min(written, key=lambda form: -written[form])
    return word.lower() if word.lower() in written else word
