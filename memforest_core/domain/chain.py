"""One chain of (subject, attribute): repeated mentions become one state, and later states end earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from memforest_core.domain.facts import Change, Modality, Polarity, Statement
from memforest_core.domain.ids import FactId
from memforest_core.domain.state_names import canonical, single_valued
from memforest_core.domain.state_order import (
    Mention,
    Position,
    Role,
    Said,
    arranged,
    is_denial,
    is_plan,
    role_of,
    spoken,
)
from memforest_core.domain.text import normalize_name, normalize_statement
from memforest_core.domain.times import TimeSpan

_IDLE = frozenset(
    {"a", "an", "the", "my", "our", "his", "her", "their", "new", "old", "named", "called", "of", "at", "in"}
)


@dataclass(slots=True, eq=False)
class ChainState:
    """A state while its chain is read."""

    role: Role
    said: list[Said]
    supersedes: list[FactId] = field(default_factory=list)
    superseded_by: FactId | None = None
    ended: TimeSpan | None = None
    """When what ended it began, or else when that was said; None while nothing ended it."""

    @property
    def id(self) -> FactId:
        """The fact that says it first."""
        return self.said[0].fact.id

    @property
    def statement(self) -> Statement:
        """As it was said first."""
        return self.said[0].fact.statement

    @property
    def quote(self) -> str:
        """The words that say it first; none of a correction, whose turns say what was wrong."""
        return "" if self.statement.source == "person" else self.said[0].mentions[0].quote

    @property
    def time(self) -> TimeSpan:
        """When it began or happened: the first date that is known of it."""
        times = (each.fact.statement.time for each in self.said)
        return next((time for time in times if time.known), self.statement.time)

    @property
    def position(self) -> Position:
        """Its place in the order of time."""
        return self.said[0].position

    @property
    def current(self) -> bool:
        """Whether it is valid as far as is known."""
        return self.role is Role.SETS and self.superseded_by is None

    @property
    def planned(self) -> bool:
        """Whether it is known from plans alone, whose date has passed."""
        return self.current and all(is_plan(each) for each in self.said)

    @property
    def mentions(self) -> list[Mention]:
        """Every time it was said, in the order of time."""
        return sorted((mention for each in self.said for mention in each.mentions), key=lambda each: each.said_at)


def wrong_states(said: Iterable[Sequence[Said]], states: Sequence[ChainState]) -> list[ChainState]:
    """The states of corrected facts, each ended by the one that says it right (else named by its fact), for chains that
    they do not change; ``states`` are all others."""
    found = [ChainState(Role.WRONG, list(each)) for each in said if each]
    by_fact = {each.fact.id: state for state in (*found, *states) for each in state.said}
    for state in found:
        right = state.said[0].fact.superseded_by
        if right is not None and right in by_fact:
            _supersede(by_fact[right], state)
        else:
            state.superseded_by = right
    return found


def states_of(attribute: str, said: Iterable[Said], now: datetime | None = None) -> list[ChainState]:
    """The states of one chain in the order of time. ``said`` are all of one subject and attribute, in any order.

    A value said again joins its state. Of an attribute with one value at a time, another value ends the one before; of
    the others a value ends only what a switch, a correction, a stop or the opposite names. Plans that were due before
    ``now`` count, unless something said later takes them back; without ``now`` none does.
    """
    everything = list(said)
    single = single_valued(attribute)
    plans = [each for each in everything if role_of(each, now) is not Role.MARKED and is_plan(each)]
    taken_back = frozenset(plan.fact.id for plan in plans if _taken_back(plan, everything, single))
    chain = _Chain(single, now, taken_back)
    others: list[Said] = []
    changing: list[Said] = []
    for each in everything:
        changes = chain.role(each) in {Role.SETS, Role.ENDS} or _denies(each.fact.statement)
        (changing if changes else others).append(each)
    for each in sorted([*others, *arranged(changing)], key=lambda each: each.position):
        chain.add(each)
    chain.correct()
    return chain.states


def _taken_back(plan: Said, others: Iterable[Said], single: bool) -> bool:
    """Whether something said after a plan denies it, says that it is done, or plans something else."""
    value, time = plan.fact.statement.value, plan.fact.statement.time
    for other in others:
        statement = other.fact.statement
        if spoken(other) <= spoken(plan):
            continue
        against = statement.polarity is Polarity.NEGATIVE or statement.change is Change.STOP
        done = statement.modality is Modality.ASSERTED and not is_plan(other)
        instead = is_plan(other) and (statement.time != time or not _alike(statement.value, value))
        if (instead and single) or ((against or done or instead) and _alike(statement.value, value)):
            return True
    return False


class _Chain:
    """The states so far, and which of them are current."""

    def __init__(self, single: bool, now: datetime | None, taken_back: frozenset[FactId]) -> None:
        self._single = single
        self._now = now
        self._taken_back = taken_back
        self._current: dict[object, ChainState] = {}
        self._marked: dict[object, ChainState] = {}
        self._unlike = count()
        self.states: list[ChainState] = []

    def role(self, said: Said) -> Role:
        """What a statement does; a plan that was taken back does nothing."""
        return Role.MARKED if said.fact.id in self._taken_back else role_of(said, self._now)

    def add(self, said: Said) -> None:
        """The next statement in the order of time."""
        statement = said.fact.statement
        role = self.role(said)
        if role is Role.ENDS and self._is_state(statement):
            role = Role.SETS
        if role is Role.MARKED and _denies(statement) and _key(statement, Polarity.POSITIVE) in self._current:
            role = Role.ENDS
        match role:
            case Role.EVENT:
                self.states.append(ChainState(role, [said]))
            case Role.MARKED:
                self._mark(said, (statement.polarity, statement.modality, _value_key(statement)))
            case Role.ENDS:
                self._end(said, statement)
            case Role.SETS:
                self._set(said, statement)

    def _is_state(self, statement: Statement) -> bool:
        """Being divorced is a state itself, though it is said as the end of another."""
        return (
            canonical(statement.attribute) == "relationship"
            and statement.polarity is Polarity.POSITIVE
            and bool(statement.value)
            and not self._meant(statement.value)
        )

    def _mark(self, said: Said, key: object) -> None:
        known = self._marked.get(key)
        if known is not None:
            known.said.append(said)
            return
        self._marked[key] = ChainState(Role.MARKED, [said])
        self.states.append(self._marked[key])

    def _end(self, said: Said, statement: Statement) -> None:
        ended = self._meant(statement.value or statement.previous_value)
        key = (Role.ENDS, _value_key(statement))
        known = self._marked.get(key)
        if known is not None and not ended:
            known.said.append(said)
            return
        self._marked[key] = ChainState(Role.ENDS, [said])
        self._append(self._marked[key], ended)

    def _set(self, said: Said, statement: Statement) -> None:
        known = self._same(statement)
        corrects = statement.change is Change.CORRECT
        other_value = (
            bool(statement.previous_value) and _value_key(statement) != _value_key(known.statement) if known else False
        )
        if known is not None and not (corrects and (other_value or statement.time != known.statement.time)):
            known.said.append(said)
            return
        state = ChainState(Role.SETS, [said])
        opposite = [
            each
            for each in self._current.values()
            if each.statement.polarity is not statement.polarity and _alike(each.statement.value, statement.value)
        ]
        if is_denial(statement):
            ended = opposite
        elif self._single:
            ended = [each for each in self._current.values() if not is_denial(each.statement) or each in opposite]
        elif opposite:
            ended = opposite
        elif corrects or statement.change is Change.SWITCH:
            ended = [known] if known is not None else self._meant(statement.previous_value)
        else:
            ended = []
        self._append(state, ended)
        self._current[_key(statement, statement.polarity) if _value_key(statement) else next(self._unlike)] = state

    def _append(self, state: ChainState, ended: Sequence[ChainState]) -> None:
        for each in ended:
            _supersede(state, each)
        self._current = {key: each for key, each in self._current.items() if each.superseded_by is None}
        self.states.append(state)

    def _same(self, statement: Statement) -> ChainState | None:
        """The current state with this value."""
        key = _value_key(statement)
        found = self._current.get(_key(statement, statement.polarity)) if key else None
        if found is None and key and self._single:
            same = (each for each in self._current.values() if each.statement.polarity is statement.polarity)
            found = next((each for each in same if _alike(each.statement.value, statement.value)), None)
        return found

    def _meant(self, value: str) -> list[ChainState]:
        """The current states that a value names: equal ones, else the latest alike; without a value the only one."""
        current = [each for each in self._current.values() if not is_denial(each.statement)]
        if not value.strip():
            return current if self._single or len(current) == 1 else []
        key = normalize_name(value)
        equal = [each for each in current if normalize_name(each.statement.value) == key]
        # Leaving Harborline ends being "a data analyst at Harborline Freight".
        named = _names(value) if self._single else frozenset()
        alike = (each for each in current if _names_one_thing(each.statement.value, value))
        return equal or [*alike, *(each for each in current if named and named <= _words(each.statement.text))][-1:]

    def correct(self) -> None:
        """What a correction names as wrong was said before it, though it may be about a later time."""
        for state in self.states:
            statement = state.statement
            if state.role is not Role.SETS or statement.change is not Change.CORRECT or not statement.previous_value:
                continue
            for other in self.states:
                wrong = other.role is Role.SETS and other.superseded_by is None and other is not state
                before = wrong and other.mentions[-1].said_at < state.mentions[0].said_at
                if before and _alike(other.statement.value, statement.previous_value):
                    if state.superseded_by == other.id:
                        state.superseded_by = state.ended = None
                        other.supersedes.remove(state.id)
                    _supersede(state, other)


def _denies(statement: Statement) -> bool:
    """Whether it says that a value is not valid ("I don't work at Initech"), and not when that ended."""
    denied = statement.polarity is Polarity.NEGATIVE and statement.change is Change.NONE
    return denied and statement.modality is Modality.ASSERTED and bool(statement.value.strip())


def _supersede(state: ChainState, other: ChainState) -> None:
    other.superseded_by = state.id
    other.ended = state.said[0].began if state.role is not Role.WRONG else None
    state.supersedes.append(other.id)


def _key(statement: Statement, polarity: Polarity) -> tuple[str, Polarity]:
    """What makes two statements one state: that something is so, or that it is not."""
    return _value_key(statement), polarity


def _value_key(statement: Statement) -> str:
    """What makes two statements one state; without a value it is the sentence."""
    if not statement.value.strip():
        return ""
    if _has_digit(statement.value):
        return " ".join(statement.value.casefold().split())
    return normalize_name(statement.value) or normalize_statement(statement.value)


def _has_digit(text: str) -> bool:
    """Or a sign that distinguishes values: A+ and A-, C and C++."""
    return any(char.isdigit() or char in "+#" for char in text) or text.rstrip().endswith("-")


def _alike(one: str, other: str) -> bool:
    """Whether two values are one, said with more or fewer words ("Davis", "Davis, California"); figures are exact."""
    if not one.strip() or not other.strip():
        return False
    if _has_digit(one) or _has_digit(other):
        return " ".join(one.casefold().split()) == " ".join(other.casefold().split())
    shorter, longer = sorted((normalize_name(one).split(), normalize_name(other).split()), key=len)
    return bool(shorter) and longer[: len(shorter)] == shorter


def _names_one_thing(one: str, other: str) -> bool:
    """Whether two values name one thing: a common name, or a common word when one of them has no name."""
    names, others = _names(one), _names(other)
    if names and others:
        return not names.isdisjoint(others)
    return not (_words(one) - _IDLE).isdisjoint(_words(other) - _IDLE)


def _words(value: str) -> frozenset[str]:
    return frozenset(normalize_name(value).split())


def _names(value: str) -> frozenset[str]:
    return frozenset(normalize_name(word) for word in value.split() if word[:1].isupper())
