"""The order of statements about one state, by valid time and said time: which of them is current.

Three times are distinguished. Valid time is when a state begins, said time is when a turn states it, known time is when
it was stored. Known time decides nothing, so that sessions may arrive in any order. docs/retrieval.md has the
rules as a table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import lru_cache

from memforest_core.domain.facts import CORRECTED_ITEM, Change, Modality, Polarity, Statement
from memforest_core.domain.ids import FactId, SessionId
from memforest_core.domain.state_names import canonical
from memforest_core.domain.text import terms
from memforest_core.domain.times import Precision, TimeSpan, micros

FORMER = "former "
"""How the names of attributes begin under which rules keep what held once."""
_JOKING = re.compile(r"(?i)\b(?:jk(?! rowling)|(?<!no |ot |ou |re )(?:kidding|joking)|nur spaß|scherz|en broma)\b")
_LAUGHING = re.compile(r"\b(?:lol|lmao|rofl)\b|[\U0001f602\U0001f923]", re.I)
_NOT_SO = re.compile(
    r"\b(?:(?:almosts?|nearly) (?:\w+ed|got|bought|went|took|left|became|had)|refuses? to|pretends?|wish(?:es)?|imagine"
    r"|dream(?:s|ed|t)? (?:of|that|about)|suppose|a lie|(?:not|n['’]t) true|(?<!no )doubts?|as if)\b",
    re.I,
)
_QUESTION = re.compile(
    r"(?:so|and|but|ok|oh|wait|then)?[ ,]*(?:(?:do|does|did|is|are|was|were|will|would|can|could|have|has|had|should)"
    r" (?:you|u|he|she|they|we|it|i|there|your|his|her|their|anyone)\b|does \w+ \w+|(?:who|what|when|where|which|why"
    r"|how)\b(?! an?\b))[^.!,]*\W*",
    re.I,
)
_PLANNED = re.compile(
    r"\b(?:regist(?:er|ers|ered)|sign(?:s|ed) (?:us|me|him|her|them|up)|book(?:s|ed)|appl(?:y|ied) (?:for|to)"
    r"|plan(?:s|ning)? (?:to|on|a)|wants? (?:to|us)|going to|gonna|hop(?:e|es|ing) to|think(?:ing)? (?:of|about)"
    r"|one day|will|might|maybe|next (?:week|month|year|spring|summer|autumn|fall|winter)|tomorrow)\b|['’]ll\b",
    re.I,
)
_ONCE = re.compile(r"\b(?:used to|back (?:when|then)|in those days)\b", re.I)


def joking(turn: str, *, perhaps: bool = False) -> bool:
    """Whether the words of a turn say that it is a joke, or ``perhaps`` one."""
    return _JOKING.search(turn) is not None or (perhaps and _LAUGHING.search(turn) is not None)


def not_so(said: str) -> bool:
    """Whether it jokes, wishes, takes back or says what only nearly came true."""
    return joking(said) or _NOT_SO.search(said) is not None


def is_only_question(turn: str) -> bool:
    """Whether a turn is a question alone, with a question mark or, as people type, in one sentence without it."""
    text = turn.strip()
    marked = text.endswith(("?", "\uff1f")) and re.search(r"[.!。]\s*\S", text) is None
    return marked or _QUESTION.fullmatch(text) is not None


def planned(turn: str) -> bool:
    """Whether a turn has a plan, which may not have come."""
    return _PLANNED.search(turn) is not None


def meant(statement: Statement, question: Collection[str], *, now: bool) -> bool:
    """Whether a statement says how things are or, without ``now``, were, and of nobody's relative whom the question's
    terms do not name."""
    _, other, relation = statement.subject.rpartition("'s ")
    others = other and set(question).isdisjoint(terms(relation))
    once = now and (statement.attribute.startswith(FORMER) or _ONCE.search(statement.text))
    return not (others or once or statement.modality is Modality.HYPOTHETICAL or not_so(statement.text))


STATE_SLACK = timedelta(days=365)
"""A state without a date ("I live in Oslo") began at some time before it was said. A change that was said later ends
it, unless that change is so much earlier that it is about the past ("I moved to Madrid in 2015")."""
CHANGE_SLACK = timedelta(days=7)
"""A change without a date ("I moved to Oslo") happened shortly before it was said."""

Position = tuple[int, int, int, str]
"""A position in the order of time: microseconds since 1970, then what breaks ties."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """A fact as chains need it. ``key`` is its place among the leaves of a tree: microseconds, ordinal, item."""

    id: FactId
    subject_key: str
    attribute: str
    statement: Statement
    key: tuple[int, int, int]
    known_since: datetime
    """When it was stored."""
    superseded_by: FactId | None = None
    superseded_at: datetime | None = None
    """What it was corrected to, and when that became known."""
    redated: bool = False
    """Whether a correction gave it its time: that is no guess, so it also goes before what was valid later."""


@dataclass(frozen=True, slots=True)
class Mention:
    """One time a fact was said: when, and in which turns of which session."""

    fact_id: FactId
    session_id: SessionId
    turn_ordinals: tuple[int, ...]
    said_at: datetime
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A fact with some of the times it was said, in the order of time, and its place among others."""

    fact: StoredState
    mentions: tuple[Mention, ...]
    position: Position

    @property
    def said_at(self) -> datetime:
        """Its first mention time."""
        return self.mentions[0].said_at

    @property
    def began(self) -> TimeSpan:
        """When its state began, if it says so; else its first mention time, by which it had begun."""
        if self.fact.statement.time.known and _dates_beginning(self.fact.statement):
            return self.fact.statement.time
        return TimeSpan(self.said_at, self.said_at, Precision.MINUTE)


class Role(Enum):
    """What a statement does in its chain."""

    SETS = auto()
    ENDS = auto()
    MARKED = auto()
    """Planned and not due yet, heard of, supposed, denied or past: it changes nothing."""
    EVENT = auto()
    """It sets no attribute."""
    WRONG = auto()
    """Somebody corrected it: it never held."""


class Tense(Enum):
    """The tense of the verb that a value belongs to, as far as English words do."""

    PAST = auto()
    PRESENT = auto()
    CHANGE = auto()
    """It says how the state began ("got married")."""
    UNKNOWN = auto()


_PAST_VERBS = "lived|resided|worked|served|was|were|had|owned|dated|kept|rented|drove"
_PRESENT_VERBS = (
    "lives?|living|resides?|residing|stays?|works?|working|is|are|am|has|have|owns?|keeps?|dating|drives?|rents?"
    "|weighs?"
)
_CHANGE_VERBS = "got|became|moved|settled|started|began|joined|adopted|bought|switched|changed|relocated|took"
_LINKS = r"(?:\s+(?!(?:and|but|or|when|where|who|which|that|because|while|so|if)\b)[\w'’-]+){0,3}?"
_SINCE = re.compile(r"\bsince\b", re.IGNORECASE)

_DENIED = frozenset({"preference", "diet", "allergy", "activity", "relationship", "pet", "possession"})
"""Of these a denial is a state itself ("not vegan", "hates fish"); of the others it only ends what it denies."""
_ENDS_BY_ITSELF = frozenset({"residence", "job", "employer", "relationship", "pet", "possession", "car", "phone"})
"""In the past tense these tell what is over ("she worked at Initech"); a past figure is the last one that is known."""


def placed(fact: StoredState, mentions: Sequence[Mention]) -> list[Said]:
    """A fact among others before they are put in order: once if it says when; without a date it says how things were at
    each mention."""
    spoken = tuple(sorted(mentions, key=lambda mention: (mention.said_at, mention.turn_ordinals)))
    if not spoken:
        return []
    start = fact.statement.time.start
    if start is not None and tense_of(fact.statement) is not Tense.PRESENT:
        return [Said(fact, spoken, _at(fact, spoken[0], start))]
    if start is not None and _dates_beginning(fact.statement):
        return [Said(fact, spoken, _at(fact, spoken[0], start))]
    if not fact.attribute:
        return [Said(fact, spoken, _at(fact, spoken[0], spoken[0].said_at))]
    return [Said(fact, (mention,), _at(fact, mention, mention.said_at)) for mention in spoken]


def role_of(said: Said, now: datetime | None = None) -> Role:
    """What a statement does in its chain, at ``now``.

    What comes after its mention time is a plan, however it was worded; once its date has passed it sets its state.
    """
    statement = said.fact.statement
    if not statement.attribute:
        return Role.EVENT
    if statement.modality not in {Modality.ASSERTED, Modality.PLANNED}:
        return Role.MARKED
    if is_plan(said) and not _due(statement.time, now):
        return Role.MARKED
    stops = statement.change is Change.STOP
    if statement.polarity is Polarity.NEGATIVE:
        if is_denial(statement):
            return Role.SETS
        return Role.ENDS if stops or statement.change is Change.CORRECT else Role.MARKED
    if not stops and canonical(statement.attribute) in _ENDS_BY_ITSELF and tense_of(statement) is Tense.PAST:
        return Role.MARKED
    return Role.ENDS if stops else Role.SETS


def _due(time: TimeSpan, now: datetime | None) -> bool:
    """Whether a plan's date has passed; of "next year" nobody knows whether it has."""
    vague = time.precision in {Precision.YEAR, Precision.UNKNOWN}
    return now is not None and time.end is not None and not vague and time.end <= now


def is_plan(said: Said) -> bool:
    """Whether it was still to come at its mention time."""
    return said.fact.statement.modality is Modality.PLANNED or _lies_ahead(said)


def is_denial(statement: Statement) -> bool:
    """Whether it is a state that something is not so ("not vegan"), and not the end of one."""
    denied = statement.polarity is Polarity.NEGATIVE and statement.modality is Modality.ASSERTED
    return denied and statement.change is Change.NONE and canonical(statement.attribute) in _DENIED


def tense_of(statement: Statement) -> Tense:
    """Whether a state without a change is said in the past or in the present tense; changes have none."""
    if statement.change is not Change.NONE or not statement.value.strip():
        return Tense.UNKNOWN
    return _tense(statement.text.casefold(), statement.value.casefold().strip())


def arranged(said: Iterable[Said]) -> list[Said]:
    """Statements of one chain that set or end a state, in the order in which each takes the place of those before it.

    That is the order in which they were said, except that what certainly began before another goes before it. Each
    gets a position in that order: its own, or one just before that of its successor.
    """
    order: list[tuple[_Reach, Said]] = []
    for each in sorted(said, key=spoken):
        reach = _reach(each)
        at = len(order)
        while at and reach.certainly_before(order[at - 1][0]):
            at -= 1
        order.insert(at, (reach, each))
    found: list[Said] = []
    for _, each in reversed(order):
        if found and each.position >= found[-1].position:
            time, ordinal, item, _ = found[-1].position
            each = replace(each, position=(time, ordinal, item - 1, each.position[3]))
        found.append(each)
    return found[::-1]


@dataclass(frozen=True, slots=True)
class _Reach:
    """Between which times what was said began, in microseconds: at or after ``first``, before ``last``."""

    first: int
    last: int
    held: int
    """A time at which it held."""
    change: bool

    def certainly_before(self, other: _Reach) -> bool:
        """A change counts from when another can have begun, a state from when the other held."""
        return self.last <= (other.first if self.change else other.held)


def _reach(said: Said) -> _Reach:
    statement = said.fact.statement
    time, spoken = statement.time, micros(said.said_at)
    change = _dates_beginning(statement)
    if time.start is not None and time.end is not None:
        start, end = micros(time.start), micros(time.end)
        match tense_of(statement):
            case _ if said.fact.redated:
                return _Reach(start, end, start, change=False)
            case Tense.PRESENT:
                return _Reach(start if change else spoken - _STATE, spoken + 1, spoken, change)
            case _ if change:
                return _Reach(start, end, start, change)
            case _:
                return _Reach(start - _STATE, end, start, change)
    return _Reach(spoken - (_CHANGE if change else _STATE), spoken + 1, spoken, change)


_STATE = STATE_SLACK // timedelta(microseconds=1)
_CHANGE = CHANGE_SLACK // timedelta(microseconds=1)


def spoken(said: Said) -> tuple[int, int, int, str]:
    """The order in which statements were said."""
    first = said.mentions[0]
    return micros(first.said_at), _turn(first), said.fact.key[2], said.fact.id.hex


def _at(fact: StoredState, mention: Mention, moment: datetime) -> Position:
    return micros(moment), _turn(mention), fact.key[2], fact.id.hex


def _turn(mention: Mention) -> int:
    return min(mention.turn_ordinals, default=0)


def _dates_beginning(statement: Statement) -> bool:
    """Whether its time is when the state changed: a correction says how things are, "since" says when they began."""
    if statement.change is Change.NONE:
        since = statement.time.known and _SINCE.search(statement.text) is not None
        return since or tense_of(statement) is Tense.CHANGE
    return statement.change is not Change.CORRECT or statement.time.known


def _lies_ahead(said: Said) -> bool:
    """Whether it is dated after its mention time. A corrected fact has the position of the wrong words."""
    statement = said.fact.statement
    start = statement.time.start
    ahead = start is not None and start > said.said_at and tense_of(statement) is not Tense.PRESENT
    return ahead and said.fact.key[2] < CORRECTED_ITEM


@lru_cache(maxsize=16_384)
def _tense(text: str, value: str) -> Tense:
    found = re.search(
        rf"\b(?:(?P<past>{_PAST_VERBS})|(?P<change>{_CHANGE_VERBS})|{_PRESENT_VERBS})\b{_LINKS}\s+{re.escape(value)}",
        text,
    )
    if found is None:
        return Tense.UNKNOWN
    if found["past"]:
        return Tense.PAST
    return Tense.CHANGE if found["change"] else Tense.PRESENT
