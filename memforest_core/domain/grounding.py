"""Whether a model's sentence is about the texts that its call showed, and not about those of another call."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from memforest_core.domain.periods import MONTH
from memforest_core.domain.text import terms

SHARE = 0.4
"""Of a sentence's words more are in the texts (names, numbers and its value count twice): a paraphrase has that, and a
sentence about a similar subject has not (tests/data/foreign_answers.json)."""
_DATE = re.compile(
    rf"\b(?:\d{{4}}-\d\d(?:-\d\d)?|(?:\d{{1,2}}\.?\s+)?(?:{MONTH})(?:\s+\d{{1,2}})?|(?:19|20)\d\d)\b", re.IGNORECASE
)
"""What a model writes for "last week"."""
_WORD = re.compile(r"[^\W_]+")
_CODE = re.compile(r"\b[a-z]+\d\w*", re.IGNORECASE | re.ASCII)
"""An identifier: nobody paraphrases one."""
_ROLES = "user assistant speaker"
_BEGINNING = 4


class Shown:
    """The texts that a call showed. The names of those who speak in them say nothing about a sentence."""

    def __init__(self, texts: Iterable[str], names: Iterable[str] = ()) -> None:
        self._said = _by_beginning(texts)
        self._names = _by_beginning([*names, _ROLES])

    def has(self, sentence: str, value: str = "") -> bool:
        """Whether enough of the sentence's words (or it has none) are in the texts, and all its identifiers and names
        in its value."""
        plain = _DATE.sub(" ", sentence)
        names = " ".join(word for word in _WORD.findall(plain)[1:] if word[0].isupper() or word[0].isdigit())
        of_value = " ".join(word for word in _WORD.findall(value) if word[0].isupper())
        if not all(term in self._said.get(term[:_BEGINNING], ()) for term in terms(" ".join(_CODE.findall(plain)))):
            return False
        if not all(_among(term, self._said) or _among(term, self._names) for term in terms(of_value)):
            return False
        strong = {*terms(names), *terms(_DATE.sub(" ", value))}
        own = {term: 2 if term in strong else 1 for term in terms(plain) if not _among(term, self._names)}
        found = sum(weight for term, weight in own.items() if _among(term, self._said))
        return not own or found > SHARE * sum(own.values())


def alike(one: str, other: str) -> bool:
    """Whether two terms are forms of one word: they begin with the same letters, four or more and most of both."""
    least = max(_BEGINNING, -(-2 * max(len(one), len(other)) // 3))
    return one == other or (len(one) >= least and one[:least] == other[:least])


def _by_beginning(texts: Iterable[str]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for text in texts:
        for term in terms(text):
            found[term[:_BEGINNING]].add(term)
    return found


def _among(term: str, known: dict[str, set[str]]) -> bool:
    return any(alike(term, each) for each in known.get(term[:_BEGINNING], ()))
