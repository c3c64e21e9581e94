"""Text that the English rules can't read, which is stored as it was said."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memforest_core.domain.languages import ENGLISH, language_of
from memforest_core.domain.text import STOP_WORDS, sentences

_WORD = re.compile(r"[^\W\d_]+")
_FOREIGN_WORDS = """
    que el la los las y una uno por para con mi muy es en del se soy tengo vivo gusta pero je le
    les des est une dans avec pour suis mon ma mes et du au nous vous und der das ich ist nicht
    ein eine mit mein meine wir bin habe auf zu em não uma meu minha eu tenho il di che sono ho
    per mia mio gli het een ik op mijn niet och jag att det som på jeg og ikke nie jest się
"""
_FOREIGN = frozenset(_FOREIGN_WORDS.split())
_SHARED_WORDS = "me a no do as so in was an am on he her"
_ENGLISH = STOP_WORDS - frozenset(_SHARED_WORDS.split())
_SAMPLE_CHARS = 400
_MIN_LATIN = 0.7


def is_english(text: str) -> bool:
    """Whether the rules can read a text, judged by its letters and function words."""
    sample = text[:_SAMPLE_CHARS]
    letters = [char for char in sample if char.isalpha()]
    if sum(char < "\u0250" for char in letters) < _MIN_LATIN * len(letters):
        return False
    words = [word.lower() for word in _WORD.findall(sample)]
    foreign = sum(word in _FOREIGN for word in words)
    own = foreign < 2 or foreign <= sum(word in _ENGLISH for word in words)
    return own and language_of(sample) == ENGLISH


def packed(text: str, limit: int) -> Iterator[str]:
    """Consecutive sentences joined into verbatim parts of about ``limit`` characters."""
    start = end = -1
    at = 0
    for sentence in sentences(text):
        found = text.find(sentence, at)
        if found < 0:
            yield sentence
            continue
        at = found + len(sentence)
        if start >= 0 and at - start > limit:
            yield text[start:end]
            start = -1
        if start < 0:
            start = found
        end = at
    if start >= 0:
        yield text[start:end]
