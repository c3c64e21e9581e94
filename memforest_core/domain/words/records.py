"""What recall knows of a language: the words that questions and statements are read by."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from re import Pattern

NEVER = re.compile(r"(?!)")
"""For what a language does not have."""


class Attribute(StrEnum):
    """A state that changes over a life; values are names of attributes as facts carry them."""

    RESIDENCE = "residence"
    JOB = "job"
    PET = "pet"
    WEIGHT = "weight"
    PROJECT = "status"


@dataclass(frozen=True, slots=True)
class WordList:
    """Whole words, casefolded, and what is looked for in the text itself: word forms, or signs without spaces."""

    words: frozenset[str]
    inside: Pattern[str] = NEVER

    def found(self, words: Collection[str], text: str) -> bool:
        """Whether a text, also given as its casefolded words, has one of them."""
        return not self.words.isdisjoint(words) or self.inside.search(text) is not None


@dataclass(frozen=True, slots=True)
class OrderWords:
    """Words of a language for a position in the order of time; groups are named as ``order`` reads them."""

    sides: tuple[Pattern[str], ...]
    """Before and after: ``word`` is the word itself, ``rest`` what may hold the anchor."""
    after: tuple[str, ...]
    """Beginnings of ``word`` that mean after; others mean before."""
    between: Pattern[str]
    """With ``one`` and ``other``."""
    duration: Pattern[str]
    """How long."""
    before_words: Pattern[str]
    after_words: Pattern[str]
    first_words: Pattern[str]
    latest_words: Pattern[str]
    habit: Pattern[str]
    """Anchors of before and after that are no states."""
    dated: Pattern[str]
    """Anchors that are dates."""
    back: Pattern[str]
    """Anchors that mean the current state."""
    clause_end: Pattern[str]
    inverted: Pattern[str] = NEVER
    """Where the question proper begins after a clause at its head."""
    other_sense: Pattern[str] = NEVER
    """A text up to and with ``word`` that means no time."""
    not_time_between: Pattern[str] = NEVER
    """A text up to ``between`` that means no time."""
    after_and_before: Pattern[str] = NEVER
    """As ``between``."""


@dataclass(frozen=True, slots=True)
class NowWords:
    """Words of a language for a current state; attributes are named as facts carry them."""

    now: Pattern[str]
    still: Pattern[str]
    not_now: Pattern[str]
    plain: tuple[tuple[str, Pattern[str]], ...]
    """Questions in the plain present, by attribute."""
    what_is: Pattern[str]
    """With ``what``: the attribute's own name."""
    named: tuple[tuple[str, Pattern[str]], ...]
    """Words for attributes in a question that has a word of ``now``."""


@dataclass(frozen=True, slots=True)
class SeriesWords:
    """Words of a language for all of several things, for how often, and for oneself."""

    every: Pattern[str]
    """Words for all of several things: which ones, how many, both."""
    often: Pattern[str]
    """Words of a question for how often."""
    i: str
    my: str
    they: Pattern[str]
    """Somebody who was named before."""
    theirs: Pattern[str]
    """What is theirs."""
    possessive: Pattern[str] = NEVER
    """The ending of a name before something of theirs."""


@dataclass(frozen=True, slots=True)
class KindWords:
    """Words of a language for the kinds of values: in questions that want one, and in texts that have one."""

    code: Pattern[str] = NEVER
    """Questions for a code, or for what is typed somewhere."""
    duration: Pattern[str] = NEVER
    clock: Pattern[str] = NEVER
    """Questions for a time of day."""
    date: Pattern[str] = NEVER
    amount: Pattern[str] = NEVER
    durations: Pattern[str] = NEVER
    clocks: Pattern[str] = NEVER
    dates: Pattern[str] = NEVER
    """Dates, days and seasons, near ones too ("yesterday")."""
    numbers: Pattern[str] = NEVER
    """Numbers in words."""
    corrections: Pattern[str] = NEVER
    """By what somebody takes back a value."""


@dataclass(frozen=True, slots=True)
class FollowUpWords:
    """By what a question seems to lean on what was said before it."""

    backward: frozenset[str] = frozenset()
    """Words that stand for something said before, unless a name before them in the question is what they stand for."""
    last: frozenset[str] = frozenset()
    """Words that do so at a question's end; elsewhere they mostly do not."""
    that: frozenset[str] = frozenset()
    """Words that do so after one of ``before_that``."""
    before_that: frozenset[str] = frozenset()
    periods: frozenset[str] = frozenset()
    """Words that make a time with one of ``that``: "after this week" refers to nothing said before."""
    openings: tuple[str, ...] = ()
    """Beginnings of a question that goes on from something."""
    elliptic_words: int = 0
    """A question of fewer words, or of as many without a name, leaves out its subject."""
    inside: Pattern[str] = NEVER
    """Words for something said before, anywhere in the text."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Words of one attribute, with spaces between them."""

    question: str
    """A question with one of them may be about the attribute."""
    statement: str
    """A statement with one of them may state it."""


@dataclass(frozen=True, slots=True)
class Words:
    """Everything about one language."""

    language: str
    """Snowball's name, or that of a language whose terms are signs and pairs of signs."""
    first_person: WordList
    """Words that mean the owner."""
    ours: frozenset[str]
    """Words that say whose relatives are meant: those of the owner."""
    relatives: str
    """Words for people whom others are said to have, as alternatives of a regular expression."""
    order: OrderWords
    now: NowWords
    series: SeriesWords
    follow_up: FollowUpWords
    kinds: KindWords = field(default_factory=KindWords)
    wordings: Mapping[Attribute, Wording] = field(default_factory=dict)
    living: str = ""
    """Words of the residence that are said of much else: with another attribute they mean no residence."""
    spaced: bool = True
    """Whether spaces part words; without them the words of ``wordings`` are terms as they stand."""
    relative_next: Pattern[str] = NEVER
    """Behind a name: not the one named is meant, but a relative."""
    relative_ahead: Pattern[str] = NEVER
    """The same before a name."""
