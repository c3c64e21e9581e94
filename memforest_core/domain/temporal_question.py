"""What a question is about in the order of time: the attributes it names, and whether it is about a current state, one
before or after others, the first, or all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from memforest_core.domain.languages import ENGLISH as IN_ENGLISH
from memforest_core.domain.question_time import without_dates
from memforest_core.domain.state_names import spellings
from memforest_core.domain.text import terms
from memforest_core.domain.value_kinds import Kind, kind_of
from memforest_core.domain.words import ENGLISH, words_in, words_of
from memforest_core.domain.words.records import Attribute, NowWords, OrderWords, Words


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
    found = tuple(attribute for attribute, each in stems.items() if wanted & each.questions)
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


MAX_WORDS = 64
"""Words of a question that are looked at."""
MAX_ATTRIBUTE_WORDS = 3

_POSSESSIVE = re.compile(r"['\u2019]s?\s")
_WORD = re.compile(r"[^\W_]+(?:['\u2019]\w+)?")


class Order(StrEnum):
    """Which of several states, in the order of time, a question is after."""

    BEFORE = "before"
    AFTER = "after"
    BETWEEN = "between"
    FIRST = "first"
    LATEST = "latest"
    """The last one, which is current."""
    DURATION = "duration"
    """How long one lasted, or how long lies between two; also how often."""
    ALL = "all"
    """Each of them: which ones, how many."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class OrderQuery:
    """What a question wants in the order of time, and the words that name the states it starts from.

    Without an ``anchor``, BEFORE and AFTER are meant from the current state. ``other`` is the second of two.
    """

    order: Order
    anchor: str = ""
    other: str = ""


NO_ORDER = OrderQuery(Order.NONE)


@lru_cache(maxsize=1_024)
def order_of(question: str) -> OrderQuery:
    """What a question wants in the order of time, such as BEFORE "Miami"; dates are ``named_period``'s and no anchors.
    Raises nothing."""
    text = without_dates(question)
    found = (_order_in(text, words.order) for words in words_of(question))
    return next((each for each in found if each.order is not Order.NONE), NO_ORDER)


def _order_in(text: str, words: OrderWords) -> OrderQuery:
    """What a text without dates wants by the words of one language."""
    if words.duration.search(text):
        return OrderQuery(Order.DURATION)
    between = words.between.search(text)
    if between is None or words.not_time_between.search(text[: between.start()]):
        between = words.after_and_before.search(text)
    if between is not None:
        other = _clause(between["other"], between.start() == 0, words)
        return OrderQuery(Order.BETWEEN, _trimmed(between["one"]), _trimmed(other))
    for side in (found for pattern in words.sides for found in pattern.finditer(text)):
        anchor = _anchor(text, side, words)
        if anchor is not None:
            return OrderQuery(Order.AFTER if _is_after(side, words) else Order.BEFORE, anchor)
    for order, pattern in (
        (Order.BEFORE, words.before_words),
        (Order.AFTER, words.after_words),
        (Order.FIRST, words.first_words),
        (Order.LATEST, words.latest_words),
    ):
        if pattern.search(text):
            return OrderQuery(order)
    return NO_ORDER


def _is_after(side: re.Match[str], words: OrderWords) -> bool:
    return side["word"].casefold().startswith(words.after)


def _anchor(text: str, side: re.Match[str], words: OrderWords) -> str | None:
    """What before or after starts from; empty when nothing is named, None when it is about no state."""
    before = text[: side.start()]
    if words.other_sense.search(text[: side.end("word")]):
        return None
    named = _trimmed(_clause(side["rest"], not before.strip(), words))
    if not named:
        return "" if not _is_after(side, words) and before.strip() else None
    if words.back.fullmatch(named):
        return ""
    return None if words.habit.fullmatch(named) or words.dated.fullmatch(named) else named


def _clause(text: str, fronted: bool, words: OrderWords) -> str:
    """The words up to where the clause ends; one at the head of the question ends where the question proper begins."""
    end = words.clause_end.search(text)
    if fronted:
        end = min((found for found in (end, words.inverted.search(text)) if found), key=re.Match.start, default=None)
    return text[: end.start()] if end else text


def _trimmed(words: str) -> str:
    return " ".join(words.split()).strip(" ,'\"()¿¡")


def is_about_still(question: str) -> bool:
    """Whether a question is about something going on: a value may name its attribute ("still at Initech?")."""
    spoken = [words.now for words in words_of(question) if words.now.still.search(question)]
    return any(not _is_otherwise(question, words) for words in spoken)


def current_attributes(question: str) -> frozenset[str]:
    """The names, as facts may carry them, of the attributes whose present state a question wants.

    Empty for a question about something else: for the past or the future, for an order, for no state.
    """
    found = {attribute for words in words_of(question) for attribute in _now_attributes(question, words.now)}
    return frozenset(name for attribute in found for name in spellings(attribute))


def previous_attributes(question: str) -> frozenset[str]:
    """The names of the attributes whose earlier state a question wants: "where did I live before Miami"."""
    wanted = order_of(question)
    if wanted.order is not Order.BEFORE:
        return frozenset()
    rest = question.replace(wanted.anchor, " ") if wanted.anchor else question
    named = [pair for words in words_of(question) for pair in words.now.named]
    found = {attribute for attribute, pattern in named if pattern.search(rest)}
    return frozenset(name for attribute in found for name in spellings(attribute))


def _now_attributes(question: str, words: NowWords) -> set[str]:
    """The attributes that a question names by the words of one language."""
    if _is_otherwise(question, words):
        return set()
    found = {attribute for attribute, pattern in words.plain if pattern.search(question)}
    if words.now.search(question):
        found.update(attribute for attribute, pattern in words.named if pattern.search(question))
        found.update(_word_groups(_WORD.findall(question.casefold())[:MAX_WORDS]))
    named = words.what_is.search(question)
    if named is not None:
        what = _POSSESSIVE.split(named["what"])[-1].strip().casefold()
        found.update(attribute for attribute, pattern in words.named if pattern.fullmatch(what))
        found.add(what)
    return found


def _is_otherwise(question: str, words: NowWords) -> bool:
    return words.not_now.search(question) is not None or order_of(question).order not in {Order.NONE, Order.LATEST}


def _word_groups(words: Sequence[str]) -> set[str]:
    """What may be an attribute's own name: "rent", "blood pressure"."""
    return {
        " ".join(words[start : start + length])
        for length in range(1, MAX_ATTRIBUTE_WORDS + 1)
        for start in range(len(words) - length + 1)
    }


SIDE_BY_SIDE = frozenset({"pet", "possession"})
"""Attributes of which several values hold: of a question about those that hold now not all of them are meant."""


@lru_cache(maxsize=1_024)
def series_of(question: str) -> Order:
    """Which of several statements about one thing, by their order, a question is after.

    NONE for most questions, and for one of how long something was, which one statement may answer. Raises nothing.
    """
    text, order = without_dates(question), order_of(question).order
    spoken = [words.series for words in words_of(question)]
    if any(words.often.search(text) for words in spoken):
        return Order.DURATION
    if order is Order.DURATION and kind_of(question) is Kind.DURATION:
        return Order.NONE
    if order is not Order.NONE:
        return order
    if not SIDE_BY_SIDE.isdisjoint(current_attributes(question)):
        return Order.LATEST
    return Order.ALL if any(words.every.search(text) for words in spoken) else order


def lists_all(question: str) -> bool:
    """Whether a question wants all of several things, so that more of them are an answer too."""
    return series_of(question) is Order.ALL


def as_subject(question: str, names: Iterable[tuple[int, int]]) -> str:
    """The question in the words of its subject: "Where does Ann live now?" as "Where does I live now?".

    ``names`` are the positions of that one's names in it. What people say of themselves is nearer to this, because it
    shares no name with everything else that they said.
    """
    words = words_of(question)[0].series
    text = question
    for start, end in sorted(names, reverse=True):
        of = words.possessive.match(text, end)
        text = text[:start] + (words.my if of else words.i) + text[of.end() if of else end :]
    text = words.theirs.sub(words.my, text)
    return " ".join(words.they.sub(words.i, text).split())
