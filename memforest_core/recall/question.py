"""A question as recall sees it: checked text, its terms, and who might be named in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from memforest_core.domain.text import clean, normalize_name, variants
from memforest_core.domain.words import ENGLISH, words_of
from memforest_core.domain.words.records import Words
from memforest_core.errors import InvalidInput
from memforest_core.settings import ENGLISH_EMBEDDINGS

MAX_QUESTION_CHARS = 8_192
MAX_NAME_WORDS = 4
"""Entity names of up to this many words are looked up."""
MAX_NAME_KEYS = 256
"""Names that one question is searched for; the words of a very long one past that are not looked at."""

_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile(r"['\u2019]s\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Question:
    """A checked question."""

    text: str
    words: tuple[str, ...]
    """In order, casefolded, without possessive endings."""
    terms: frozenset[str]
    """As texts are indexed: stemmed, without stop words, in every language that the question may be in."""
    spellings: Mapping[str, str] = field(default_factory=dict, compare=False)
    """For each of several terms of one word that word's first: what a text has of them counts once."""

    @property
    def spoken(self) -> tuple[Words, ...]:
        """The words of its language, or of those that it may be in."""
        return words_of(self.text)

    @property
    def first_person(self) -> bool:
        """Whether the asker speaks of themselves."""
        return any(words.first_person.found(self.words, self.text) for words in self.spoken)

    def known_to(self, model: str) -> bool:
        """Whether an embedding model knows the language of the question: its vectors mean little in another one."""
        return model not in ENGLISH_EMBEDDINGS or self.spoken[0] is ENGLISH

    def names(self, name: str) -> bool:
        """Whether a word of a display name is in the question."""
        return any(word in self.words for word in _words(name) if len(word) > 1)

    def name_keys(self) -> tuple[str, ...]:
        """Scope keys that its word groups could name, shorter groups first."""
        keys: dict[str, None] = {}
        for length in range(1, MAX_NAME_WORDS + 1):
            for start in range(len(self.words) - length + 1):
                key = normalize_name(" ".join(self.words[start : start + length]))
                if key:
                    keys.setdefault(key)
                if len(keys) >= MAX_NAME_KEYS:
                    return tuple(keys)
        return tuple(keys)

    @property
    def wanted(self) -> frozenset[str]:
        """One term for each of its words."""
        return frozenset(self.spellings.get(term, term) for term in self.terms)

    def held(self, terms: Collection[str]) -> frozenset[str]:
        """Which of the wanted terms a text with these terms has, in any of their languages."""
        return frozenset(self.spellings.get(term, term) for term in self.terms.intersection(terms))


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(_POSSESSIVE.sub("", text).casefold()))


def parse_question(raw: object) -> Question:
    """The question in what a caller sent. Raises InvalidInput."""
    text = clean(raw).strip() if isinstance(raw, str) else ""
    if not text:
        raise InvalidInput("Ask a question: give a non-empty string.", code="empty_question")
    if len(text) > MAX_QUESTION_CHARS:
        raise InvalidInput(
            f"Shorten the question to {MAX_QUESTION_CHARS} characters (it has {len(text)}).", code="question_too_long"
        )
    spelled = variants(text)
    return Question(
        text,
        _words(text),
        terms=frozenset().union(*spelled),
        spellings={term: min(forms) for forms in spelled if len(forms) > 1 for term in forms},
    )
