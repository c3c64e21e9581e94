"""Words that mean nearly the same as those of a question: "biking" where a question says "bicycle".

They come from a list that was made once (per stem the 12 nearest stems of cosine 0.5 and more), not from the words of a
forest: BM25 passes over what a forest does not have, so nothing has to be stored, updated or forgotten with the turns.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection
from functools import lru_cache
from importlib.resources import files

from memforest_core.domain.languages import ENGLISH
from memforest_core.domain.text import terms
from memforest_core.domain.words import words_of

ENGLISH_LIST = files(__name__) / "english.txt"
"""A line for each stem, in order: the stem, then its relatives with their cosines in hundredths, the nearest first."""
MOST = 64
"""Related terms of one question; the nearest of more."""
_WORD = re.compile(r"[^\W\d_]+")


def related_terms(question: str, own: Collection[str]) -> dict[str, float]:
    """Terms that mean nearly what a question's ``own`` terms mean, with how near, a cosine of at least 0.5.

    Only words that are written small bring others along: the relatives of a name are other people. English only.
    """
    if all(words.language != ENGLISH for words in words_of(question)):
        return {}
    small = {term for word in _WORD.findall(question) if word.islower() for term in terms(word, ENGLISH)}
    found: dict[str, float] = {}
    for stem in sorted(small.intersection(own)):
        for other, cosine in _relatives(stem):
            if other not in own:
                found[other] = max(found.get(other, 0.0), cosine)
    nearest = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST]
    return dict(nearest)


@lru_cache(maxsize=4_096)
def _relatives(stem: str) -> tuple[tuple[str, float], ...]:
    lines = _lines()
    at = bisect_left(lines, stem + " ")
    if at == len(lines) or not lines[at].startswith(stem + " "):
        return ()
    pairs = (pair.rpartition(":") for pair in lines[at].split(" ")[1:])
    return tuple((other, int(hundredths) / 100) for other, _, hundredths in pairs)


@lru_cache(maxsize=1)
def _lines() -> list[str]:
    return ENGLISH_LIST.read_text(encoding="utf-8").splitlines()
